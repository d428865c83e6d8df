"""What the planner remembers from epoch to epoch: how far event time has come at each source, producer by producer.

A memory is a value in a file that the plan names. It is written before the plan that names it is returned, and never
changed, so that a repeated epoch finds the same.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from functools import lru_cache

import msgspec

from riverrun.checksums import with_checksum, without_checksum
from riverrun.errors import Corrupt
from riverrun.folder import open_folder
from riverrun.kernels.watermark import Watermarks
from riverrun.runtime.compile.job import Job

_RESTORE = "Restore the directory of the flow from a copy that fits its views, or rebuild the flow"
_FORGET_EVERY, _KEPT = 16, 8  # epochs; Spark repeats at most the last one


class PlannerMemory:
    """The files of a flow's planner, in a directory or a bucket."""

    def __init__(self, job: Job, place: str) -> None:
        self._job = job
        self._place = place
        self._folder = open_folder(place)
        self._last: tuple[str | None, dict[str, Watermarks]] = (None, {})

    def recall(self, name: str | None) -> dict[str, Watermarks]:
        """The watermarks of this name, by the nodes they are planned for; without a name, those of a new flow."""
        if self._last[0] == name and self._last[1]:
            return self._last[1]
        stored = read_memory(self._place, name) if name else {}
        watermarks: dict[str, Watermarks] = {}
        for reading in self._job.readings:
            for node in reading.watermarks:
                if node in stored:
                    watermarks[node] = Watermarks.from_bytes(stored[node], reading.lateness, reading.idle)
                else:
                    watermarks[node] = Watermarks(reading.lateness, reading.idle)
        self._last = (name, watermarks)
        return watermarks

    def remember(self, epoch: int, watermarks: dict[str, Watermarks]) -> str:
        """Write down what is known after an epoch; gives the name to find it by."""
        name = f"{epoch:012d}-{uuid.uuid4().hex[:8]}"
        packed = msgspec.msgpack.encode({node: value.to_bytes() for node, value in watermarks.items()})
        self._folder.write(name, with_checksum(packed))
        self._last = (name, watermarks)
        self._forget(epoch)
        return name

    def _forget(self, epoch: int) -> None:
        if epoch % _FORGET_EVERY == 0:
            names = [name for name in self._folder.names() if name[:12].isdigit()]
            self._folder.delete(name for name in names if int(name[:12]) < epoch - _KEPT)


def read_memory(place: str, name: str) -> Mapping[str, bytes]:
    """A memory as it was written, by the nodes it is about; `Corrupt` when it is not that any more."""
    return _read_once(place, name) if "://" in place else _read(place, name)


@lru_cache(maxsize=16)
def _read_once(place: str, name: str) -> Mapping[str, bytes]:
    """For who asks for the status again and again: it is far away, and never changes."""
    return _read(place, name)


def _read(place: str, name: str) -> Mapping[str, bytes]:
    content = without_checksum(open_folder(place).read(name))
    if content is None:
        raise Corrupt(f"{place}/{name} is damaged", hint=_RESTORE)
    return msgspec.msgpack.decode(content, type=dict[str, bytes])
