"""Keys that are floats: NaN is a key like others, and -0.0 is 0.0. Every operator does with them what it does with text.

Epochs of one row are among them on purpose: frames of one row take other ways through Polars.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from typing import Any, Literal

import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from oracles.memory_state import MemoryState
from riverrun.kernels.aggregates import Agg, Aggregates
from riverrun.kernels.as_of import AsOfKernel
from riverrun.kernels.changes import ChangesKernel
from riverrun.kernels.dedupe import DedupeKernel
from riverrun.kernels.group import GroupKernel
from riverrun.kernels.hopping import HoppingKernel
from riverrun.kernels.join_streams import JoinStreamsKernel
from riverrun.kernels.join_tables import JoinTablesKernel
from riverrun.kernels.kernel import MAX_TIME, MIN_TIME, EpochClock, Kernel
from riverrun.kernels.latest import LatestKernel
from riverrun.kernels.lookup import LookupKernel
from riverrun.kernels.session import SessionKernel
from riverrun.kernels.sides import JoinOutput, Sides
from riverrun.kernels.sliding import SlidingKernel
from riverrun.kernels.table import TableKernel
from riverrun.kernels.top import OrderBy, TopKernel
from riverrun.kernels.tumbling import TumblingKernel
from riverrun.kernels.versus import VersusKernel

KEYS = (math.nan, 0.0, -0.0, 1.5, None)
NAMES = ("nan", "zero", "zero", "x", None)
"""The same keys as text: those that are equal have one name."""

STAMP = pl.Datetime("us", "UTC")
SECOND = 1_000_000
HIDDEN = {"_time": pl.Int64(), "_weight": pl.Int8(), "_partition": pl.Int32(), "_offset": pl.Int64()}

Schema = dict[str, pl.DataType]
Stage = Callable[[pl.DataFrame, EpochClock], pl.DataFrame]
"""What comes out of an operator, or of some, when rows come in."""

rows_of = st.lists(
    st.lists(
        st.tuples(st.integers(0, 4), st.sampled_from([1, 1, None]), st.integers(0, 3), st.integers(0, 30)),
        min_size=1,
        max_size=3,
    ),
    min_size=1,
    max_size=6,
)


def totals(schema: Schema, retracts: bool = False, span: int | None = None) -> Aggregates:
    aggs = (
        Agg("rows", "count"),
        Agg("different", "distinct", "n"),
        Agg("all", "collect", "n"),
        Agg("middle", "quantile", "n", q=0.5),
        Agg("often", "top", "n", n=2),
        Agg("least", "min", "n"),
        Agg("newest", "last", "n"),
    )
    return Aggregates(aggs, schema, span=span, retracts=retracts)


def step(kernel: Kernel) -> Callable[..., pl.DataFrame]:
    state = MemoryState(kernel.tables)
    return lambda clock, **inputs: (
        kernel.step(state, {name.rstrip("_"): rows for name, rows in inputs.items()}, clock).changes
    )


def one(kernel: Kernel) -> Stage:
    played = step(kernel)
    return lambda rows, clock: played(clock, in_=rows)


def behind(first: Kernel, second: Kernel) -> Stage:
    """The second reads what the first gives."""
    above, below = one(first), one(second)
    return lambda rows, clock: below(_numbered(above(rows, clock)), clock)


def self_joined(kernel: Kernel, left: Kernel | None = None, right: Kernel | None = None) -> Stage:
    """A join of what two operators make of the same rows; None: of the rows as they are."""
    ways = [one(way) if way else None for way in (left, right)]
    join = step(kernel)

    def both(rows: pl.DataFrame, clock: EpochClock) -> pl.DataFrame:
        sides = [_numbered(way(rows, clock)) if way else rows for way in ways]
        if isinstance(kernel, AsOfKernel):  # which also gets rows that a condition leaves out; here there is none
            sides[1] = sides[1].with_columns(pl.lit(False).alias("_deleted"))
        return join(clock, left=sides[0], right=sides[1])

    return both


def _numbered(changes: pl.DataFrame) -> pl.DataFrame:
    if "_partition" in changes.columns:
        return changes
    return changes.with_columns(
        pl.lit(0, pl.Int32).alias("_partition"), pl.int_range(pl.len(), dtype=pl.Int64).alias("_offset")
    )


def sides(by: tuple[str, ...], left: Schema, right: Schema) -> Sides:
    outputs = [JoinOutput(name, "key", name) for name in by]
    parts: tuple[tuple[Literal["left", "right"], Schema], ...] = (("left", left), ("right", right))
    for side, schema in parts:
        outputs += [JoinOutput(f"{name}_{side}", side, name) for name in schema if name not in by]
    return Sides(by, by, left, right, tuple(outputs))


def windowed(schema: Schema, by: tuple[str, ...]) -> TumblingKernel:
    return TumblingKernel(by, 5, Aggregates((Agg("rows", "count"),), schema), schema, update=True)


def counted(schema: Schema, by: tuple[str, ...]) -> GroupKernel:
    return GroupKernel(by, Aggregates((Agg("rows", "count"),), schema), schema)


def results(schema: Schema, by: tuple[str, ...]) -> Schema:
    return {**{name: schema[name] for name in by}, "rows": pl.Int64()}


def windows(schema: Schema, by: tuple[str, ...]) -> Schema:
    return {**{name: schema[name] for name in by}, "window_start": STAMP, "window_end": STAMP, "rows": pl.Int64()}


def first(schema: Schema, by: tuple[str, ...], **more: Any) -> TopKernel:
    rows = {**schema, "_order0": pl.Int64()}
    return TopKernel(1, (OrderBy("_order0", False, True),), by, (), rows, tuple(schema), rank="place", spare=0, **more)


OPERATORS: dict[str, Callable[[Schema, tuple[str, ...]], Stage]] = {
    "group": lambda s, by: one(GroupKernel(by, totals(s), s)),
    "group of a table": lambda s, by: behind(LatestKernel((*by, "n"), s), GroupKernel(by, totals(s, retracts=True), s)),
    "tumbling": lambda s, by: one(TumblingKernel(by, 10, totals(s), s)),
    "tumbling, corrected": lambda s, by: one(TumblingKernel(by, 10, totals(s), s, horizon=9)),
    "tumbling, updated": lambda s, by: one(TumblingKernel(by, 10, totals(s), s, update=True)),
    "hopping": lambda s, by: one(HoppingKernel(by, 10, 5, totals(s), s)),
    "hopping, updated": lambda s, by: one(HoppingKernel(by, 10, 5, totals(s), s, update=True)),
    "sliding": lambda s, by: one(SlidingKernel(by, 10, totals(s), s)),
    "sliding, corrected": lambda s, by: one(SlidingKernel(by, 10, totals(s), s, horizon=9)),
    "session": lambda s, by: one(SessionKernel(by, 5, totals(s), s)),
    "session, updated": lambda s, by: one(SessionKernel(by, 5, totals(s), s, horizon=9, update=True)),
    "latest": lambda s, by: one(LatestKernel(by, s)),
    "table": lambda s, by: one(TableKernel(by, s)),
    "dedupe": lambda s, by: one(DedupeKernel(by, 5, s)),
    "versus": lambda s, by: behind(windowed(s, by), VersusKernel(by, 5, windows(s, by))),
    "changes": lambda s, by: behind(LatestKernel(by, s), ChangesKernel(by, s)),
    "top of a stream": lambda s, by: one(first(s, by, stream=True, retracts=False)),
    "join of streams": lambda s, by: self_joined(JoinStreamsKernel(sides(by, s, s), "full", -2, 5)),
    "lookup": lambda s, by: self_joined(LookupKernel(sides(by, s, results(s, by)), "left"), right=counted(s, by)),
    "as_of": lambda s, by: self_joined(AsOfKernel(sides(by, s, s), "left", 9, False, False), right=LatestKernel(by, s)),
    "as_of, waiting": lambda s, by: self_joined(
        AsOfKernel(sides(by, s, s), "left", 9, True, False), right=LatestKernel(by, s)
    ),
    "join of tables": lambda s, by: self_joined(
        JoinTablesKernel(sides(by, s, results(s, by)), "full", (*by, "n"), by),
        LatestKernel((*by, "n"), s),
        counted(s, by),
    ),
    "join of tables by their keys": lambda s, by: self_joined(
        JoinTablesKernel(sides(by, s, results(s, by)), "full", by, by), LatestKernel(by, s), counted(s, by)
    ),
}


def epochs(
    drawn: list[list[tuple[Any, ...]]], keys: tuple[Any, ...], schema: Schema
) -> list[tuple[pl.DataFrame, EpochClock]]:
    made, offset, watermark = [], 0, MIN_TIME
    for number, batch in enumerate(drawn):
        rows = [(keys[at], part, n, time, 1, 0, offset + i) for i, (at, part, n, time) in enumerate(batch)]
        offset += len(batch)
        frame = pl.DataFrame(rows, schema={**schema, **HIDDEN}, orient="row").with_columns(
            pl.lit(number, pl.Int64).cast(STAMP).alias("_received"),
            pl.lit(False).alias("_deleted"),
            pl.col("n").alias("_order0"),
        )
        end = max(watermark, number * 4 - 3)
        made.append((frame, EpochClock(number, watermark, end)))
        watermark = end
    return [*made, (frame.clear(), EpochClock(len(made), watermark, MAX_TIME))]


def plain(value: Any) -> Any:
    """Floats by the names of the keys, so that both ways can be compared."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else "zero" if value == 0 else "x" if value == 1.5 else value
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    return value


def played(operator: str, drawn: list[Any], keys: tuple[Any, ...], kind: pl.DataType, by: tuple[str, ...]) -> list[Any]:
    schema: Schema = {"key": kind, "part": pl.Int64(), "n": pl.Int64()}
    stage = OPERATORS[operator](schema, by)
    # ids of changes are hashes of their keys, and not compared
    return [
        Counter(
            repr(plain({name: row[name] for name in row if name not in ("_partition", "_offset")}))
            for row in stage(rows, clock).to_dicts()
        )
        for rows, clock in epochs(drawn, keys, schema)
    ]


ALONE = [[(0, 1, 1, 1)], [(0, 1, 2, 3)], [(0, 1, 2, 4)]]
ZEROS = [[(1, 1, 1, 1)], [(2, 1, 1, 2)], [(1, 1, 3, 4), (2, 1, 1, 4)]]


@pytest.mark.parametrize("operator", OPERATORS)
@settings(max_examples=5, deadline=None)
@given(rows_of, st.sampled_from([pl.Float64(), pl.Float32()]), st.sampled_from([("key",), ("key",), ("key", "part")]))
@example(ALONE, pl.Float64(), ("key",))
@example(ZEROS, pl.Float64(), ("key",))
def test_a_float_is_a_key_like_others(operator: str, drawn: list[Any], kind: pl.DataType, by: tuple[str, ...]) -> None:
    found = played(operator, drawn, KEYS, kind, by)
    assert found == played(operator, drawn, NAMES, pl.String(), by)


@pytest.mark.parametrize(
    "operator", ["group", "tumbling, updated", "hopping, updated", "sliding, corrected", "session, updated"]
)
def test_groups_take_back_what_they_gave_whichever_zero_comes(operator: str) -> None:
    schema: Schema = {"key": pl.Float64(), "part": pl.Int64(), "n": pl.Int64()}
    stage, view = OPERATORS[operator](schema, ("key",)), Counter[str]()
    for rows, clock in epochs(ZEROS, KEYS, schema):
        for row in stage(rows, clock).to_dicts():
            view[repr({**row, "_weight": None})] += row["_weight"]
    assert all(count >= 0 for count in view.values())
    assert all("-0.0" not in row for row in view)
