"""What the demo's button says: never that all is well while it is not."""

from __future__ import annotations

import re
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from riverrun.demo.shop.balance import BalanceCheck
from riverrun.demo.shop.button import make_button
from riverrun.demo.shop.news import StartStep
from riverrun.demo.shop.notice import Notice
from riverrun.errors import NotFound
from riverrun.runtime.status import FlowStatus, Lag
from riverrun.serve.pages.history import FlowHistory

HISTORY: Any = SimpleNamespace(flows={"shop": FlowHistory(FlowStatus(flow="shop", lag=Lag(1234)))})
HELD = [
    BalanceCheck("every event in the log is counted, once", True, "9 counted"),
    BalanceCheck("the ledger balances", False, "no"),
]


def drawn(claims: list[BalanceCheck] | None = None, history: Any = HISTORY, **processing: Any) -> tuple[str, bool]:
    """The words, and whether it can be pressed."""
    usual = {"name": "shop", "died": None, "kills": 0, "outages": [], "is_running": True, "steps": []}
    control = make_button("river", SimpleNamespace(**{**usual, **processing}), lambda: claims or [])  # type: ignore[arg-type]
    html = control.draw(history, "/ui/break?back=%2F")
    assert 'method="post" action="/ui/break?back=%2F"' in html
    return re.sub(r"<[^>]*>", "", html), "disabled" not in html


def test_before_it_runs_it_cannot_be_broken() -> None:
    assert drawn(is_running=False, steps=[StartStep("starting Spark", 0)]) == (
        "Break itThe processing is being started: starting Spark.",
        False,
    )


def test_while_it_runs_it_can() -> None:
    said, ready = drawn()
    assert "kills the processing" in said and ready


def test_while_it_is_down_that_is_said_and_what_waits() -> None:
    said, ready = drawn(died=time.time() - 3, kills=1, is_running=False)
    assert "killed 3 s ago (SIGKILL), being started again" in said
    assert "Events are accepted as before; 1.2 k rows wait." in said
    assert not ready
    said, _ = drawn(history=SimpleNamespace(flows={}), died=time.time(), is_running=False)
    assert "rows wait" not in said


def test_when_it_is_back_what_was_checked_is_shown_as_it_is() -> None:
    said, ready = drawn(HELD, kills=2, outages=[5.0, 4.25])
    assert "Killed 2 times; it was back after 4.2 s" in said and ready
    assert "● yes every event in the log is counted, once: 9 counted" in said
    assert "■ no the ledger balances: no" in said


def test_pressing_asks_the_demo_and_a_second_time_does_no_harm(tmp_path: Path) -> None:
    control = make_button(str(tmp_path), SimpleNamespace(), list)  # type: ignore[arg-type]
    own = Notice(str(tmp_path))
    own.put(kills=0, down=False)
    pressing = threading.Thread(target=control.press)
    pressing.start()
    while not own.take_request():
        pass
    own.put(kills=1, down=True)
    pressing.join()
    control.press()
    assert not own.take_request()
    own.put(kills=1, down=False)
    own.close()
    with pytest.raises(NotFound, match="has ended"):
        control.press()
