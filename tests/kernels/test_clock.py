"""Clock correction: a wrong clock cancels out, row by row."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles.ledger import balanced
from riverrun.durations import to_micros
from riverrun.kernels.clock import ClockCorrection
from riverrun.kernels.kernel import EpochClock
from riverrun.state.memory import MemoryState

STAMP = pl.Datetime("us", "UTC")
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
SCHEMA = {
    "device": pl.String(),
    "occurred": STAMP,
    "sent": STAMP,
    "_received": STAMP,
    "_weight": pl.Int8(),
    "_partition": pl.Int32(),
    "_offset": pl.Int64(),
}
KERNEL = ClockCorrection("occurred", "sent", ("device",), {"device": pl.String()})


def seconds(value: float) -> timedelta:
    return timedelta(seconds=value)


def frame(rows: list[tuple[str | None, datetime | None, datetime | None, datetime]], first: int = 0) -> pl.DataFrame:
    numbered = [(*row, 1, 0, first + n) for n, row in enumerate(rows)]
    return pl.DataFrame(numbered, schema=SCHEMA, orient="row")


# device, its clock's error, when the row truly occurred, how long it waited on the device, time on the wire
happenings = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", None]),
        st.integers(-(10**9), 10**9),
        st.integers(0, 10**6),
        st.integers(0, 10**5),
        st.integers(0, 5),
    ),
    max_size=20,
)


@settings(max_examples=50, deadline=None)
@given(happenings, st.integers(0, 20))
def test_event_time_is_the_true_time_plus_the_time_on_the_wire(
    drawn: list[tuple[str | None, int, int, int, int]], cut: int
) -> None:
    rows, truth, lags = [], [], {}
    for device, error, at, waited, wire in sorted(drawn, key=lambda d: d[2] + d[3] + d[4]):
        true, left = NOON + seconds(at), NOON + seconds(at + waited)
        rows.append((device, true + seconds(error), left + seconds(error), left + seconds(wire)))
        truth.append(to_micros(true + seconds(wire)))
        lags[device] = (wire - error) * 1_000_000
    state = MemoryState(KERNEL.tables)
    steps = [
        KERNEL.step(state, {"in": frame(part, first)}, EpochClock(0, 0, 0))
        for first, part in ((0, rows[:cut]), (len(rows[:cut]), rows[cut:]))
    ]
    assert [time for step in steps for time in step.changes["_time"]] == truth
    assert all(balanced(step.counts["in"]) for step in steps)
    assert sum(step.counts["in"].accepted for step in steps) == len(rows)
    assert dict(KERNEL.offsets(state).select("device", "_lag").rows()) == lags


def test_a_row_without_stamps_falls_back_to_what_is_known() -> None:
    state = MemoryState(KERNEL.tables)
    rows = frame([("a", NOON, None, NOON + seconds(9)), ("a", None, NOON, NOON + seconds(9))])
    step = KERNEL.step(state, {"in": rows}, EpochClock(0, 0, 0))
    assert step.changes["_time"].to_list() == [to_micros(NOON), to_micros(NOON + seconds(9))]
    assert step.changes["occurred"].to_list() == [NOON, None]


def test_the_worst_clock_is_listed_first() -> None:
    state = MemoryState(KERNEL.tables)
    rows = [("a", NOON, NOON, NOON + seconds(2)), ("b", NOON, NOON + seconds(50), NOON + seconds(3))]
    KERNEL.step(state, {"in": frame(rows)}, EpochClock(0, 0, 0))
    assert KERNEL.offsets(state).select("device", "_lag").rows() == [("b", -47_000_000), ("a", 2_000_000)]
