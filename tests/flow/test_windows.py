"""Windows and late policies are plain data, in microseconds."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from riverrun.flow import windows as rr

MINUTE = 60_000_000
Refusal = Callable[..., str]


def test_windows() -> None:
    assert rr.tumbling("1 minute") == rr.Tumbling(MINUTE, 0)
    assert rr.tumbling("1 hour", offset="90 minutes") == rr.Tumbling(60 * MINUTE, 30 * MINUTE)
    assert rr.hopping(timedelta(minutes=5), 60) == rr.Hopping(5 * MINUTE, MINUTE)
    assert rr.hopping("1 minute", "1 minute").every == MINUTE
    assert rr.sliding("1 minute") == rr.Sliding(MINUTE)
    assert rr.session("30 s") == rr.Session(MINUTE // 2)


def test_policies() -> None:
    assert rr.drop().horizon == 0
    assert rr.side("orders.late").topic == "orders.late"
    assert rr.side("orders.late").horizon == 0
    assert rr.correct("1 minute").horizon == MINUTE


def test_they_say_what_they_are() -> None:
    written = [rr.tumbling("1 minute", "5 s"), rr.hopping("1 h", "5 min"), rr.sliding("2 s"), rr.session("1 s")]
    assert [str(window) for window in written] == [
        "tumbling 1 min + 5 s",
        "hopping 1 h every 5 min",
        "sliding 2 s",
        "session 1 s",
    ]
    assert [str(late) for late in (rr.drop(), rr.side("x"), rr.correct("1 s"))] == ["drop", "side x", "correct 1 s"]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: rr.tumbling("0 s"), "the window's size must be longer than 0, not '0 s'"),
        (lambda: rr.tumbling("soon"), "the window's size: not a duration: 'soon'. Write \"10 seconds\", "),
        (lambda: rr.tumbling(-1), "the window's size: a duration cannot be negative: -1"),
        (lambda: rr.tumbling("1 s", offset="-1 s"), "the window's offset: not a duration: '-1 s'"),
        (lambda: rr.hopping("1 minute", 0), "the window's every must be longer than 0, not 0"),
        (
            lambda: rr.hopping("1 minute", "2 minutes"),
            "hopping windows of '1 minute' every '2 minutes' leave rows out: every is longer than size. Use where()",
        ),
        (lambda: rr.sliding(0), "the window's size must be longer than 0"),
        (lambda: rr.session("0 ms"), "the session's gap must be longer than 0"),
        (lambda: rr.correct(0), "the correction's horizon must be longer than 0"),
        (lambda: rr.side("a/b"), "'a/b' cannot be the name of a topic. 1 to 200 letters, digits, dots, "),
        (lambda: rr.side(".."), "'..' cannot be the name of a topic"),
    ],
)
def test_refusals(call: Callable[[], Any], message: str, refusal: Refusal) -> None:
    assert refusal(call).startswith(message)
