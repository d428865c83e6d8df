"""Getting bytes to the disk: whole writes, and syncs now or every so often."""

from __future__ import annotations

import errno
import fcntl
import os
import threading
import time
from collections.abc import Callable
from typing import Any

from riverrun.errors import NotFound, RiverrunError, Unavailable
from riverrun.failpoints import failpoint
from riverrun.log.board import Board, Ends
from riverrun.log.lock import try_lock
from riverrun.log.segment import list_segments, segment_path

_IOV_MAX = 1000
_PATIENCE = 0.25
_PAUSE = 0.00005


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


class GroupCommit:
    """Makes appends durable: one process of the machine syncs for all that wait."""

    def __init__(self, directory: str, board: Board, publish: Callable[[Ends], None]) -> None:
        self._directory = directory
        self._topic = os.path.basename(directory)
        self._board = board
        self._publish = publish
        self._threads = threading.Lock()
        self._fd = os.open(f"{directory}/sync", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)

    def sync(self, target: int) -> None:
        """Return when commit `target` is on disk."""
        impatient = time.monotonic() + _PATIENCE
        while self._board.durable().commit < target:
            refuse_failed(self._board, self._topic)
            if not self._threads.acquire(blocking=False):
                time.sleep(_PAUSE)
                continue
            try:
                # The lock only spares needless syncs. Its holder may have been stopped: then everybody syncs alone.
                if try_lock(self._fd):
                    try:
                        self._sync_written()
                    finally:
                        fcntl.flock(self._fd, fcntl.LOCK_UN)
                elif time.monotonic() > impatient:
                    self._sync_written()
                else:
                    time.sleep(_PAUSE)
            finally:
                self._threads.release()

    def close(self) -> None:
        os.close(self._fd)

    def _sync_written(self) -> None:
        durable, written = self._board.durable(), self._board.written()
        if durable.commit >= written.commit:
            return
        try:
            failpoint("sync.begin")
            rolled = written.segment != durable.segment
            for first_commit in list_segments(self._directory) if rolled else [written.segment]:
                if durable.segment <= first_commit <= written.segment:
                    sync_file(segment_path(self._directory, first_commit), os.fdatasync)
            if rolled:
                sync_file(self._directory, os.fsync)
            failpoint("sync.done")
        except OSError as error:
            refuse_dropped(self._board, self._topic)
            self._board.mark_failed()
            raise Unavailable(
                f"topic {self._topic}: the disk refused to make an append durable ({error.strerror})",
                hint=f"The topic accepts no writes. Check the disk, then run: riverrun topic repair {self._topic}",
            ) from error
        self._publish(written)


def refuse_failed(board: Board, topic: str) -> None:
    """After a failed fsync nothing is accepted until somebody has looked; in a dropped topic nothing at all."""
    refuse_dropped(board, topic)
    if board.failed:
        raise Unavailable(
            f"topic {topic} accepts no writes: an fsync failed, so nobody knows what is on the disk",
            hint=f"Check the disk, then run: riverrun topic repair {topic}",
        )


def refuse_dropped(board: Board, topic: str) -> None:
    """Whoever has the files of a dropped topic open must not write to nowhere."""
    if board.dropped:
        raise NotFound(f"topic {topic} was dropped", hint="Open it anew if it was made again")


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
