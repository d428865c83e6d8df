"""Who does the upkeep of a topic: one process of the machine at a time, in the background of the one that rolled."""

from __future__ import annotations

import atexit
import fcntl
import logging
import os
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from riverrun import durable
from riverrun.durations import show
from riverrun.errors import Busy, Closed, NotFound, RiverrunError, from_system
from riverrun.log.compaction import compact_if_dirty
from riverrun.log.lock import try_lock
from riverrun.log.replacement import clear_leftovers
from riverrun.log.retention import retain
from riverrun.log.sealing import seal
from riverrun.log.segment import list_segments

if TYPE_CHECKING:
    from riverrun.log.embedded import EmbeddedBackend

log = logging.getLogger("riverrun.log")

_PAUSE = 0.00005  # long enough for another thread to get the interpreter
_POLL = 0.005


class Upkeep:
    """Sealing, retention and compaction of one opened topic. Nothing here is needed for correct reads and appends."""

    def __init__(self, backend: EmbeddedBackend) -> None:
        self._backend = weakref.ref(backend)
        self.sealed: set[tuple[int, int]] = set()
        self._reset()
        _all.add(self)

    def _reset(self) -> None:
        self._changing = threading.Lock()
        self._thread: threading.Thread | None = None
        self._wanted = False
        self._rolled = False
        self._stopped = False
        self._fd = -1

    @contextmanager
    def alone(self) -> Iterator[None]:
        """The upkeep lock, waited for. Errors of the disk become ours; whatever happens, rows stay readable."""
        backend = self._opened()
        backend.journal.ends()  # a closed or dropped topic has no files of its own any more
        try:
            # Whoever waits holds the second lock, so that those in the background let it go first.
            with _opened_lock(backend, "upkeep") as fd, _opened_lock(backend, "upkeep.next") as turn:
                deadline = time.monotonic_ns() // 1000 + backend.settings.lock_timeout
                _wait_for(turn, fd, deadline, backend)
                _wait_for(fd, fd, deadline, backend)
                fcntl.flock(turn, fcntl.LOCK_UN)
                with self._holding(backend, fd):
                    yield
        except RiverrunError:
            raise
        except OSError as error:
            raise from_system(error, f"topic {backend.name}: no upkeep, rows are as they were") from error

    def start(self, rolled: bool = True) -> None:
        """Do what there is to do in the background. Returns at once; at most one thread at a time.

        After a roll that is everything; otherwise only sealing, which nobody can notice.
        """
        with self._changing:
            self._wanted = True
            self._rolled = self._rolled or rolled
            if self._thread is None and not self._stopped:
                self._thread = threading.Thread(target=self._run, name="riverrun-upkeep", daemon=True)
                self._thread.start()

    def start_if_needed(self) -> None:
        """For an opener: go on where a process that was ended left off."""
        backend = self._opened()
        unsealed = list_segments(backend.directory)[:-1]
        if not all(os.path.exists(f"{backend.directory}/{first:020d}.index") for first in unsealed):
            self.start(rolled=False)

    def wait(self) -> None:
        """Return when the background has nothing more to do."""
        thread = self._thread
        if thread is not None:
            thread.join()

    def stop(self) -> None:
        """End the background work at its next step; what is half done is begun anew another time."""
        with self._changing:
            self._stopped = True
        self.wait()

    def after_fork(self) -> None:
        """In the child there is no such thread, and the parent's lock must not be kept alive."""
        if self._fd >= 0:
            os.close(self._fd)
        self._reset()

    def _run(self) -> None:
        while True:
            with self._changing:
                if self._stopped or not self._wanted:
                    self._thread = None
                    return
                self._wanted, rolled, self._rolled = False, self._rolled, False
            backend = self._backend()
            if backend is None:
                return
            try:
                self._do(backend, rolled)
            except (_Stopped, Closed, NotFound):
                pass
            except Exception as error:
                # Nobody waits for the result; rows are as they were, and the next roll tries again.
                log.warning("topic %s: upkeep was given up: %s", backend.name, error)
            del backend

    def _do(self, backend: EmbeddedBackend, rolled: bool) -> None:
        if not os.access(backend.directory, os.W_OK):
            return
        with _opened_lock(backend, "upkeep") as fd, _opened_lock(backend, "upkeep.next") as turn:
            if _is_awaited(turn) or not try_lock(fd):
                return  # somebody else is at it, or about to be

            def give_way() -> None:
                if _is_awaited(turn):
                    raise _Stopped  # whoever waits seals too
                self._pace()

            with self._holding(backend, fd):
                if rolled and backend.spec.compact:
                    compact_if_dirty(backend, self._pace)
                if rolled:
                    retain(backend, self._pace)
                seal(backend, give_way)

    @contextmanager
    def _holding(self, backend: EmbeddedBackend, fd: int) -> Iterator[None]:
        self._fd = fd
        try:
            os.pwrite(fd, f"{os.getpid():<20}".encode(), 0)
            backend.journal.segments.forget()
            ends, entries = backend.journal.extent()
            clear_leftovers(backend.directory, entries, ends.segment)
            yield
        finally:
            self._fd = -1
            fcntl.flock(fd, fcntl.LOCK_UN)  # for a child's copy of the descriptor too

    def _pace(self) -> None:
        if self._stopped:
            raise _Stopped
        time.sleep(_PAUSE)

    def _opened(self) -> EmbeddedBackend:
        backend = self._backend()
        assert backend is not None
        return backend


@contextmanager
def _opened_lock(backend: EmbeddedBackend, name: str) -> Iterator[int]:
    fd = durable.open_file(f"{backend.directory}/{name}", os.O_RDWR | os.O_CREAT)
    try:
        yield fd
    finally:
        os.close(fd)


def _wait_for(lock: int, named: int, deadline: int, backend: EmbeddedBackend) -> None:
    while not try_lock(lock):
        if time.monotonic_ns() // 1000 > deadline:
            holder = os.pread(named, 20, 0).decode().strip()
            raise Busy(
                f"topic {backend.name}: process {holder} has been at its upkeep for over "
                f"{show(backend.settings.lock_timeout)}",
                hint="Try again later; appends and reads go on meanwhile",
            )
        time.sleep(_POLL)


def _is_awaited(turn: int) -> bool:
    if not try_lock(turn):
        return True
    fcntl.flock(turn, fcntl.LOCK_UN)
    return False


class _Stopped(Exception):
    """The topic is being closed, or somebody waits for the lock."""


_all: weakref.WeakSet[Upkeep] = weakref.WeakSet()


def _after_fork() -> None:
    for upkeep in list(_all):
        upkeep.after_fork()


def _stop_all() -> None:
    for upkeep in list(_all):
        upkeep.stop()


os.register_at_fork(after_in_child=_after_fork)
atexit.register(_stop_all)
