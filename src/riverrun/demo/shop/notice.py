"""How `riverrun demo break` finds a demo: a notice in its river, locked for as long as the demo lives."""

from __future__ import annotations

import fcntl
import glob
import os
import tempfile
import time
from collections.abc import Callable
from typing import IO, Any

from riverrun.demo.shop.news import BREAK, DEMO, hear, tell
from riverrun.errors import Invalid, NotFound, TimedOut

PREFIX = "riverrun-demo-"
_LOCK = "demo.lock"
_ANSWERED = 10.0  # seconds in which a demo takes notice


class Notice:
    """A demo's own notice: says what is going on, and hears when somebody asks for a break."""

    def __init__(self, river: str) -> None:
        self._river = river
        self._lock: IO[str] = open(f"{river}/{_LOCK}", "w", encoding="utf-8")  # noqa: SIM115 (held until `close`)
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._said: dict[str, Any] = {}
        self.take_request()

    def put(self, **news: Any) -> None:
        """Say it, if it is new."""
        if any(self._said.get(name) != value for name, value in news.items()):
            self._said.update(news)
            tell(f"{self._river}/{DEMO}", self._said)

    def take_request(self) -> bool:
        """Whether somebody has asked for a break since the last look."""
        try:
            os.unlink(f"{self._river}/{BREAK}")
        except FileNotFoundError:
            return False
        return True

    def close(self) -> None:
        """The demo is over."""
        for path in glob.glob(f"{glob.escape(self._river)}/demo.*"):
            os.unlink(path)
        self._lock.close()


def find_running(river: str | None) -> str:
    """The river of the demo that runs: this one, or the newest of those that are made for a while."""
    if river is not None:
        if not is_running(river):
            raise NotFound(f"no demo runs in {river}", hint="Start one: riverrun demo --river DIR")
        return river
    rivers = [one for one in glob.glob(f"{tempfile.gettempdir()}/{PREFIX}*/river") if is_running(one)]
    if not rivers:
        raise NotFound("no demo runs", hint="Start one in another terminal: riverrun demo")
    return max(rivers, key=os.path.getmtime)


def is_running(river: str) -> bool:
    """Whether somebody holds the notice there."""
    try:
        with open(f"{river}/{_LOCK}", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def ask_for_a_break(river: str) -> dict[str, Any]:
    """Have the processing killed; gives what the demo says when it has been."""
    before = _read(river)
    if before.get("down"):
        raise Invalid("the processing is down already", hint="Wait until it is back")
    kills = before.get("kills", 0)
    with open(f"{river}/{BREAK}", "w", encoding="utf-8"):
        pass
    return await_notice(river, lambda said: said.get("kills", 0) > kills, _ANSWERED)


def await_notice(river: str, wanted: Callable[[dict[str, Any]], bool], patience: float) -> dict[str, Any]:
    """Wait until the demo says so."""
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        said = _read(river)
        if wanted(said):
            return said
        if not is_running(river):
            raise NotFound(f"the demo in {river} has ended")
        time.sleep(0.1)
    raise TimedOut(f"the demo in {river} did not answer in {patience:.0f} s")


def _read(river: str) -> dict[str, Any]:
    return hear(f"{river}/{DEMO}", dict[str, Any]) or {}
