"""`Break it` on the demo's pages: kills the processing as `riverrun demo break` does, and says what became of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

from riverrun.demo.shop.balance import BalanceCheck
from riverrun.demo.shop.notice import ask_for_a_break
from riverrun.demo.shop.supervision import Processing
from riverrun.errors import Invalid
from riverrun.serve.pages.control import PageControl
from riverrun.serve.pages.flow_health import OK, STOPPED, WAITING, badge
from riverrun.serve.pages.history import History
from riverrun.serve.pages.markup import Html, join, tag
from riverrun.serve.pages.quantities import number, span
from riverrun.serve.pages.shell import ROOT


def make_button(river: str, processing: Processing, recovered: Callable[[], list[BalanceCheck]]) -> PageControl:
    """The button; `recovered` gives what was claimed when the processing had last come back."""

    def draw(history: History, action: str) -> Html:
        died, kills = processing.died, processing.kills
        ready = died is None and processing.is_running
        if died is not None:
            said = _down(history, processing, time.time() - died)
        elif not ready:
            said = join("The processing is being started: ", _doing(processing), ".")
        elif kills and processing.outages:
            said = _back(kills, processing.outages[-1], recovered())
        else:
            said = tag("p", "kills the processing in the middle of its work. Events are accepted as before.")
        form = tag("form", tag("button", "Break it", type="submit", disabled=not ready), method="post", action=action)
        return tag("section", form, said, class_="card control", aria_label="Break the demo")

    def press() -> None:
        with suppress(Invalid):  # it is down already, and the page says so
            ask_for_a_break(river)

    return PageControl(f"{ROOT}/break", draw, press)


def _down(history: History, processing: Processing, seconds: float) -> Html:
    past = history.flows.get(processing.name)
    waiting = past.status.lag.rows if past and past.status.state != "unknown" else None
    return tag(
        "p",
        badge(WAITING, "killed"),
        f" {seconds:.0f} s ago (SIGKILL), being started again: ",
        _doing(processing),
        ". Events are accepted as before",
        join("; ", number(waiting, "rows"), " wait") if waiting is not None else None,
        ".",
    )


def _back(kills: int, outage: float, claims: list[BalanceCheck]) -> Html:
    times = "once" if kills == 1 else f"{kills} times"
    checks = [
        tag("li", badge(OK, "yes") if one.held else badge(STOPPED, "no"), f" {one.claim}: {one.found}")
        for one in claims
    ]
    return join(
        tag("p", f"Killed {times}; it was back after ", span(outage), ", where it had stopped."),
        tag("ul", *checks, aria_label="What was checked then") if checks else None,
    )


def _doing(processing: Processing) -> str:
    steps = processing.steps
    return steps[-1].doing if steps else "starting Python"
