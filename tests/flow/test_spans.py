"""Durations as arguments; differences may point back."""

from __future__ import annotations

from datetime import timedelta

import pytest

from riverrun.durations import Duration
from riverrun.errors import Invalid
from riverrun.flow.spans import interval, positive, signed


@pytest.mark.parametrize(
    ("within", "found"),
    [
        ("1 s", (-1_000_000, 1_000_000)),
        (0, (0, 0)),
        (("0 s", "1 s"), (0, 1_000_000)),
        (("-5 s", "-1 s"), (-5_000_000, -1_000_000)),
        ((timedelta(seconds=-1), 2), (-1_000_000, 2_000_000)),
        ((-0.5, "0 s"), (-500_000, 0)),
    ],
)
def test_intervals(within: Duration | tuple[Duration, Duration], found: tuple[int, int]) -> None:
    assert interval("within", within) == found


def test_refusals() -> None:
    with pytest.raises(Invalid, match="within ends before it starts"):
        interval("within", ("1 s", "0 s"))
    with pytest.raises(Invalid, match="within is a duration or a pair of them"):
        interval("within", ("1 s", "2 s", "3 s"))  # type: ignore[arg-type]
    with pytest.raises(Invalid, match="within: not a duration: 'soon'"):
        interval("within", "soon")
    with pytest.raises(Invalid, match="idle must be longer than 0"):
        positive("idle", 0)
    assert signed("x", "- 1 s") == -1_000_000
