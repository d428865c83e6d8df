"""Where run files are: any file system of `pyarrow.fs`. Files are immutable and their names are never used twice.

On a local disk a run is memory-mapped where it lies; from elsewhere it is copied into a local cache once, by name.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs

from riverrun.errors import Corrupt, Unavailable


class Files:
    """A directory of run files. A file is durable when `write` returns; nothing is ever overwritten."""

    def __init__(self, location: str | Path, cache: str | Path | None = None) -> None:
        self.location = str(location)
        self._fs, self._root = _filesystem(self.location)
        self._local = isinstance(self._fs, pafs.LocalFileSystem)
        self._cache = Path(cache) if cache else Path(tempfile.gettempdir()) / f"riverrun-runs-{os.getuid()}"
        self._made = False

    def write(self, name: str, batch: pa.RecordBatch) -> int:
        """Store a batch as an Arrow file; returns its size in bytes."""
        if not self._made:
            self._fs.create_dir(self._root, recursive=True)
            self._made = True
        if self._local:
            return self._write_local(name, batch)
        with self._fs.open_output_stream(f"{self._root}/{name}") as out:
            _write_batch(out, batch)
            return int(out.tell())

    def _write_local(self, name: str, batch: pa.RecordBatch) -> int:
        with open(f"{self._root}/{name}", "xb") as out:
            _write_batch(out, batch)
            out.flush()
            os.fsync(out.fileno())
            size = out.tell()
        directory = os.open(self._root, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
        return size

    def read(self, name: str, size: int) -> pa.RecordBatch:
        """Map a file. `size` is what `write` returned; a file that is missing or has another size is `Corrupt`."""
        path = Path(self._root) / name if self._local else self._cached(name, size)
        try:
            found = path.stat().st_size
        except FileNotFoundError:
            raise self._damaged(name, "is missing") from None
        if found != size:
            raise self._damaged(name, f"has {found} bytes instead of {size}")
        try:
            return pa.ipc.open_file(pa.memory_map(str(path))).get_batch(0)
        except pa.ArrowInvalid as error:
            raise self._damaged(name, f"cannot be read: {error}") from None

    def _cached(self, name: str, size: int) -> Path:
        path = self._cache / name
        if path.exists() and path.stat().st_size == size:
            return path
        self._cache.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle, partial = tempfile.mkstemp(dir=self._cache)
        try:
            with os.fdopen(handle, "wb") as out, self._fs.open_input_stream(f"{self._root}/{name}") as source:
                shutil.copyfileobj(source, out, 1 << 20)
            os.replace(partial, path)
        except FileNotFoundError:
            os.unlink(partial)
            raise self._damaged(name, "is missing") from None
        except BaseException:
            os.unlink(partial)
            raise
        return path

    def _damaged(self, name: str, what: str) -> Corrupt:
        return Corrupt(f"state file {self.location}/{name} {what}", hint="Rebuild the flow from its topics")

    def names(self) -> list[str]:
        """Every run file that is there, whether a manifest names it or not."""
        wanted = pafs.FileSelector(self._root, allow_not_found=True)
        return sorted(info.base_name for info in self._fs.get_file_info(wanted) if info.extension == "arrow")

    def delete(self, names: Iterable[str]) -> None:
        for name in names:
            try:
                self._fs.delete_file(f"{self._root}/{name}")
            except FileNotFoundError:
                pass


def _write_batch(out: Any, batch: pa.RecordBatch) -> None:
    with pa.ipc.new_file(out, batch.schema) as file:
        file.write_batch(batch)


def _filesystem(location: str) -> tuple[pafs.FileSystem, str]:
    try:
        if "://" in location:
            filesystem, root = pafs.FileSystem.from_uri(location)
        else:
            filesystem, root = pafs.LocalFileSystem(), os.path.abspath(location)
    except (pa.ArrowInvalid, OSError) as error:
        raise Unavailable(f"state cannot be kept at {location}: {error}") from None
    return filesystem, root.rstrip("/")
