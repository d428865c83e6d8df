"""Sessions: bounds that follow from the rows, merged and corrected by late ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles import sessions as oracle
from oracles.epochs import Epoch, Row, frame, play, scripted, split
from oracles.memory_state import MemoryState
from riverrun.kernels.aggregates import Agg, Aggregates
from riverrun.kernels.kernel import EpochClock
from riverrun.kernels.session import SessionKernel

SCHEMA: dict[str, pl.DataType] = {"user": pl.String(), "n": pl.Int64()}
GAP = 5
COLUMNS = ["user", "window_start", "window_end", "rows", "total", "opening"]


TOTALS = Aggregates(
    (Agg("rows", "count"), Agg("total", "sum", "n"), Agg("opening", "first", "n")), SCHEMA, retracts=True
)
MERGED = Aggregates((Agg("rows", "count"), Agg("total", "sum", "n"), Agg("opening", "min", "n")), SCHEMA)
"""Of rows that stay: state has sessions and no rows."""


def kernel(
    horizon: int = 0, aside: bool = False, update: bool = False, aggregates: Aggregates = TOTALS
) -> SessionKernel:
    return SessionKernel(("user",), GAP, aggregates, SCHEMA, horizon, aside, update)


def totals(session: list[Row]) -> Row:
    return len(session), sum(row[1] for row in session), session[0][1]


def merged_totals(session: list[Row]) -> Row:
    return len(session), sum(row[1] for row in session), min(row[1] for row in session)


KINDS: dict[str, tuple[Aggregates, Callable[[list[Row]], Row]]] = {
    "rows kept": (TOTALS, totals),
    "merged": (MERGED, merged_totals),
}


row = st.tuples(st.sampled_from(["a", "b", None]), st.integers(0, 9), st.integers(0, 60))


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=60, deadline=None)
@given(scripted(row, SCHEMA, 20), st.sampled_from([0, 0, 4, 15]), st.booleans(), st.booleans())
def test_every_epoch_shows_what_the_definition_says(
    kind: str, epochs: list[Epoch], horizon: int, aside: bool, update: bool
) -> None:
    aggregates, totals = KINDS[kind]
    plain = [(rows.select("user", "n", "_time").rows(), end) for rows, end in epochs]
    views, late = oracle.after_each_epoch(plain, GAP, horizon, update, totals)
    played = play(kernel(horizon, aside, update, aggregates), epochs, COLUMNS)
    assert played.views == views
    assert played.counts["late_aside" if aside else "late_dropped"] == len(late)
    assert Counter((r["user"], r["n"], r["_time"]) for r in played.late) == Counter(late if aside else [])


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=40, deadline=None)
@given(st.lists(row, max_size=40), st.lists(st.integers(0, 40), max_size=5), st.booleans())
def test_any_batching_ends_like_the_batch(kind: str, rows: list[Row], cuts: list[int], update: bool) -> None:
    aggregates, totals = KINDS[kind]
    expected = Counter(oracle.shape(s, GAP, totals) for s in oracle.sessions(rows, GAP))
    assert play(kernel(update=update, aggregates=aggregates), split(rows, cuts, SCHEMA), COLUMNS).view == expected


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(row, st.integers(-1, 4)), max_size=25), st.booleans())
def test_retracted_rows_leave_no_trace(drawn: list[tuple[Row, int]], update: bool) -> None:
    epochs = []
    for number in range(5):
        added = frame([row for at, (row, _) in enumerate(drawn) if at % 4 == number], SCHEMA, number * 100)
        gone = frame([row for at, (row, when) in enumerate(drawn) if when == number > at % 4], SCHEMA)
        epochs.append((pl.concat([added, gone.with_columns(pl.lit(-1, pl.Int8).alias("_weight"))]), 0))
    left = [row for at in range(4) for row, when in drawn[at::4] if when <= at]
    expected = Counter(oracle.shape(s, GAP, totals)[:-2] for s in oracle.sessions(left, GAP))
    played = play(kernel(update=update), epochs, COLUMNS)
    assert Counter({row[:-2]: 1 for row in played.view}) == expected


def test_many_rows_at_once() -> None:
    """So many that they are counted in another way."""
    users, times = 600, 100
    rows = [(f"u{user}", 1, time * (2 if time < 60 else 10)) for time in range(times) for user in range(users)]
    only_sums = SessionKernel(
        ("user",), GAP, Aggregates((Agg("rows", "count"), Agg("total", "sum", "n")), SCHEMA), SCHEMA
    )
    view = play(only_sums, [(frame(rows, SCHEMA), 0)], ["user", "rows", "total"]).view
    assert Counter(row[1:3] for row in view) == {(60, 60): users, (1, 1): users * 40}


def one(rows: list[Row], end: int) -> Epoch:
    return frame(rows, SCHEMA), end


def test_a_late_row_joins_two_sessions() -> None:
    played = play(kernel(horizon=20), [one([("a", 1, 0), ("a", 2, 8)], 20), one([("a", 4, 4)], 20)], COLUMNS)
    shown = [changes.select("rows", "total", "_weight").rows() for changes in played.changes]
    assert shown == [[(1, 1, 1), (1, 2, 1)], [(1, 1, -1), (3, 7, 1), (1, 2, -1)], []]


def test_a_correction_can_open_a_session_again() -> None:
    epochs = [one([("a", 1, 10)], 15), one([("a", 1, 14)], 15), one([], 19)]
    played = play(kernel(horizon=20), epochs, COLUMNS)
    assert [len(view) for view in played.views] == [1, 0, 1, 1]


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_sessions_that_had_closed_are_counted_as_corrections(kind: str) -> None:
    epochs = [
        one([("a", 1, 0), ("b", 1, 12)], 16),
        one([("a", 1, 30), ("a", 2, 2), ("b", 1, 14)], 16),  # new; of a closed session; of one that is open
        one([("a", 1, 5), ("c", 1, 9)], 16),  # joins the closed one again; a session that is closed at once
    ]
    aggregates, _ = KINDS[kind]
    for horizon, corrected, late in ((30, 3, 0), (0, 0, 3)):
        counts = play(kernel(horizon, aggregates=aggregates), epochs, COLUMNS).counts
        assert (counts["corrected"], counts["late_dropped"]) == (corrected, late)


def test_an_old_row_that_touches_an_open_session_is_in_time() -> None:
    played = play(
        kernel(), [one([("a", 1, 10)], 14), one([("a", 1, 6)], 14), one([("a", 1, 0), ("a", 1, 2)], 14)], COLUMNS
    )
    assert played.counts["late_dropped"] == 0
    assert [row["rows"] for row in played.rows()] == [4]


def test_without_by_all_rows_share_their_sessions() -> None:
    schema: dict[str, pl.DataType] = {"n": pl.Int64()}
    everybody = SessionKernel((), GAP, TOTALS, schema)
    played = play(everybody, [(frame([(1, 0), (2, 4), (3, 20)], schema), 0)], COLUMNS[1:])
    assert sorted(row["total"] for row in played.rows()) == [3, 3]


@pytest.mark.parametrize("horizon", [0, 30])
def test_nothing_is_kept_of_sessions_that_are_over(horizon: int) -> None:
    state = MemoryState(kernel(horizon).tables)
    start = 0
    for number in range(20):
        end = number * 100
        rows = frame([("a", 1, end + 50), ("b", 1, end + 52)], SCHEMA)
        kernel(horizon).step(state, {"in": rows}, EpochClock(number, start, end))
        start = end
    assert len(state["rows"].scan()) == 2
    assert len(state["sessions"].scan()) == 2
