"""Versus: each window beside the same one earlier, after any sequence of changes."""

from __future__ import annotations

from typing import Any

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles.epochs import Row, play
from oracles.memory_state import MemoryState
from riverrun.columns import TIME, WEIGHT
from riverrun.durations import from_micros, to_micros
from riverrun.kernels.kernel import MIN_TIME, EpochClock
from riverrun.kernels.versus import VersusKernel

STAMP = pl.Datetime("us", "UTC")
SIZE, EARLIER = 10, 20
SCHEMA: dict[str, pl.DataType] = {
    "shop": pl.String(),
    "window_start": STAMP,
    "window_end": STAMP,
    "n": pl.Int64(),
    "most": pl.String(),
}
KERNEL = VersusKernel(("shop",), EARLIER, SCHEMA)
COLUMNS = [*SCHEMA, "n_before", "most_before"]

Window = tuple[str | None, int]
Table = dict[Window, tuple[int | None, str | None]]

windows = st.tuples(st.sampled_from(["x", None]), st.integers(0, 7).map(lambda n: n * SIZE))
values = st.one_of(st.none(), st.tuples(st.one_of(st.none(), st.integers(0, 3)), st.sampled_from(["p", None])))
epochs_of = st.lists(
    st.tuples(st.dictionaries(windows, values, max_size=6), st.integers(0, 25)), min_size=1, max_size=6
)


def changes(rows: list[tuple[Window, tuple[Any, Any], int]]) -> pl.DataFrame:
    built = [
        (shop, from_micros(start), from_micros(start + SIZE), *value, start + SIZE, weight, 0, offset)
        for offset, ((shop, start), value, weight) in enumerate(rows)
    ]
    hidden = {TIME: pl.Int64(), WEIGHT: pl.Int8(), "_partition": pl.Int32(), "_offset": pl.Int64()}
    return pl.DataFrame(built, schema={**SCHEMA, **hidden}, orient="row")


def beside(table: Table) -> dict[Row, int]:
    compared = {}
    for (shop, start), value in table.items():
        before = table.get((shop, start - EARLIER), (None, None))
        end = start + SIZE
        compared[shop, from_micros(start), from_micros(end), *value, *before, end] = 1
    return compared


@settings(max_examples=60, deadline=None)
@given(epochs_of)
def test_the_view_equals_the_join_of_the_table_with_itself(drawn: list[tuple[dict[Window, Any], int]]) -> None:
    table: Table = {}
    epochs, watermark = [], -1
    for wanted, rise in drawn:
        rows = []
        for window, value in wanted.items():
            # A window that ended before the watermark does not change any more.
            if window[1] + SIZE < watermark or table.get(window) == value:
                continue
            if window in table:
                rows.append((window, table.pop(window), -1))
            if value is not None:
                table[window] = value
                rows.append((window, value, 1))
        watermark += rise
        epochs.append((changes(rows), watermark))
    assert dict(play(KERNEL, epochs, COLUMNS).view) == beside(table)


def test_a_change_of_the_earlier_window_reissues_the_later_one() -> None:
    state = MemoryState(KERNEL.tables)
    first = changes([(("x", 0), (1, "p"), 1), (("x", 20), (5, "p"), 1)])
    KERNEL.step(state, {"in": first}, EpochClock(0, MIN_TIME, MIN_TIME))
    again = changes([(("x", 0), (1, "p"), -1), (("x", 0), (2, "p"), 1)])
    step = KERNEL.step(state, {"in": again}, EpochClock(1, MIN_TIME, MIN_TIME))
    assert step.changes.select("n", "n_before", WEIGHT).rows() == [(1, None, -1), (2, None, 1), (5, 1, -1), (5, 2, 1)]


def test_windows_that_nobody_can_need_are_forgotten() -> None:
    state = MemoryState(KERNEL.tables)
    for number in range(30):
        rows = changes([(("x", number * SIZE), (number, "p"), 1)])
        end = (number + 1) * SIZE
        step = KERNEL.step(state, {"in": rows}, EpochClock(number, end - SIZE, end))
        assert step.changes["n_before"].to_list() == [number - 2 if number > 1 else None]
    kept = state["windows"].scan()
    assert min(to_micros(end) for end in kept["window_end"]) == 300 - EARLIER
    assert len(kept) == 3


def test_without_by_there_is_one_window_to_compare_with() -> None:
    schema = {name: kind for name, kind in SCHEMA.items() if name != "shop"}
    rows = changes([(("x", 0), (1, "p"), 1), (("x", 20), (5, "q"), 1)]).drop("shop")
    played = play(VersusKernel((), EARLIER, schema), [(rows, 0)], COLUMNS[1:])
    assert sorted((row["n"], row["n_before"], row["most_before"]) for row in played.rows()) == [
        (1, None, None),
        (5, 1, "p"),
    ]
