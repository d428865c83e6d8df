"""Making appends durable: one process syncs for all that wait, or a thread does it every so often."""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from riverrun import durable
from riverrun.errors import RiverrunError, Transient, Unavailable, from_system
from riverrun.failpoints import failpoint
from riverrun.log.board import Board, Ends
from riverrun.log.lock import try_lock
from riverrun.log.segment import list_segments, segment_path
from riverrun.log.segment_writer import SegmentWriter

_PATIENCE = 0.25
_PAUSE = 0.00005


class GroupCommit:
    """Makes appends durable: one process of the machine syncs for all that wait.

    `writer` gives what this process writes through, if it does; then a sync opens nothing.
    """

    def __init__(
        self,
        directory: str,
        board: Board,
        publish: Callable[[Ends], None],
        writer: Callable[[], SegmentWriter | None],
    ) -> None:
        self._directory = directory
        self._topic = os.path.basename(directory)
        self._board = board
        self._publish = publish
        self._writer = writer
        self._threads = threading.Lock()
        self._fd = durable.open_file(f"{directory}/sync", os.O_RDWR | os.O_CREAT)

    def sync(self, target: int) -> None:
        """Return when commit `target` is on disk."""
        impatient = time.monotonic() + _PATIENCE
        while self._board.durable().commit < target:
            self._board.refuse_failed(self._topic)
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
        synced, written = self._board.durable(), self._board.written()
        if synced.commit >= written.commit:
            return
        try:
            failpoint("sync.begin")
            rolled = written.segment != synced.segment
            for first_commit in self._listed() if rolled else [written.segment]:
                if synced.segment <= first_commit <= written.segment:
                    with suppress(FileNotFoundError):  # removed by retention: nobody needs it durable
                        self._sync_segment(first_commit)
            if rolled:
                with suppress(FileNotFoundError), self._opened(self._directory) as fd:  # being dropped
                    durable.sync(fd)
            failpoint("sync.done")
        except OSError as error:
            self._board.refuse_dropped(self._topic)
            self._board.mark_failed()
            raise Unavailable(
                f"topic {self._topic}: the disk refused to make an append durable ({error.strerror})",
                hint=f"The topic accepts no writes. Check the disk, then run: riverrun topic repair {self._topic}",
            ) from error
        self._publish(written)

    def _sync_segment(self, first_commit: int) -> None:
        writer = self._writer()
        if writer is not None and writer.first_commit == first_commit:
            durable.sync_bytes(writer.fd)
            return
        with self._opened(segment_path(self._directory, first_commit)) as fd:
            durable.sync_bytes(fd)

    @contextmanager
    def _opened(self, path: str) -> Iterator[int]:
        with self._no_verdict():
            fd = durable.open_file(path, os.O_RDONLY)
        try:
            yield fd
        finally:
            os.close(fd)

    def _listed(self) -> list[int]:
        with self._no_verdict():
            return list_segments(self._directory)

    @contextmanager
    def _no_verdict(self) -> Iterator[None]:
        """What fails before anything is synced says nothing about the disk; the next one may succeed."""
        try:
            yield
        except FileNotFoundError:
            raise
        except OSError as error:
            raise from_system(error, f"topic {self._topic}: what was appended is not made durable yet") from error


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
            except Transient:
                continue
            except RiverrunError:
                return  # the board says that the topic failed; the next append tells the caller
