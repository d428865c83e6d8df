"""The manifest: which state files make up each node's state after an epoch.

It is committed with the epoch, in the flow's home store, and reaches the tasks of the next epoch through its control.
"""

from __future__ import annotations

from typing import Any

import msgspec

from riverrun.checksums import with_checksum, without_checksum
from riverrun.errors import Conflict, Corrupt
from riverrun.flow import Flow
from riverrun.flow.fingerprint import fingerprints, view_fingerprints
from riverrun.kernels.watermark import Said
from riverrun.views import Last


class SourceClock(msgspec.Struct):
    """How far event time has come at a source, and what it follows from; `named`: producers have names, else they are
    partitions."""

    topic: str
    watermark: int
    lateness: int
    idle: int | None
    named: bool = False


class Manifest(msgspec.Struct):
    """State after an epoch: node id → shard → entry, and what it was computed for.

    `home` is the directory of the checkpoint and the state it belongs to; a rebuild has its own, so the transaction that
    switches also decides which counts. A rebuild numbers its epochs from 1; `base` is what has to be added to an epoch's
    number so that sequences in topics go on rising.
    """

    epoch: int
    shards: int
    nodes: dict[str, dict[str, Any]]
    fingerprints: dict[str, str]
    final: bool = False
    sources: dict[str, SourceClock] = {}
    memory: str | None = None  # the planner's file that the clocks follow from
    home: str = ""  # below the river's checkpoints; by default the flow's name
    base: int = 0
    watermarks: dict[str, tuple[int, int]] = {}  # that nodes hold back, at the start and the end of the next epoch
    heard: dict[str, Said] = {}  # in this epoch, as its report says

    def encode(self) -> bytes:
        return with_checksum(msgspec.msgpack.encode(self))

    @classmethod
    def decode(cls, data: bytes) -> Manifest:
        content = without_checksum(data)
        if content is None:
            raise Corrupt(
                "the manifest of a flow, which is kept with its views, is damaged",
                hint="Restore the views together with the directory of the flow; or remove the views: a run computes them again",
            )
        return msgspec.msgpack.decode(content, type=cls)


def computation(flow: Flow) -> dict[str, str]:
    """What a manifest says of the flow it was made by: the fingerprints of its stateful nodes and of its views."""
    return {**fingerprints(flow.nodes), **view_fingerprints(list(flow.views.values()))}


def home_of(checkpoints: str, flow: str, last: Last) -> str:
    """The directory of a flow's checkpoint and state."""
    name = Manifest.decode(last.manifest).home if last.manifest else ""
    return f"{checkpoints}/{name or flow}"


def manifest_before(last: Last, epoch: int, flow: str) -> Manifest | None:
    """What the epoch behind `epoch` starts from. An epoch that is committed already is not computed again."""
    if last.epoch > epoch or (last.epoch == 0 and epoch == 0):
        return None
    if last.epoch < epoch or last.manifest is None:
        raise Conflict(
            f"flow {flow}: its checkpoint is at epoch {epoch}, its views are at epoch {last.epoch}",
            hint="Both belong together; restore the one that is older or newer, or rebuild the flow",
        )
    return Manifest.decode(last.manifest)
