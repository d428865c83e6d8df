"""Files that survive a power cut, and that only their user can read. Below everything that writes files of a river.

Whoever reads a file finds all of what was written or all of what was there before, also after a crash: it is written
under another name, synced, renamed, and then its directory is synced.
"""

from __future__ import annotations

import errno
import os
import shutil
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO

FILE_MODE = 0o600
DIRECTORY_MODE = 0o700

_IOV_MAX = 1000


def open_file(path: str, flags: int) -> int:
    """A descriptor that child programs do not inherit. A file that this makes is private."""
    return os.open(path, flags | os.O_CLOEXEC, FILE_MODE)


def make_directory(path: str) -> None:
    """Make a private directory, and those above it that are missing. One that is there stays as it is."""
    parent = os.path.dirname(path)
    if parent and not os.path.isdir(parent):
        make_directory(parent)
    try:
        os.mkdir(path, DIRECTORY_MODE)
    except FileExistsError:
        if not os.path.isdir(path):
            raise


def make_private(path: str) -> None:
    """For a file that somebody else made, such as SQLite: from now on only its user can open it."""
    os.chmod(path, FILE_MODE)


def write_all(fd: int, buffers: Sequence[Any], at: int) -> None:
    """All of the buffers at byte `at`, also when the system writes only some at a time."""
    for i in range(0, len(buffers), _IOV_MAX):
        views = [memoryview(b).cast("B") for b in buffers[i : i + _IOV_MAX] if len(b)]
        while views:
            written = os.pwritev(fd, views, at)
            if written == 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            at += written
            while views and written >= len(views[0]):
                written -= len(views.pop(0))
            if written:
                views[0] = views[0][written:]


def sync(fd: int) -> None:
    """Return when an open file is on the disk."""
    os.fsync(fd)


def sync_file(path: str) -> None:
    """Return when the file is on the disk."""
    with _opened(path) as fd:
        os.fsync(fd)


def sync_data(path: str) -> None:
    """Return when the bytes of the file are on the disk, and how many they are; its times may follow later."""
    with _opened(path) as fd:
        os.fdatasync(fd)


def sync_directory(path: str) -> None:
    """Return when it is on the disk which files there are in the directory."""
    with _opened(path) as fd:
        os.fsync(fd)


@contextmanager
def new_file(path: str) -> Iterator[BinaryIO]:
    """A file to fill, whole and on the disk after the block; none if the block fails. It must not be there yet.

    A crash may leave a part of it under its name, so the name is one that nobody looks for until it is told.
    """
    with _filled(path) as file:
        yield file
    sync_directory(os.path.dirname(path))


def write_file(path: str, content: bytes | str) -> None:
    """Make the file, or replace it, as one step; on the disk when this returns. A kill may leave a `.tmp` beside it."""
    with _replaced(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)


def copy_file(path: str, target: str) -> None:
    """The same as `write_file`, with what another file holds."""
    with open(path, "rb") as source, _replaced(target) as file:
        shutil.copyfileobj(source, file, 1 << 20)


def rename(old: str, new: str) -> None:
    """Give a synced file or directory its name, or the place of another file; on the disk when this returns."""
    os.rename(old, new)
    sync_directory(os.path.dirname(new))


@contextmanager
def _replaced(path: str) -> Iterator[BinaryIO]:
    fresh = f"{path}.{uuid.uuid4().hex[:8]}.tmp"  # several may write the same file at the same time
    with _filled(fresh) as file:
        yield file
    rename(fresh, path)


@contextmanager
def _filled(path: str) -> Iterator[BinaryIO]:
    file = open(path, "xb", opener=open_file)  # noqa: SIM115 - what could not be opened must not be removed
    try:
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(path)
        raise


@contextmanager
def _opened(path: str) -> Iterator[int]:
    fd = os.open(path or ".", os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield fd
    finally:
        os.close(fd)
