"""Being told that a topic has new rows, without asking again and again.

Appends write one byte into the topic's `wake` file. Each process watches such files with one inotify descriptor and one
thread, however many readers wait. Where there is no inotify, the board is looked at every 5 ms.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Any

_POLL = 0.005


class Watcher:
    """One per process; made when the first reader waits."""

    def __init__(self) -> None:
        from inotify_simple import INotify  # absent on other systems

        self._inotify: Any = INotify()
        self._bells: dict[int, set[threading.Event]] = {}
        self._lock = threading.Lock()
        threading.Thread(target=self._run, name="riverrun-wake", daemon=True).start()

    def add(self, path: str, bell: threading.Event) -> int:
        from inotify_simple import flags

        with self._lock:
            watch: int = self._inotify.add_watch(path, flags.MODIFY)
            self._bells.setdefault(watch, set()).add(bell)
            return watch

    def remove(self, watch: int, bell: threading.Event) -> None:
        with self._lock:
            bells = self._bells.get(watch, set())
            bells.discard(bell)
            if not bells and watch in self._bells:
                del self._bells[watch]
                try:
                    self._inotify.rm_watch(watch)
                except OSError:
                    pass  # the topic was dropped, and its watch with it

    def _run(self) -> None:
        while True:
            for event in self._inotify.read():
                with self._lock:
                    for bell in self._bells.get(event.wd, ()):
                        bell.set()


class Bell:
    """Rings when one of the files it watches is written to. A context manager, so that watches do not pile up."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._watcher = _watcher()
        self._watches: list[int] = []

    def watch(self, path: str) -> None:
        """Ring for this file."""
        if self._watcher:
            self._watches.append(self._watcher.add(path, self._event))

    def __enter__(self) -> Bell:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._watcher:
            for watch in self._watches:
                self._watcher.remove(watch, self._event)
        self._watches = []

    def ring(self) -> None:
        """Wake the waiting one from this process, as when it is closed."""
        self._event.set()

    def clear(self) -> None:
        """Forget earlier rings. Look at what there is after this and before `wait`, and nothing is missed."""
        self._event.clear()

    def wait(self, timeout: float | None) -> None:
        """Return when it rings, when the time is up, or for no reason at all: look again."""
        if self._watcher is None:
            timeout = _POLL if timeout is None else min(timeout, _POLL)
        self._event.wait(timeout)

    def wait_until(self, happened: Callable[[], bool], timeout: float | None) -> bool:
        """Return True as soon as `happened()`, False when the time is up."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            self.clear()
            if happened():
                return True
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                return False
            self.wait(left)


_own_watcher: tuple[int, Watcher | None] | None = None
_making = threading.Lock()


def _watcher() -> Watcher | None:
    global _own_watcher
    with _making:
        if _own_watcher is None or _own_watcher[0] != os.getpid():  # a thread does not survive a fork
            try:
                _own_watcher = (os.getpid(), Watcher())
            except (ImportError, OSError):
                _own_watcher = (os.getpid(), None)
        return _own_watcher[1]
