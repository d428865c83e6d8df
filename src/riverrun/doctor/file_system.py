"""Where the river is, or would be: room, and what the log asks of a file system."""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator

from riverrun import durable
from riverrun.doctor.check import Check
from riverrun.errors import from_system

_LITTLE_ROOM = 1 << 30
_NO_ROOM = 64 << 20
_REMOTE = ("nfs", "nfs4", "cifs", "smb3", "fuse.sshfs", "9p")


def check_directory(place: str) -> Iterator[Check]:
    """Where the river is (or would be): room, and what the log asks of a file system."""
    free = shutil.disk_usage(place).free
    room = f"{free / 1e9:.1f} GB free in {place}"
    if free < _NO_ROOM:
        yield Check("disk", "failed", room, "Free some space, or put the river elsewhere: --river DIR")
    elif free < _LITTLE_ROOM:
        yield Check("disk", "warning", room, "Free some space soon; a full disk refuses appends")
    else:
        yield Check("disk", "ok", room)
    try:
        with tempfile.NamedTemporaryFile(dir=place, prefix=".riverrun-doctor-") as file:
            file.write(bytes(mmap.PAGESIZE))
            file.flush()
            begun = time.perf_counter()
            durable.sync(file.fileno())
            yield Check("writable", "ok", f"a durable write takes {(time.perf_counter() - begun) * 1e3:.1f} ms")
            yield check_locks(file.name, place)
            yield check_wake(file.name)
    except OSError as error:
        hint = "Make it writable for you, or give another directory: --river DIR"
        refused = from_system(error, f"{place} cannot be written", hint=hint)
        yield Check("writable", "failed", refused.message, refused.hint)


def check_locks(path: str, place: str) -> Check:
    """flock excludes, a shared map shows what others write, and the file system belongs to this machine."""
    kind = _file_system(place)
    fix = "Put the river on a local file system (ext4, xfs, apfs, tmpfs …): --river DIR"
    one, two = os.open(path, os.O_RDWR), os.open(path, os.O_RDWR)
    try:
        fcntl.flock(one, fcntl.LOCK_EX | fcntl.LOCK_NB)
        try:
            fcntl.flock(two, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return Check("file system", "failed", f"{kind}: flock does not exclude", fix)
        except BlockingIOError:
            pass
        with mmap.mmap(one, mmap.PAGESIZE) as first, mmap.mmap(two, mmap.PAGESIZE) as second:
            first[0] = 7
            if second[0] != 7:
                return Check("file system", "failed", f"{kind}: mapped files are not shared", fix)
    except OSError as error:
        return Check("file system", "failed", f"{kind}: {error.strerror}", fix)
    finally:
        os.close(one)
        os.close(two)
    if kind in _REMOTE:
        return Check("file system", "warning", f"{kind} is shared between machines; a river belongs to one", fix)
    return Check("file system", "ok", f"{kind}: flock and shared maps work")


def check_wake(path: str) -> Check:
    """Readers are woken by inotify; without it they look every 5 ms."""
    if sys.platform != "linux":
        return Check("wake-up", "ok", "no inotify on this system: readers look every 5 ms")
    try:
        from inotify_simple import INotify, flags

        with INotify() as inotify:
            inotify.add_watch(path, flags.MODIFY)
            with open(path, "r+b") as file:
                file.write(b"\1")
            if inotify.read(timeout=2000):
                watches = _limit("max_user_watches")
                return Check(
                    "wake-up", "ok", f"inotify works ({watches} watches, {_limit('max_user_instances')} readers)"
                )
        problem = "inotify says nothing about this file system"
        fix = "Put the river on a local file system; meanwhile readers look every 5 ms"
    except (ImportError, OSError) as error:
        problem = f"inotify cannot be used ({error})"
        fix = "Readers look every 5 ms instead"
        if getattr(error, "errno", None) in (errno.EMFILE, errno.ENOSPC):
            fix = "Raise the limit (sysctl fs.inotify.max_user_instances=512); meanwhile readers look every 5 ms"
    return Check("wake-up", "warning", problem, fix)


def nearest_directory(path: str) -> str:
    """The one that is there, of the path or above it."""
    path = os.path.abspath(path)
    while not os.path.isdir(path):
        path = os.path.dirname(path)
    return path


def _file_system(place: str) -> str:
    try:
        with open("/proc/self/mounts", encoding="utf-8", errors="replace") as file:
            mounts = [line.split()[1:3] for line in file]
    except OSError:
        return "file system"
    real = os.path.realpath(place)
    inside = [(len(at), kind) for at, kind in mounts if real == at or real.startswith(at.rstrip("/") + "/")]
    return max(inside)[1] if inside else "file system"


def _limit(name: str) -> str:
    try:
        with open(f"/proc/sys/fs/inotify/{name}", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return "?"
