"""Copies of immutable files, by name, on this machine's disk: bounded in size, shared by its processes, and nobody misses
one that is gone."""

from __future__ import annotations

import os
import uuid
from contextlib import suppress

import pyarrow as pa

from riverrun import durable


class FileCache:
    """A directory that holds no more than `limit` bytes; what was used longest ago makes room."""

    def __init__(self, directory: str, limit: int) -> None:
        self._directory = directory
        self._limit = limit

    def find(self, name: str) -> pa.Buffer | None:
        """The file, mapped; None where it is not here."""
        path = f"{self._directory}/{name}"
        try:
            with pa.memory_map(path) as file:
                buffer = file.read_buffer()
            os.utime(path)
            return buffer
        except OSError:
            return None

    def keep(self, name: str, content: pa.Buffer) -> None:
        """Keep a file, if there is room for it on the disk and in the limit."""
        if content.size > self._limit:
            return
        partial = f"{self._directory}/{uuid.uuid4().hex}.tmp"
        try:
            durable.make_directory(self._directory)
            with open(partial, "xb", opener=durable.open_file) as file:
                file.write(content)
            os.rename(partial, f"{self._directory}/{name}")
            self._make_room()
        except OSError:  # a full disk is no reason to fail: it is read again from where it is kept
            self.forget(os.path.basename(partial))

    def forget(self, name: str) -> None:
        """Remove a file, if it is here. Who has it mapped keeps it."""
        with suppress(OSError):
            os.unlink(f"{self._directory}/{name}")

    def _make_room(self) -> None:
        found = []
        for entry in os.scandir(self._directory):
            with suppress(FileNotFoundError):
                status = entry.stat()
                found.append((status.st_mtime_ns, status.st_size, entry.name))
        held = sum(size for _, size, _ in found)
        for _, size, name in sorted(found):
            if held <= self._limit:
                return
            self.forget(name)
            held -= size
