"""A flow over a day: kept small, and nothing that matters is lost on the way."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from riverrun.serve.pages.day import COARSE, DAY, FINE, MINUTE, DayPart, FlowReading, add_part, between, coarsen
from riverrun.serve.pages.day_chart import draw_chart
from riverrun.serve.pages.day_file import DayRecord, day_path, read_day

START = 1_700_000_000 // COARSE * COARSE


def part(minute: int, rows: int = 60, lag: float = 0.5, **more: Any) -> DayPart:
    return DayPart(START + minute * MINUTE, MINUTE, 60.0, rows, lag=lag, **more)


def day(minutes: int, **spikes: DayPart) -> list[DayPart]:
    parts: list[DayPart] = []
    special = {one.at: one for one in spikes.values()}
    for minute in range(minutes):
        usual = part(minute)
        parts = add_part(parts, special.get(usual.at, usual))
    return parts


def test_two_hours_are_kept_by_the_minute_and_the_rest_of_a_day_by_ten() -> None:
    parts = day(3 * DAY // MINUTE)
    newest = parts[-1].at + MINUTE
    assert len(parts) < 300
    assert {one.width for one in parts if one.at >= newest - FINE} == {MINUTE}
    assert {one.width for one in parts if one.at < newest - FINE - COARSE} == {COARSE}
    assert newest - DAY - 2 * COARSE <= parts[0].at <= newest - DAY
    assert {one.at % one.width for one in parts} == {0}
    assert {one.rate for one in parts} == {1.0}


def test_a_spike_of_a_minute_is_still_there_hours_later() -> None:
    parts = day(600, spike=part(30, rows=600, lag=90.0, late=7, slowest=12.0, behind=100.0))
    [spike] = [one for one in parts if one.lag == 90.0]
    assert (spike.width, spike.late, spike.slowest, spike.behind) == (COARSE, 7, 12.0, 100.0)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 9), st.integers(0, 9)), max_size=30))
def test_sums_stay_what_they_are_and_times_stay_in_order(seen: list[tuple[int, int, int]]) -> None:
    parts = [part(minute, rows, late=late) for minute, rows, late in seen]
    merged = coarsen(parts, COARSE)
    assert sum(one.rows for one in merged) == sum(one.rows for one in parts)
    assert sum(one.late for one in merged) == sum(one.late for one in parts)
    assert [one.at for one in merged] == sorted({one.at // COARSE * COARSE for one in parts})
    assert coarsen(merged, COARSE) == merged


def reading(at: float, rows: int, **more: Any) -> FlowReading:
    return FlowReading(START + at, rows, more.pop("late", 0), more.pop("corrected", 0), more.pop("lag", 0.0), **more)


def test_what_is_between_two_readings() -> None:
    assert between(reading(0, 10), reading(5, 60, late=2, lag=3.0)) == DayPart(START, MINUTE, 5.0, 50, 2, 0, 3.0)
    assert between(reading(0, 10), reading(31, 60)) is None, "nobody looked for so long that nothing is known"
    assert between(reading(0, 10), reading(5, 0)) is None, "a rebuild counts from the beginning"
    assert between(reading(5, 10), reading(5, 10)) is None


def test_a_day_is_there_again_after_a_restart(tmp_path: Path) -> None:
    record = DayRecord(str(tmp_path), "shop")
    for second in range(0, 200, 5):
        record.take(reading(second, second * 2))
    assert [one.rows for one in record.parts] == [110, 120, 120, 40]
    written = read_day(day_path(str(tmp_path), "shop"))
    assert written == record.parts[:3], "the minute that is not over is not written yet"
    again = DayRecord(str(tmp_path), "shop")
    assert again.parts == written
    assert os.stat(day_path(str(tmp_path), "shop")).st_mode & 0o077 == 0


def test_a_file_that_cannot_be_read_or_written_stops_nothing(tmp_path: Path) -> None:
    path = Path(day_path(str(tmp_path), "shop"))
    path.parent.mkdir()
    for damage in (b"", b"{", b'{"format": 1, "parts": 7}', json.dumps({"format": 99, "parts": []}).encode()):
        path.write_bytes(damage)
        assert read_day(str(path)) == []
    path.unlink()
    path.mkdir()
    record = DayRecord(str(tmp_path), "shop")
    for second in range(0, 200, 5):
        record.take(reading(second, second))
    assert len(record.parts) == 4


def test_a_chart_has_steps_where_something_is_known_and_nothing_elsewhere() -> None:
    end = START + 60 * MINUTE
    parts = [part(minute) for minute in (0, 1, 30)]
    drawn = draw_chart("Rate", parts, lambda one: one.rate, lambda value: f"{value:g}/s", end, 60 * MINUTE)
    assert drawn.count("v-96.0") == 3
    assert "now 1/s, at most 1/s" in drawn
    nothing = draw_chart("Rate", parts, lambda one: one.behind, str, end, 60 * MINUTE)
    assert "not known" in nothing and 'class="area"' not in nothing
