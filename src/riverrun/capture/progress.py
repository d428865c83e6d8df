"""What a capture must know when it goes on after a kill, in one file that is replaced as a whole.

Written before the step it is about: a chunk that is noted here and not in the topic is read again, one that is in both is
done. Everything else follows from the topics.
"""

from __future__ import annotations

from typing import Any

import msgspec

from riverrun import durable
from riverrun.errors import Corrupt, NewerFormat
from riverrun.failpoints import failpoint

_FORMAT = 1


class TableProgress(msgspec.Struct):
    """How far the snapshot of a table is. `after` is the key behind which chunk number `chunk` begins, `last` the key it
    ends with (None: the table's end), `since` where the topic ended when the snapshot began."""

    state: str = "waiting"  # "reading", "read", "done", "stopped"; "left out": its changes passed by
    chunk: int = 0
    after: list[str] | None = None
    last: list[str] | None = None
    noted: bool = False  # whether `last` says something: the chunk was read, and perhaps appended
    rows: int = 0
    seen: int = 0  # transactions with a larger sequence no chunk has seen
    of: int | None = None
    since: dict[int, int] = {}
    again: bool = False  # the topic had rows before: what the table no longer has gets tombstones
    reason: str | None = None  # why it stopped
    columns: dict[str, str] = {}  # of the table when it was last looked at: name → type
    key: list[str] = []


class Progress(msgspec.Struct):
    """What is in the file."""

    identity: dict[str, Any] | None = None  # of the source
    generation: int = 0  # how often the source's log was begun anew: positions of different ones do not compare
    confirmed: int | None = None  # the source has been told no more than this
    bookmark: str | None = None  # what the source wants to know beside it
    splitting: tuple[int, int] | None = None  # the large transaction at hand, and how many changes make a part
    chunks: int = 0  # of all tables, so that each has a number of its own
    tables: dict[str, TableProgress] = {}
    format: int = _FORMAT


class ProgressFile:
    """The file of one capture."""

    def __init__(self, directory: str) -> None:
        durable.make_directory(directory)
        self._path = f"{directory}/progress.json"
        self.value = self._load()

    def save(self) -> None:
        """On the disk when this returns."""
        failpoint("capture.progress")
        durable.write_file(self._path, msgspec.json.encode(self.value))
        failpoint("capture.noted")

    def _load(self) -> Progress:
        try:
            with open(self._path, "rb") as file:
                found = msgspec.json.decode(file.read(), type=Progress)
        except FileNotFoundError:
            return Progress()
        except msgspec.MsgspecError as error:
            raise Corrupt(f"{self._path} cannot be read ({error})", hint="Restore it from a copy") from None
        if found.format > _FORMAT:
            raise NewerFormat(f"{self._path} was written by a newer Riverrun", hint="Upgrade Riverrun")
        return found
