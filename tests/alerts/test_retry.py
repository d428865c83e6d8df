"""When a message that was not taken is tried again, and when it is given up."""

from __future__ import annotations

import pytest

from riverrun.alerts.retry import LONGEST_PAUSE, Undelivered, is_given_up, pause_after


def test_pauses_double_up_to_a_minute() -> None:
    pauses = [pause_after(attempts) for attempts in range(1, 100)]
    assert pauses[:4] == [1_000_000, 2_000_000, 4_000_000, 8_000_000]
    assert pauses == sorted(pauses)
    assert pauses[-1] == LONGEST_PAUSE == 60_000_000


@pytest.mark.parametrize(("attempts", "given_up"), [(1, False), (4, False), (5, True), (6, True)])
def test_given_up_after_as_many_attempts_as_are_allowed(attempts: int, given_up: bool) -> None:
    assert is_given_up(Undelivered("the answer was 503"), attempts, limit=5) is given_up


def test_what_an_address_will_never_take_is_not_tried_again() -> None:
    assert is_given_up(Undelivered("a private network", final=True), 1, limit=5)
