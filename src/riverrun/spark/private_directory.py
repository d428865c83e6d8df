"""A directory that only this user can enter, for what Spark writes beside a river: shuffled rows, and the sockets through
which its workers take commands, without asking who sends them.

It is removed when the process ends. What a killed process left is removed by the next one that starts Spark.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import tempfile
import threading

from riverrun import durable

_PREFIX = "riverrun-spark-"
_LONGEST = 40  # characters: the name of a socket in it may have 108 in all
_making = threading.Lock()
_made: PrivateDirectory | None = None


class PrivateDirectory:
    """A new directory; as long as its process lives, nobody takes it for one that was left."""

    def __init__(self, place: str | None = None) -> None:
        place = place or _place()
        _remove_abandoned(place)
        self.path, self._lock = _make(place)
        self._owner = os.getpid()

    def remove(self) -> None:
        """Remove it; a process that was forked from this one leaves it alone."""
        if self._owner == os.getpid():
            shutil.rmtree(self.path, ignore_errors=True)
            os.close(self._lock)
            self._owner = 0


def private_directory() -> str:
    """That of this process."""
    global _made
    with _making:
        if _made is None or not os.path.isdir(_made.path):
            _made = PrivateDirectory()
            atexit.register(_made.remove)
        return _made.path


def _make(place: str) -> tuple[str, int]:
    while True:
        path = tempfile.mkdtemp(prefix=_PREFIX, dir=place)
        lock = durable.open_file(f"{path}/lock", os.O_RDWR | os.O_CREAT)
        fcntl.flock(lock, fcntl.LOCK_EX)
        if os.path.exists(f"{path}/lock"):
            return path, lock
        os.close(lock)  # before it was locked, somebody took it for one that was left


def _place() -> str:
    usual = tempfile.gettempdir()
    return usual if len(usual) <= _LONGEST else "/tmp"


def _remove_abandoned(place: str) -> None:
    """Remove directories of this user whose process has ended."""
    with os.scandir(place) as entries:
        left = [entry for entry in entries if entry.name.startswith(_PREFIX)]
    for entry in left:
        try:
            if not entry.is_dir(follow_symlinks=False) or entry.stat(follow_symlinks=False).st_uid != os.getuid():
                continue
            lock = os.open(f"{entry.path}/lock", os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            continue  # being made, or gone meanwhile
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(entry.path, ignore_errors=True)
        except BlockingIOError:
            pass  # in use
        finally:
            os.close(lock)
