"""Where run files are: a directory. Files are immutable and their names are never used twice, so they can be mapped.
`object_files` has the same in a bucket.

Nobody reads a file that is not, byte for byte, what was written: Arrow believes what it maps, and a wrong offset of a
string would be a wrong address.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Protocol

import pyarrow as pa

from riverrun import durable
from riverrun.checksums import checksum
from riverrun.errors import Corrupt, from_system


class Content(NamedTuple):
    """What must be in a file."""

    size: int  # in bytes
    crc: int


def damaged(file: str, what: str) -> Corrupt:
    """The error for a run file that is not what was written."""
    return Corrupt(f"state file {file} {what}", hint="Rebuild the flow from its topics")


def checked(buffer: pa.Buffer, content: Content, file: str) -> pa.Buffer:
    """What a file holds, `Corrupt` unless it is what must be in it."""
    if buffer.size != content.size:
        raise damaged(file, f"has {buffer.size} bytes instead of {content.size}")
    if checksum(buffer) != content.crc:
        raise damaged(file, "is not what was written")
    return buffer


class RunFiles(Protocol):
    """Run files of a place. One is durable when `write` returns; nothing is ever overwritten."""

    location: str

    def write(self, name: str, batch: pa.RecordBatch) -> Content:
        """Store a batch as an Arrow file."""

    def read(self, name: str, content: Content) -> pa.RecordBatch:
        """The batch of a file. `Corrupt` unless it has what `write` said."""

    def names(self) -> list[str]:
        """Every run file that is there, whether a manifest names it or not."""

    def delete(self, names: Iterable[str]) -> None:
        """Remove files, as far as they are there."""


class Files:
    """A directory of run files. A file is durable when `write` returns; nothing is ever overwritten."""

    def __init__(self, location: str | Path) -> None:
        self.location = os.path.abspath(location)

    def write(self, name: str, batch: pa.RecordBatch) -> Content:
        """Store a batch as an Arrow file."""
        durable.make_directory(self.location)
        path = f"{self.location}/{name}"
        with durable.new_file(path) as out:
            with pa.ipc.new_file(out, batch.schema) as arrow:
                arrow.write_batch(batch)
            out.flush()
            with pa.memory_map(path) as written:
                return Content(written.size(), checksum(written.read_buffer()))

    def read(self, name: str, content: Content) -> pa.RecordBatch:
        """Map a file. `Corrupt` unless it has what `write` said."""
        try:
            mapped = pa.memory_map(f"{self.location}/{name}")
        except FileNotFoundError:
            raise damaged(f"{self.location}/{name}", "is missing") from None
        except OSError as error:
            raise from_system(error, f"state file {self.location}/{name} cannot be opened") from error
        return pa.ipc.open_file(checked(mapped.read_buffer(), content, f"{self.location}/{name}")).get_batch(0)

    def names(self) -> list[str]:
        """Every run file that is there, whether a manifest names it or not."""
        with suppress(FileNotFoundError):
            return sorted(name for name in os.listdir(self.location) if name.endswith(".arrow"))
        return []

    def delete(self, names: Iterable[str]) -> None:
        for name in names:
            with suppress(FileNotFoundError):
                os.unlink(f"{self.location}/{name}")
