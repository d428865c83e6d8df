"""One performance of the demo, from the first event to the last check."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import sys
import time
import webbrowser
from contextlib import ExitStack
from functools import partial
from types import FrameType
from typing import Any

from riverrun import figures
from riverrun.demo.shop.balance import BalanceCheck, check_balance
from riverrun.demo.shop.display import Display
from riverrun.demo.shop.inbox import Inbox
from riverrun.demo.shop.keyboard import Keyboard
from riverrun.demo.shop.news import StartStep
from riverrun.demo.shop.notice import Notice
from riverrun.demo.shop.scene import Observer
from riverrun.demo.shop.shop_flow import TOPICS
from riverrun.demo.shop.supervision import Processing, Sending
from riverrun.ending import EndingSignals
from riverrun.errors import PortInUse, RiverrunError, TimedOut
from riverrun.river import River

_EVERY = 0.25  # seconds between two looks
_CATCHING_UP = 120.0  # seconds for the rows that are left when the time is up …
_HURRY = 3.0  # … and after Ctrl-C, if anybody processes them
_IN_ORDER, _AT_ONCE = 10.0, 0.2  # seconds for the processing to end
_KEYS = [("b", "break it"), ("q", "end")]


class Performance:
    """Sends, processes, serves, shows; breaks the processing when asked to, and checks that nothing was lost."""

    def __init__(self, river: River, display: Display, keys: Keyboard, begun: float) -> None:
        self.claims: list[BalanceCheck] = []
        self.sent: dict[str, int] = {}
        self.url: str | None = None
        self._river = river
        self._display = display
        self._keyboard = keys
        self._begun = begun
        self._first: float | None = None  # seconds to the first numbers
        self._start: list[dict[str, Any]] = []
        self._recoveries: list[BalanceCheck] = []  # what was claimed whenever the processing had come back
        self._recovered: list[BalanceCheck] = []  # … and the last time
        self._stopped = self._hurried = False

    def play(
        self, stack: ExitStack, seconds: float | None, rate: float, seed: int, port: int | None, browser: bool
    ) -> None:
        """Until the time is up, counted from the first numbers, or until somebody stops it."""
        self._notice = Notice(self._river.path)
        stack.callback(self._notice.close)
        for spec in TOPICS:
            self._river.topic(spec)
        self._sending = Sending(self._river.path, rate, seed)
        stack.callback(self._sending.end)
        self._inbox = Inbox()
        stack.callback(self._inbox.close)
        self._processing = Processing(self._river, self._inbox.environment)
        stack.callback(lambda: self._processing.end(_AT_ONCE if self._hurried else _IN_ORDER))
        self._observer = Observer(self._river, self._processing, self._inbox, self._begun)
        self._serve(stack, port)
        if browser:
            _open(self.url)
        self._tell()
        self._asking = EndingSignals()
        for number in self._asking.numbers:
            stack.callback(signal.signal, number, signal.signal(number, self._stop))
        while not self._stopped and not self._is_over(seconds):
            self._look()
            time.sleep(_EVERY)
        self._finish()

    def summary(self) -> dict[str, Any]:
        """What happened, for programs."""
        return {
            "ok": all(claim.held for claim in (*self.claims, *self._recoveries)),
            "url": self.url,
            "seconds": round(time.time() - self._begun, 1),
            "first_numbers": self._first,
            "start": self._start,
            "sent": self.sent,
            "alerts": len(self._inbox.keys),
            "kills": self._processing.kills,
            "outages": [round(outage, 1) for outage in self._processing.outages],
            "checks": [{"claim": one.claim, "held": one.held, "found": one.found} for one in self.claims],
            "bestsellers": self._observer.best(),
        }

    def break_it(self) -> None:
        """Kill the processing."""
        if self._processing.process is None or self._processing.died is not None:
            return
        epoch = self._processing.observe().epoch
        process = self._processing.kill()
        self._display.say(
            f"process {process} was killed (SIGKILL) after epoch {epoch}: nothing is processed now, events are "
            "accepted as before",
            "bold red",
        )

    def _serve(self, stack: ExitStack, port: int | None) -> None:
        from riverrun.demo.shop.button import make_button
        from riverrun.serve.pages.routes import dashboard
        from riverrun.serve.server import DEFAULT_HOST, DEFAULT_PORT, serve_in_background

        pages = partial(dashboard, control=make_button(self._river.path, self._processing, lambda: self._recovered))
        serve = partial(serve_in_background, self._river, self._processing, DEFAULT_HOST, pages=pages)
        try:
            served = serve(DEFAULT_PORT if port is None else port)
        except PortInUse:
            if port is not None:
                raise
            served = serve(0)
        stack.enter_context(served)
        self.url = served.url
        self._display.say(f"events are sent and served at {served.url} ({time.time() - self._begun:.1f} s)")

    def _look(self) -> None:
        """One round."""
        pressed = self._keyboard.read_key()
        if pressed == "q":
            self._stopped = True
        if self._notice.take_request() or pressed == "b":
            self.break_it()
        self._sending.check()
        self._see_to_processing()
        if self._first is None and self._observer.has_numbers():
            self._greet()
        self._display.show(lambda: self._observer.look(self.url, _KEYS if self._keyboard.is_there else []))

    def _see_to_processing(self) -> None:
        """Whatever happened to it is told; when it has come back, what it has done is checked."""
        before = len(self._processing.outages)
        happened = self._processing.look()
        if happened:
            self._display.say(happened, "bold")
        if len(self._processing.outages) > before:
            self._check_recovery()
        self._tell()

    def _check_recovery(self) -> None:
        """While events go on arriving; if epochs leave no moment for it, the check at the end is enough."""
        self._recovered = []
        try:
            self._recovered = check_balance(self._river, self._processing.name)
        except TimedOut:
            return
        self._mark(self._recovered)
        self._recoveries += self._recovered

    def _mark(self, claims: list[BalanceCheck]) -> None:
        for claim in claims:
            self._display.mark(claim.held, f"{claim.claim}: {claim.found}")

    def _tell(self) -> None:
        self._notice.put(
            url=self.url,
            process=self._processing.process,
            kills=self._processing.kills,
            down=self._processing.died is not None,
            first_numbers=self._first,
            demo=os.getpid(),
        )

    def _greet(self) -> None:
        """The first numbers are there: say how long it took, and what to do with them."""
        self._first = round(time.time() - self._begun, 1)
        steps = [StartStep("starting the processing", self._begun), *self._processing.steps]
        ends = [*(step.at for step in steps[1:]), time.time()]
        self._start = [
            {"doing": step.doing, "seconds": round(max(end - step.at, 0.0), 1)}
            for step, end in zip(steps, ends, strict=True)
            if step.doing != "running"
        ]
        took = ", ".join(f"{step['doing']} {step['seconds']} s" for step in self._start)
        self._display.say(f"first numbers after {self._first} s: {took}")
        for line in _things_to_try(self.url, self._river.path):
            self._display.say(line, "dim")
        self._tell()

    def _is_over(self, seconds: float | None) -> bool:
        """Whether the time is up; what is broken comes back first."""
        if seconds is None or self._first is None or self._processing.died is not None:
            return False
        return time.time() - self._begun - self._first > seconds

    def _finish(self) -> None:
        """No more events; what is left is processed, and all of it is checked."""
        self.sent = self._sending.end()
        patience = _CATCHING_UP
        if self._stopped:
            patience = _HURRY if self._processing.is_running else 0.0
        sent = figures.rows(sum(self.sent.values()))
        self._display.say(f"{sent} were sent; the processing has {patience:.0f} s for the last ones")
        left = self._catch_up(time.monotonic() + patience)
        if self._processing.observe().epoch:
            self.claims = check_balance(self._river, self._processing.name, None if left else self.sent)
        if left and not self._stopped:
            self.claims.append(BalanceCheck("everything was processed in time", False, f"{left} rows are left"))
        self._mark(self.claims)
        if left:
            self._display.say(f"{figures.rows(left)} are in the log, and were not processed any more")
        self._processing.end(_IN_ORDER)

    def _catch_up(self, deadline: float) -> int:
        """Rows that are left in the end."""
        while True:
            left = self._processing.observe().lag.rows
            if not left or time.monotonic() > deadline:
                return left
            try:
                self._see_to_processing()
            except RiverrunError as error:
                self._display.say(str(error), "bold red")
                return left
            time.sleep(_EVERY)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        """The first signal ends the performance in order, a second one at once."""
        if self._stopped:
            self._hurried = True
            raise KeyboardInterrupt
        self._stopped = True
        self._asking.came(number)


def _open(url: str | None) -> None:
    """Show the page, where there is a person with a screen; a browser inside the terminal would take it away."""
    if url and sys.stdout.isatty() and (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        webbrowser.open(url)


def _things_to_try(url: str | None, river: str) -> list[str]:
    command = "riverrun" if shutil.which("riverrun") else shlex.quote(os.path.relpath(sys.argv[0]))
    there = f"--river {shlex.quote(river)}"
    return [
        "to try, in another terminal:",
        f"  curl {url}/views/bestsellers",
        f"  curl -N {url}/views/traffic/changes",
        f"  {command} view get queries {there}",
        f"  {command} view watch bestsellers {there}",
        f"  {command} topic tail readings.quarantine {there}",
        f"  {command} demo break {there}     (kills the processing)",
    ]
