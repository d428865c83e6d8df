"""Run files in an object store: written there before anybody names them, read from a cache on this machine's disk.

Files are immutable and their names are never used twice, so a copy is never stale; one that was damaged or removed is read
again.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from riverrun.caches import cache_directory
from riverrun.checksums import checksum
from riverrun.object_folder import ObjectFolder
from riverrun.state.file_cache import FileCache
from riverrun.state.files import Content, checked, damaged


class ObjectFiles:
    """The run files below a prefix of a bucket, with the interface of `Files`."""

    def __init__(self, location: str, cache_bytes: int) -> None:
        self._folder = ObjectFolder(location)
        self.location = self._folder.address
        self._cache = FileCache(f"{cache_directory()}/state", cache_bytes)

    def write(self, name: str, batch: pa.RecordBatch) -> Content:
        """Store a batch as an Arrow file."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, batch.schema) as arrow:
            arrow.write_batch(batch)
        data = sink.getvalue()
        self._folder.write(name, data)
        self._cache.keep(name, data)
        return Content(data.size, checksum(data))

    def read(self, name: str, content: Content) -> pa.RecordBatch:
        """The batch of a file. `Corrupt` unless it has what `write` said."""
        buffer = self._cached(name, content)
        if buffer is None:
            buffer = self._fetched(name, content)
            self._cache.keep(name, buffer)
            buffer = self._cached(name, content) or buffer  # mapped, it need not be in memory
        return pa.ipc.open_file(buffer).get_batch(0)

    def _cached(self, name: str, content: Content) -> pa.Buffer | None:
        buffer = self._cache.find(name)
        if buffer is not None and Content(buffer.size, checksum(buffer)) != content:
            self._cache.forget(name)
            return None
        return buffer

    def _fetched(self, name: str, content: Content) -> pa.Buffer:
        try:
            return checked(self._folder.buffer(name), content, f"{self.location}/{name}")
        except FileNotFoundError:
            raise damaged(f"{self.location}/{name}", "is missing") from None

    def names(self) -> list[str]:
        """Every run file that is there, whether a manifest names it or not."""
        return [name for name in self._folder.names() if name.endswith(".arrow")]

    def delete(self, names: Iterable[str]) -> None:
        gone = list(names)
        self._folder.delete(gone)
        for name in gone:
            self._cache.forget(name)
