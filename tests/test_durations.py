"""Durations: what people write, integer microseconds inside, and back to what people read."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from riverrun import durations
from riverrun.durations import from_micros, micros, seconds, show, to_micros
from riverrun.errors import Invalid

SECOND = 1_000_000


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("1 us", 1),
        ("3 µs", 3),
        ("2 microseconds", 2),
        ("250 ms", 250_000),
        ("250ms", 250_000),
        ("1 millisecond", 1_000),
        ("10 seconds", 10 * SECOND),
        ("10 s", 10 * SECOND),
        ("2 secs", 2 * SECOND),
        ("0.5 s", SECOND // 2),
        ("5 m", 300 * SECOND),
        ("5 min", 300 * SECOND),
        ("5 mins", 300 * SECOND),
        ("1 minute", 60 * SECOND),
        ("1 HOUR", 3600 * SECOND),
        ("1h 30min", 5400 * SECOND),
        ("1 h, 30 min", 5400 * SECOND),
        ("7 days", 7 * 86400 * SECOND),
        ("1 d", 86400 * SECOND),
        ("2 weeks", 14 * 86400 * SECOND),
        ("0 s", 0),
        (timedelta(milliseconds=1.5), 1500),
        (2, 2 * SECOND),
        (0.25, 250_000),
    ],
)
def test_what_people_write(written: durations.Duration, value: int) -> None:
    assert micros(written) == value
    assert seconds(written) == value / SECOND


@pytest.mark.parametrize(
    "written",
    ["", " ", "10", "ten seconds", "10 parsecs", "5 ss", "-1 s", "1 s and", "1e9999 s", True, None, [], float("nan")],
)
def test_what_is_no_duration(written: object) -> None:
    with pytest.raises(Invalid, match=r"not a duration|cannot be negative"):
        micros(written)  # type: ignore[arg-type]


@pytest.mark.parametrize("written", [-1, -0.5, timedelta(seconds=-1)])
def test_a_duration_is_not_negative(written: durations.Duration) -> None:
    with pytest.raises(Invalid, match="negative"):
        micros(written)


@pytest.mark.parametrize("written", [float("inf"), 1e30, "99999999 weeks"])
def test_a_duration_that_no_clock_can_hold(written: durations.Duration) -> None:
    with pytest.raises(Invalid):
        micros(written)


def test_none_is_no_limit() -> None:
    assert seconds(None) is None


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0, "0 s"),
        (999, "999 µs"),
        (1_500, "1.5 ms"),
        (12 * SECOND, "12 s"),
        (90 * SECOND, "1 min 30 s"),
        (3600 * SECOND, "1 h"),
        (5400 * SECOND, "1 h 30 min"),
        (7 * 86400 * SECOND, "7 d"),
        (36 * 3600 * SECOND, "1 d 12 h"),
        (-90 * SECOND, "-1 min 30 s"),
    ],
)
def test_what_people_read(value: int, shown: str) -> None:
    assert show(value) == shown


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 10**14))
def test_what_is_shown_can_be_written_again(value: int) -> None:
    again = micros(show(value))
    assert abs(again - value) <= max(1, value // 20)  # at most two units are shown


@settings(max_examples=100, deadline=None)
@given(st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1)))
def test_times_are_utc_and_come_back(moment: datetime) -> None:
    here, east = moment.replace(tzinfo=UTC), moment.replace(tzinfo=timezone(timedelta(hours=2)))
    assert from_micros(to_micros(here)) == here
    assert to_micros(east) == to_micros(here) - 7200 * SECOND


def test_a_time_without_a_zone_is_refused() -> None:
    with pytest.raises(
        Invalid, match=r"2026-01-31 12:00:00 is a time without a zone. Give it one: datetime.now\(UTC\)"
    ):
        to_micros(datetime(2026, 1, 31, 12))


@pytest.mark.parametrize("written", ["1 month", "2 years", "1 y", "3mo"])
def test_months_and_years_are_no_durations_and_it_says_why(written: str) -> None:
    with pytest.raises(Invalid, match='Months and years differ in length: count days, as in "30 days"'):
        micros(written)


def test_a_number_that_is_infinite_is_no_duration() -> None:
    for text in ("9" * 400 + " weeks", "1 s " + "9" * 400 + " weeks"):
        with pytest.raises(Invalid, match="not a duration"):
            micros(text)
