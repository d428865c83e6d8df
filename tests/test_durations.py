"""Durations as people write them."""

import pytest

from riverrun.durations import micros
from riverrun.errors import Invalid


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("1 us", 1),
        ("5 ms", 5_000),
        ("250ms", 250_000),
        ("3 milliseconds", 3_000),
        ("1 s", 1_000_000),
        ("10 secs", 10_000_000),
        ("1 m", 60_000_000),
        ("2 mins", 120_000_000),
        ("1h 30min", 5_400_000_000),
        ("7 days", 604_800_000_000),
        ("1 w", 604_800_000_000),
    ],
)
def test_units(written: str, expected: int) -> None:
    assert micros(written) == expected


@pytest.mark.parametrize("written", ["", "ms", "5", "1 fortnight", "-1 s", "1 s x", "2 ss"])
def test_refused(written: str) -> None:
    with pytest.raises(Invalid):
        micros(written)
