"""Getting bytes to the disk: whole writes, and syncs now or every so often."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from typing import Any

from riverrun.errors import RiverrunError

_IOV_MAX = 1000


def write_all(fd: int, buffers: list[Any], at: int) -> None:
    """All of the buffers at `at`, also when the system writes only some at a time."""
    for i in range(0, len(buffers), _IOV_MAX):
        views = [memoryview(b).cast("B") for b in buffers[i : i + _IOV_MAX] if len(b)]
        while views:
            done = os.pwritev(fd, views, at)
            if done == 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            at += done
            while views and done >= len(views[0]):
                done -= len(views.pop(0))
            if done:
                views[0] = views[0][done:]


def sync_file(path: str, sync: Any) -> None:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return  # removed by retention: nobody needs it durable
    try:
        sync(fd)
    finally:
        os.close(fd)


class IntervalSync:
    """fsync="200 ms": a thread that syncs that often while there is something to sync."""

    def __init__(self, sync: Callable[[], None], interval: int) -> None:
        self._sync = sync
        self._interval = interval / 1e6
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="riverrun-sync", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(self._interval):
            try:
                self._sync()
            except RiverrunError:
                return  # the board says that the topic failed; the next append tells the caller
