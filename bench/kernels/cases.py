"""One case for each operator, and more for those whose work depends on how they are configured."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from bench.kernels import batch
from bench.kernels.rows import EVENT, SPAN, VERSION, Columns, EventRows, VersionRows
from riverrun.kernels.aggregates import Agg, Aggregates
from riverrun.kernels.as_of import AsOfKernel
from riverrun.kernels.changes import ChangesKernel
from riverrun.kernels.dedupe import DedupeKernel
from riverrun.kernels.group import GroupKernel
from riverrun.kernels.hopping import HoppingKernel
from riverrun.kernels.join_streams import JoinStreamsKernel
from riverrun.kernels.join_tables import JoinTablesKernel
from riverrun.kernels.kernel import Kernel
from riverrun.kernels.latest import LatestKernel
from riverrun.kernels.lookup import LookupKernel
from riverrun.kernels.session import SessionKernel
from riverrun.kernels.sides import JoinOutput, Sides
from riverrun.kernels.sliding import SlidingKernel
from riverrun.kernels.table import TableKernel
from riverrun.kernels.top import OrderBy, TopKernel
from riverrun.kernels.tumbling import TumblingKernel
from riverrun.kernels.versus import VersusKernel

Frames = Mapping[str, pl.DataFrame]
Make = Callable[[int, int], Callable[[int], Frames]]
"""(rows of an epoch, keys) → what gives the inputs of an epoch by its number."""

SIMPLE, JOIN = 1.5e-3, 3e-3  # targets: seconds of a small step
ONE, TWO = 1e-6, 2e-6  # targets: seconds of a row in a large step


@dataclass(frozen=True)
class KernelCase:
    """A kernel, its input, its targets, and what a batch over all input says of the sum of its changes."""

    kernel: Kernel
    inputs: Make
    step: float = SIMPLE
    row: float = ONE
    expected: Callable[[Frames, int], pl.DataFrame] | None = None


def _events(*columns: str) -> Make:
    def make(rows: int, keys: int) -> Callable[[int], Frames]:
        events = EventRows(rows, keys)
        return lambda number: {"in": _narrow(events.epoch(number), columns)}

    return make


def _changes(rows: int, keys: int) -> Callable[[int], Frames]:
    versions = VersionRows(rows // 2, keys)
    return lambda number: {"in": versions.changes(number)}


def _changelog(rows: int, keys: int) -> Callable[[int], Frames]:
    versions = VersionRows(rows, keys)
    return lambda number: {"in": versions.changelog(number)}


def _two_streams(rows: int, keys: int) -> Callable[[int], Frames]:
    left, right = EventRows(rows // 2, keys, seed=3), EventRows(rows // 2, keys, seed=4)
    columns = ("user", "price", "note")
    return lambda number: {
        "left": _narrow(left.epoch(number), columns),
        "right": _narrow(right.epoch(number), columns),
    }


def _stream_and_table(versions: bool) -> Make:
    def make(rows: int, keys: int) -> Callable[[int], Frames]:
        left, table = EventRows(rows * 9 // 10, keys), VersionRows(rows // 10, keys)
        right = table.changelog if versions else table.changes
        return lambda number: {"left": _narrow(left.epoch(number), ("user", "price")), "right": right(number)}

    return make


def _two_tables(rows: int, keys: int) -> Callable[[int], Frames]:
    left, right = VersionRows(rows // 4, keys, seed=5), VersionRows(rows // 4, keys, seed=6)
    return lambda number: {"left": left.changes(number), "right": right.changes(number)}


def _windows(rows: int, keys: int) -> Callable[[int], Frames]:
    """Results of windows of one epoch each, as `versus` gets them."""
    events = EventRows(rows, keys)

    def inputs(number: int) -> Frames:
        start = events.epoch(number)["_received"][0]
        users = events.epoch(number).unique("user", maintain_order=True)
        bounds = {"window_start": start, "window_end": start + pl.duration(microseconds=SPAN)}
        bounded = users.with_columns(pl.lit(start).alias("window_start"), bounds["window_end"].alias("window_end"))
        time = pl.col("window_end").cast(pl.Int64).alias("_time")
        return {"in": _narrow(bounded.with_columns(time), ("user", "window_start", "window_end", "price"))}

    return inputs


def _narrow(rows: pl.DataFrame, columns: Sequence[str]) -> pl.DataFrame:
    return rows.select(*columns, "_time", "_weight", "_partition", "_offset", "_received")


def _of(*columns: str) -> Columns:
    return {name: EVENT[name] for name in columns}


def _sides(left: Columns, right: Columns, on: str = "user") -> Sides:
    outputs = [JoinOutput(on, "key", on)]
    outputs += [JoinOutput(name, "left", name) for name in left if name != on]
    outputs += [JoinOutput(f"{name}_right", "right", name) for name in right if name != on]
    return Sides((on,), (on,), left, right, tuple(outputs))


COUNT = (Agg("n", "count"),)
COUNT_AND_SUM = (*COUNT, Agg("total", "sum", "amount"))
NINE = (
    *COUNT,
    Agg("cheap_ones", "count", where="cheap"),
    Agg("dear_ones", "count", where="dear"),
    Agg("noted", "count", "note"),
    Agg("least", "min", "price"),
    Agg("most", "max", "price"),
    Agg("mean", "avg", "price"),
    Agg("total", "sum", "price"),
    Agg("spread", "stddev", "price"),
)
DISTINCT = tuple(
    Agg(f"{column}s_{where}", "distinct", column, where)
    for column in ("user", "item")
    for where in (None, "cheap", "dear")
)
USER, WIDE = _of("user"), _of("user", "item", "price", "note")
NINE_COLUMNS = _of("item", "day", "price", "note", "cheap", "dear")
DISTINCT_COLUMNS = _of("day", "user", "item", "cheap", "dear")
STREAMS = _sides(_of("user", "price", "note"), _of("user", "price", "note"))
TABLES = _sides(VERSION, VERSION, on="place")
WITH_TABLE = _sides(_of("user", "price"), VERSION)
WINDOW = {"user": pl.String(), **dict.fromkeys(("window_start", "window_end"), pl.Datetime("us", "UTC"))}
BY_POINTS = (OrderBy("points", True, False),)
BY_PRICE = (OrderBy("price", True, False),)


def _per_user(*columns: str, aggs: tuple[Agg, ...] = COUNT_AND_SUM) -> tuple[Aggregates, Columns]:
    schema = _of("user", *columns)
    return Aggregates(aggs, schema), schema


def _top(columns: Columns, **more: object) -> TopKernel:
    return TopKernel(schema=columns, outputs=tuple(columns), **more)  # type: ignore[arg-type]


CASES: dict[str, KernelCase] = {
    "group": KernelCase(
        GroupKernel(("user",), *_per_user("amount")), _events("user", "amount"), expected=batch.group(COUNT_AND_SUM)
    ),
    "group, 9 aggregates": KernelCase(
        GroupKernel(("item", "day"), Aggregates(NINE, NINE_COLUMNS), NINE_COLUMNS), _events(*NINE_COLUMNS), step=JOIN
    ),
    "group, 6 distinct counts": KernelCase(
        GroupKernel(("day",), Aggregates(DISTINCT, DISTINCT_COLUMNS), DISTINCT_COLUMNS),
        _events(*DISTINCT_COLUMNS),
        step=JOIN,
        row=TWO,
        expected=batch.distinct,
    ),
    "group of a table": KernelCase(
        GroupKernel(
            ("place",),
            Aggregates((*COUNT, Agg("total", "sum", "points"), Agg("most", "max", "points")), VERSION, retracts=True),
            VERSION,
        ),
        _changes,
        step=JOIN,
        row=TWO,
        expected=batch.places,
    ),
    "tumbling": KernelCase(
        TumblingKernel(("user",), 2 * SPAN, *_per_user(aggs=COUNT)),
        _events("user"),
        expected=batch.windows(2, 2, False),
    ),
    "tumbling, shown while open": KernelCase(
        TumblingKernel(("user",), 2 * SPAN, *_per_user(aggs=COUNT), update=True),
        _events("user"),
        expected=batch.windows(2, 2, True),
    ),
    "hopping": KernelCase(
        HoppingKernel(("user",), 2 * SPAN, SPAN // 2, *_per_user(aggs=COUNT)),
        _events("user"),
        step=JOIN,
        row=TWO,
        expected=batch.windows(2, 0.5, False),
    ),
    "sliding": KernelCase(
        SlidingKernel(("user",), 2 * SPAN, *_per_user("amount")), _events("user", "amount"), step=JOIN, row=TWO
    ),
    "session": KernelCase(
        SessionKernel(("user",), SPAN // 2, *_per_user("amount")),
        _events("user", "amount"),
        step=JOIN,
        row=TWO,
        expected=batch.sessions,
    ),
    "session, rows kept": KernelCase(
        SessionKernel(("user",), SPAN // 2, *_per_user("price", aggs=(Agg("all", "collect", "price"),))),
        _events("user", "price"),
        step=JOIN,
        row=2 * TWO,
    ),
    "versus": KernelCase(VersusKernel(("user",), SPAN, {**WINDOW, "price": pl.Int64()}), _windows, step=JOIN, row=TWO),
    "latest": KernelCase(LatestKernel(("user", "item"), WIDE), _events(*WIDE), expected=batch.latest),
    "table": KernelCase(TableKernel(("user",), VERSION), _changelog, expected=batch.table),
    "dedupe": KernelCase(DedupeKernel(("user",), 3 * SPAN, USER), _events("user")),
    "lookup": KernelCase(LookupKernel(WITH_TABLE, "left"), _stream_and_table(False), expected=batch.lookup),
    "as_of": KernelCase(
        AsOfKernel(WITH_TABLE, "left", 3 * SPAN, wait=True, changelog=True), _stream_and_table(True), step=JOIN, row=TWO
    ),
    "as_of, corrected": KernelCase(
        AsOfKernel(WITH_TABLE, "left", 3 * SPAN, wait=False, changelog=True),
        _stream_and_table(True),
        step=JOIN,
        row=TWO,
    ),
    "join of streams": KernelCase(
        JoinStreamsKernel(STREAMS, "inner", 0, SPAN), _two_streams, step=JOIN, row=TWO, expected=batch.joined_streams
    ),
    "join of streams, left": KernelCase(JoinStreamsKernel(STREAMS, "left", 0, SPAN), _two_streams, step=JOIN, row=TWO),
    "join of tables": KernelCase(
        JoinTablesKernel(TABLES, "inner", ("user",), ("user",)),
        _two_tables,
        step=JOIN,
        row=2 * TWO,
        expected=batch.joined_tables,
    ),
    "top 5 of a table": KernelCase(
        _top(VERSION, n=5, order=BY_POINTS, per=("place",), key=("user",)), _changes, row=TWO, expected=batch.top_points
    ),
    "top 10 of a stream": KernelCase(
        _top(WIDE, n=10, order=BY_PRICE, per=("item",), key=(), rank="rank", stream=True, retracts=False),
        _events(*WIDE),
        row=TWO,
        expected=batch.top_prices,
    ),
    "top 1 with ties": KernelCase(
        _top(WIDE, n=1, order=BY_PRICE, per=(), key=(), ties=True, stream=True, retracts=False),
        _events(*WIDE),
        row=TWO,
    ),
    "changes": KernelCase(ChangesKernel(("user",), VERSION), _changes),
}
