"""The day of each flow, in the river: `history/<flow>.json`, some 20 kB.

The process that runs a flow and serves it writes the file, once a minute; every other one reads it. Only one run of a
flow is alive, so there is one writer.
"""

from __future__ import annotations

import logging
from urllib.parse import quote

import msgspec

from riverrun import durable
from riverrun.errors import RiverrunError
from riverrun.serve.pages.day import DayPart, FlowReading, add_part, between

log = logging.getLogger("riverrun.serve")

_FORMAT = 1


class DayDocument(msgspec.Struct, frozen=True):
    """What is in the file."""

    format: int
    parts: list[DayPart]


def day_path(river: str, flow: str) -> str:
    """Where the day of a flow is."""
    return f"{river}/history/{quote(flow, safe='')}.json"


def read_day(path: str) -> list[DayPart]:
    """What is known of a flow; nothing where there is no file, or none that can be read: it is no loss of data."""
    try:
        with open(path, "rb") as file:
            document = msgspec.json.decode(file.read(), type=DayDocument)
    except (OSError, msgspec.DecodeError):
        return []
    return document.parts if document.format == _FORMAT else []


class DayRecord:
    """The day of a flow that runs here."""

    def __init__(self, river: str, flow: str) -> None:
        self._path = day_path(river, flow)
        self._before: FlowReading | None = None
        self.parts = read_day(self._path)

    def take(self, reading: FlowReading) -> None:
        """One more reading; the file is written when a minute is over."""
        before, self._before = self._before, reading
        part = between(before, reading) if before else None
        if part is None:
            return
        is_over = bool(self.parts) and self.parts[-1].at != part.at
        if is_over:
            self._write()
        self.parts = add_part(self.parts, part)

    def _write(self) -> None:
        """A disk that is full, or a file that is somebody else's, must not stop the pages."""
        try:
            durable.make_directory(self._path.rpartition("/")[0])
            durable.write_file(self._path, msgspec.json.encode(DayDocument(_FORMAT, self.parts)))
        except (OSError, RiverrunError) as error:
            log.warning("the history of a flow could not be written to %s: %s", self._path, error)
