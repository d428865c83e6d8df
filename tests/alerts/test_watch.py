"""What operators are told, and when."""

from __future__ import annotations

from typing import Any

import pytest

from alert_receiver import Receiver
from riverrun import Flow, River
from riverrun.alerts.alerts import Alerts
from riverrun.alerts.watch import Watch
from riverrun.runtime.ledger import LedgerEntry
from riverrun.runtime.status import FlowState, FlowStatus, Lag

SECOND = 1_000_000
SETTINGS = {
    "alert_lag": "1 minute",
    "alert_late": 10,
    "alert_to": "json://127.0.0.1:1/",
    "alert_private_addresses": True,
    "alert_timeout": "1 s",
}


class FakeRun:
    def __init__(self) -> None:
        self.state: FlowState = "running"
        self.reason: str | None = None
        self.behind, self.dropped = 0.0, 0
        self.rules_off: dict[str, str] = {}

    def observe(self) -> FlowStatus:
        ledger = (LedgerEntry("window-1", "in", late_dropped=self.dropped), LedgerEntry("window-2", "in"))
        return FlowStatus(
            flow="shop",
            state=self.state,
            reason=self.reason,
            lag=Lag(7, self.behind, {"orders": 7}),
            ledger=ledger,
            rules_off=self.rules_off,
        )


@pytest.fixture
def settings() -> dict[str, Any]:
    return SETTINGS


class WatchedRiver:
    """A watch with a clock that a test moves."""

    def __init__(self, river: River) -> None:
        self.river, self.run, self.now = river, FakeRun(), 1_000 * SECOND
        self.restart()

    def restart(self) -> None:
        self.watch = Watch(self.river, "shop")
        self.watch.open(self.run)

    def passes(self, seconds: int, **changes: Any) -> None:
        for name, value in changes.items():
            setattr(self.run, name, value)
        for _ in range(seconds):
            self.now += SECOND
            self.watch.look(self.now)

    def told(self) -> list[tuple[str, str]]:
        rows = self.river.topic("shop.alerts").read().to_pylist()
        return [(row["kind"], row["state"]) for row in rows]

    def last(self) -> str:
        return str(self.river.topic("shop.alerts").read().to_pylist()[-1]["text"])


@pytest.fixture
def scene(river: River) -> WatchedRiver:
    return WatchedRiver(river)


def test_a_run_that_is_well_is_not_talked_about(scene: WatchedRiver) -> None:
    scene.passes(60, behind=59.0, dropped=10)
    assert scene.told() == []


def test_behind_for_a_while_and_then_no_more(scene: WatchedRiver) -> None:
    scene.passes(10, behind=3600.0)
    scene.passes(10, behind=0.0)
    assert scene.told() == []
    scene.passes(60, behind=3600.0, state="rebuilding")
    assert scene.told() == []
    scene.passes(60, behind=90.0, state="running")
    assert scene.told() == [("lag", "begun")]
    assert scene.last() == "flow shop is 1 min 30 s behind, 7 rows"
    scene.passes(60, behind=1.0)
    assert scene.told() == [("lag", "begun"), ("lag", "over")]


def test_late_rows_in_a_minute(scene: WatchedRiver) -> None:
    for total in range(0, 60, 1):
        scene.passes(10, dropped=total)  # six in a minute
    assert scene.told() == []
    scene.passes(10, dropped=100)
    assert scene.told() == [("late", "begun")]
    scene.passes(90)
    assert scene.told() == [("late", "begun"), ("late", "over")]


def test_a_restart_tells_nothing_twice_and_knows_what_is_over(scene: WatchedRiver) -> None:
    scene.passes(10, state="failed", reason="no space")
    assert scene.told() == [("failed", "begun")]
    assert scene.last() == "flow shop has failed and does not go on by itself: no space"
    scene.restart()
    scene.passes(10)
    assert scene.told() == [("failed", "begun")]
    scene.restart()
    scene.passes(10, state="running")
    assert scene.told() == [("failed", "begun"), ("failed", "over")]


def test_failing_and_waiting_only_when_it_lasts(scene: WatchedRiver) -> None:
    scene.passes(10, state="failing", reason="boom")
    scene.passes(10, state="running")
    assert scene.told() == []
    scene.passes(30, state="waiting", reason="the store is away")
    assert scene.told() == [("failing", "begun")]
    assert "waits: the store is away" in scene.last()


def test_control_characters_of_an_event_do_not_reach_an_operator(scene: WatchedRiver) -> None:
    """What a run fails with may quote a value, and a value anything."""
    scene.passes(1, state="failed", reason="the value 'x\x1b]0;pwned\x07\nSubject: all is well' is no number")
    assert scene.last().endswith(r"the value 'x\x1b]0;pwned\x07\nSubject: all is well' is no number")


def test_a_failure_is_told_while_the_run_ends(receiver: Receiver, river: River) -> None:
    object.__setattr__(river.settings, "alert_to", (receiver.url,))
    alerts, run = Alerts(river, Flow("shop")), FakeRun()
    alerts.start(run)
    run.state, run.reason = "failed", "boom"
    alerts.stop()
    (body,) = receiver.bodies()
    assert body["alert"] == "operator"
    assert body["message"] == "flow shop has failed and does not go on by itself: boom"


def test_nobody_to_tell(receiver: Receiver, river: River) -> None:
    object.__setattr__(river.settings, "alert_to", ())
    alerts = Alerts(river, Flow("shop"))
    alerts.start(FakeRun())
    alerts.stop()
    assert alerts.status() == ()
    assert river.topics() == []


def test_a_run_that_was_replaced_says_nothing(receiver: Receiver, river: River) -> None:
    object.__setattr__(river.settings, "alert_to", (receiver.url,))
    alerts, run = Alerts(river, Flow("shop")), FakeRun()
    alerts.start(run)
    alerts.stop(patience=0)
    run.state, run.reason = "failed", "a newer run has taken over"
    alerts.stop()
    assert river.topic("shop.alerts").read().num_rows == 0
    assert receiver.got == []


def test_each_rule_that_is_switched_off_is_told_once_and_when_it_is_over(scene: WatchedRiver) -> None:
    def told() -> list[tuple[str, str]]:
        return [(row["kind"], row["state"]) for row in scene.river.topic("shop.alerts").read().to_pylist()]

    scene.passes(10, rules_off={"wide": "switched off: it has more than 10 open attempts"})
    scene.restart()
    scene.passes(10)
    assert told() == [("rule wide", "begun")]
    (row,) = scene.river.topic("shop.alerts").read().to_pylist()
    assert row["text"] == "flow shop: rule wide is switched off: it has more than 10 open attempts"
    scene.passes(10, rules_off={**scene.run.rules_off, "deep": "switched off: an accident"})
    scene.passes(10, rules_off={})
    assert told()[1:] == [("rule deep", "begun"), ("rule deep", "over"), ("rule wide", "over")]
