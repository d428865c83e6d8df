"""Times beyond the calendar that a flow computes, or finds in its topics, end nothing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

import riverrun as rr
from riverrun.flow import Flow
from riverrun.testing import run_flow
from riverrun.testing.local import LocalRun

EARLIEST = datetime(1, 1, 1, tzinfo=UTC)
LATEST = datetime(9999, 12, 31, 23, 59, 59, 999_999, UTC)


def test_a_time_that_a_flow_computes_is_written_as_the_last_there_is() -> None:
    flow = Flow("shop")
    orders = flow.stream("orders", "user string, at timestamp", time="at")
    flow.topic("expiries", orders.select("user", "at + interval 9000 years as ends"))
    flow.view("latest", orders.select("user", "at + interval 9000 years as ends"), key="user")
    result = run_flow(flow, {"orders": [{"user": "ada", "at": "2026-01-01T00:00:00Z"}]})
    assert [row["ends"] for row in result.topics["expiries"]] == [LATEST]
    assert [row["ends"] for row in result.views["latest"]] == [LATEST]


MINUTE, LAST_MINUTE = timedelta(minutes=1), datetime(9999, 12, 31, 23, 59, tzinfo=UTC)
KEY = ["user", "window_start", "window_end"]
COUNTED = ("accepted", "late_dropped", "late_aside", "duplicates", "quarantined")
WINDOWS = {
    "tumbling": (rr.tumbling("1 minute"), [(EARLIEST, EARLIEST + MINUTE)], [(LAST_MINUTE, LATEST)]),
    "tumbling with an offset": (rr.tumbling("1 minute", "30 seconds"), None, None),
    "hopping": (rr.hopping("2 minutes", "1 minute"), None, None),
    "sliding": (rr.sliding("1 minute"), [(EARLIEST, EARLIEST)], [(LATEST - MINUTE, LATEST)]),
    "session": (rr.session("1 minute"), [(EARLIEST, EARLIEST + MINUTE)], [(LATEST, LATEST)]),
}


@pytest.mark.parametrize("late", [rr.drop(), rr.correct("1 hour")], ids=["drop", "correct"])
@pytest.mark.parametrize("kind", WINDOWS)
@pytest.mark.parametrize("end", ["first", "last"])
def test_windows_at_the_ends_of_the_calendar_are_shown_up_to_them(kind: str, end: str, late: Any) -> None:
    window, first, last = WINDOWS[kind]
    flow = Flow("shop")
    orders = flow.stream("orders", "user string, at timestamp", time="at")
    flow.view("counts", orders.window(window, by="user", late=late).agg(n=rr.count()))
    flow.topic("changes", orders.window(window, by="user", late=late).agg(n=rr.count()), key=KEY)
    moment = EARLIEST if end == "first" else LATEST
    result = run_flow(flow, [{"orders": [{"user": "ada", "at": moment}]}, {"orders": [{"user": "ada", "at": moment}]}])
    rows = result.views["counts"]
    assert {row["n"] for row in rows} == {2}
    assert all(EARLIEST <= row["window_start"] <= row["window_end"] <= LATEST for row in rows)
    assert {row["n"] for row in result.topics["changes"]} == {2}
    expected = first if end == "first" else last
    if expected is not None:
        assert [(row["window_start"], row["window_end"]) for row in rows] == expected


@pytest.mark.parametrize("micros", [1 << 62, -(1 << 62), 253_402_300_800_000_000, -62_135_596_800_000_001])
@pytest.mark.parametrize("kind", WINDOWS)
def test_rows_whose_times_are_outside_the_years_1_to_9999_do_not_end_a_flow(kind: str, micros: int) -> None:
    """No door lets them in today; a log may have them from before. Rows beside them are there; behind one from the end of
    time, windows have closed."""
    flow = Flow("shop")
    orders = flow.stream("orders", "user string, at timestamp", time="at")
    flow.view("counts", orders.window(WINDOWS[kind][0], by="user").agg(n=rr.count(), newest=rr.max("at")))
    flow.view("rows", orders, key="user")
    flow.topic("copies", orders)
    with LocalRun(flow, (), None, 2, 1, 500_000) as run:
        run.take({"orders": [{"user": "ada", "at": "2026-01-01T00:00:00Z"}]})
        topic = run._inputs["orders"]
        batch = pa.record_batch(
            [pa.array(["eve"]), pa.array([micros], pa.int64()).view(pa.timestamp("us", "UTC"))], schema=topic.schema
        )
        topic.backend.append(batch, None)
        run.take({"orders": [{"user": "bob", "at": "2026-01-01T00:00:01Z"}]})
        run.drain()
        result = run.result()
    known = {row["user"] for row in result.views["rows"]}
    assert {"ada", "bob"} <= known
    assert {"ada"} <= {row["user"] for row in result.views["counts"]}
    for row in (*result.views["counts"], *result.views["rows"], *result.topics["copies"]):
        for value in row.values():
            assert not isinstance(value, datetime) or EARLIEST <= value <= LATEST
    assert all(entry["read"] == sum(v for k, v in entry.items() if k in COUNTED) for entry in result.ledger)
