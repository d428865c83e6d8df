"""Where run files are: a directory. Files are immutable and their names are never used twice, so they can be mapped."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import pyarrow as pa

from riverrun import durable
from riverrun.errors import Corrupt


class Files:
    """A directory of run files. A file is durable when `write` returns; nothing is ever overwritten."""

    def __init__(self, location: str | Path) -> None:
        self.location = os.path.abspath(location)

    def write(self, name: str, batch: pa.RecordBatch) -> int:
        """Store a batch as an Arrow file; returns its size in bytes."""
        durable.make_directory(self.location)
        with durable.new_file(f"{self.location}/{name}") as out:
            with pa.ipc.new_file(out, batch.schema) as arrow:
                arrow.write_batch(batch)
            return out.tell()

    def read(self, name: str, size: int) -> pa.RecordBatch:
        """Map a file. `size` is what `write` returned; a file that is missing or has another size is `Corrupt`."""
        path = f"{self.location}/{name}"
        try:
            there = os.path.getsize(path)
        except FileNotFoundError:
            raise self._damaged(name, "is missing") from None
        if there != size:
            raise self._damaged(name, f"has {there} bytes instead of {size}")
        try:
            return pa.ipc.open_file(pa.memory_map(path)).get_batch(0)
        except pa.ArrowInvalid as error:
            raise self._damaged(name, f"cannot be read: {error}") from None

    def _damaged(self, name: str, what: str) -> Corrupt:
        return Corrupt(f"state file {self.location}/{name} {what}", hint="Rebuild the flow from its topics")

    def names(self) -> list[str]:
        """Every run file that is there, whether a manifest names it or not."""
        with suppress(FileNotFoundError):
            return sorted(name for name in os.listdir(self.location) if name.endswith(".arrow"))
        return []

    def delete(self, names: Iterable[str]) -> None:
        for name in names:
            with suppress(FileNotFoundError):
                os.unlink(f"{self.location}/{name}")
