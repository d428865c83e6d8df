"""How rows get from one task to another, and to the driver: by reference on one machine, inside Spark elsewhere.

`put` gives what travels in the place of rows, `get` gives them back. On one machine a task writes its rows once, into a
file of the epoch in shared memory, and whoever needs them maps it; only the file's name, offset and length go through
Spark. What is small travels itself, and so does what there is no room for.

A file belongs to its epoch: the driver removes it when the epoch has taken effect, and everything that is left when a
run starts. A task that is tried again writes a file of its own. A file that is missing fails the epoch, which is then
repeated.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import stat
import uuid
from typing import Protocol

import pyarrow as pa
from pyarrow import ipc

from riverrun.errors import Transient, Unavailable

_MARK = b"\x00riverrun\x00"  # no Arrow message begins so
_SMALL = 16 << 10
_SHARED_MEMORY = "/dev/shm"
_FULL = (errno.ENOSPC, errno.EDQUOT)


class Exchange(Protocol):
    """What `put` gives in one process, `get` understands in another, as long as the epoch has not taken effect."""

    def put(self, rows: pa.RecordBatch) -> pa.Buffer:
        """What travels in the place of these rows."""

    def get(self, blob: pa.Buffer, schema: pa.Schema) -> pa.RecordBatch:
        """The rows."""

    def close(self) -> None:
        """A task has put in everything it has."""


class InlineExchange:
    """Rows travel themselves."""

    def put(self, rows: pa.RecordBatch) -> pa.Buffer:
        return rows.serialize()

    def get(self, blob: pa.Buffer, schema: pa.Schema) -> pa.RecordBatch:
        return ipc.read_record_batch(blob, schema)

    def close(self) -> None:
        pass


class SharedExchange:
    """Rows are written into files of a directory that all processes of the machine see; each task writes at most one.

    It takes no more than `limit` bytes; what is beyond travels itself.
    """

    def __init__(self, directory: str, epoch: int, limit: int) -> None:
        self._directory = directory
        self._epoch = epoch
        self._left = limit
        self._name = ""
        self._file: pa.OSFile | None = None
        self._mapped: dict[str, pa.MemoryMappedFile] = {}

    def put(self, rows: pa.RecordBatch) -> pa.Buffer:
        size = rows.get_total_buffer_size() if rows.num_rows < 64 else rows.nbytes
        if size < _SMALL or size > self._left:
            return rows.serialize()
        try:
            start, end = self._write(rows)
        except OSError as error:
            if error.errno not in _FULL:
                raise
            self._left = 0
            return rows.serialize()
        self._left -= end - start
        return pa.py_buffer(_MARK + f"{self._name}:{start}:{end - start}".encode())

    def _write(self, rows: pa.RecordBatch) -> tuple[int, int]:
        """Where in the file the rows are. They are written from where the columns are, without a copy."""
        if self._file is None:
            self._name = f"{self._epoch:012d}-{uuid.uuid4().hex}"
            path = f"{self._directory}/{self._name}"
            os.makedirs(self._directory, mode=0o700, exist_ok=True)  # who removes files may have removed it, too
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            self._file = pa.OSFile(path, "wb")
        start = self._file.tell()
        with ipc.new_stream(self._file, rows.schema) as writer:
            writer.write_batch(rows)
        return start, self._file.tell()

    def get(self, blob: pa.Buffer, schema: pa.Schema) -> pa.RecordBatch:
        if blob.size < len(_MARK) or blob.slice(0, len(_MARK)).to_pybytes() != _MARK:
            return ipc.read_record_batch(blob, schema)
        name, start, size = blob.slice(len(_MARK)).to_pybytes().decode().split(":")
        if name not in self._mapped:
            try:
                self._mapped[name] = pa.memory_map(f"{self._directory}/{name}")
            except FileNotFoundError:
                # Waiting brings nothing back: the epoch has to be computed again.
                raise Unavailable(
                    f"rows of epoch {self._epoch} are gone: {self._directory}/{name}",
                    hint="Something removes files there while the flow runs, such as RemoveIPC=yes of systemd-logind",
                ) from None
        file = self._mapped[name]
        file.seek(int(start))
        return ipc.open_stream(file.read_buffer(int(size))).read_next_batch()  # the columns are where the file is

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


class ExchangeDirectory:
    """The files of a flow's exchange, as its driver sees them: in shared memory where there is room, else in its home.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as home:
    ...     with ExchangeDirectory(home, room=1 << 20) as directory:
    ...         directory.size
    0
    """

    def __init__(self, home: str, room: int) -> None:
        self.path = _private_directory(home, room)
        self.sweep(None)

    def __enter__(self) -> ExchangeDirectory:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def size(self) -> int:
        """Bytes of rows that are on their way."""
        return sum(_size_of(entry) for entry in self._files())

    def sweep(self, epoch: int | None) -> None:
        """Remove the files of epochs up to this one; None: of all, since none of an earlier run will be read again."""
        for entry in self._files():
            if epoch is None or int(entry.name[:12]) <= epoch:
                _remove(entry.path)

    def _files(self) -> list[os.DirEntry[str]]:
        try:
            with os.scandir(self.path) as entries:
                return list(entries)
        except FileNotFoundError:
            return []

    def close(self) -> None:
        """Remove everything. Rows that are mapped stay readable."""
        shutil.rmtree(self.path, ignore_errors=True)


def _private_directory(home: str, room: int) -> str:
    """A directory that is this user's own. Its name follows from the flow's home, so that what a run leaves when it is
    killed is found by the next one."""
    name = hashlib.sha256(os.path.realpath(home).encode()).hexdigest()[:24]
    for place in (f"{_SHARED_MEMORY}/riverrun-{os.getuid()}-{name}", f"{home}/exchange"):
        if place.startswith(_SHARED_MEMORY) and not _has_room(_SHARED_MEMORY, room):
            continue
        try:
            os.makedirs(place, mode=0o700, exist_ok=True)
        except OSError:
            continue
        found = os.lstat(place)
        if stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077:
            return place
    raise Transient(f"no directory for rows between tasks can be made in {home}")


def _has_room(place: str, room: int) -> bool:
    try:
        found = os.statvfs(place)
    except OSError:
        return False
    return os.access(place, os.W_OK) and found.f_bavail * found.f_frsize > room


def _size_of(entry: os.DirEntry[str]) -> int:
    try:
        return entry.stat().st_size
    except FileNotFoundError:
        return 0


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
