"""Changes of a table as a stream: what differs between the table before and after an epoch, each key once."""

from __future__ import annotations

import math
import tempfile
from typing import Any

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles.tables import Ops, Play, Row, Table, shown
from riverrun.kernels.changes import ChangesKernel

SCHEMA: dict[str, pl.DataType] = {"key": pl.String(), "part": pl.Float64(), "n": pl.Int64(), "real": pl.Float64()}
KEY = ("key", "part")
KERNEL = ChangesKernel(KEY, SCHEMA)
OUTPUT = ["_op", "_before", "_after", "_time", "_weight", "_received", "_partition", "_offset"]

REALS = st.sampled_from([None, 0.0, -0.0, 1.5, math.nan])
keys = st.tuples(st.sampled_from(["a", "b", "", None]), st.sampled_from([None, 0.0, 1.0]))
rests = st.tuples(st.sampled_from([None, 1, 2]), REALS, st.integers(0, 3))
epochs = st.lists(
    st.tuples(st.lists(st.tuples(keys, st.one_of(rests, st.none())), max_size=10), st.booleans()),
    min_size=1,
    max_size=6,
)


def compared(before: dict[Row, Row], after: dict[Row, Row]) -> list[tuple[str, str | None, str | None, int]]:
    """(op, row before, row after, time) of every key whose values differ."""
    found = []
    for key in before.keys() | after.keys():
        old, new = before.get(key), after.get(key)
        if old is None or new is None or shown(old[:-1]) != shown(new[:-1]):
            op = "insert" if old is None else "delete" if new is None else "update"
            rows = [shown(row[:-1]) if row else None for row in (old, new)]
            found.append((op, rows[0], rows[1], (new or old or ())[-1]))
    return sorted(found, key=repr)


def told(changes: pl.DataFrame) -> list[tuple[str, str | None, str | None, int]]:
    def text(row: dict[str, Any] | None) -> str | None:
        return None if row is None else shown(tuple(row.values()))

    rows = ((op, text(before), text(after), time) for op, before, after, time, *_ in changes.select(OUTPUT).rows())
    return sorted(rows, key=repr)


@settings(max_examples=60, deadline=None)
@given(epochs)
def test_tells_what_differs_before_and_after_every_epoch(script: list[tuple[Ops, bool]]) -> None:
    table = Table(SCHEMA, KEY)
    with tempfile.TemporaryDirectory() as directory:
        play = Play(KERNEL, directory)
        ids: list[Row] = []
        for ops, backwards in script:
            before = dict(table.rows)
            changes = play.step(one=table.apply(ops, backwards))
            assert told(changes) == compared(before, table.rows)
            assert changes.columns == OUTPUT
            ids += changes.select("_partition", "_offset").rows()
    assert len(set(ids)) == len(ids)
    assert all(part >= 0 and offset >= 0 for part, offset in ids)


def test_a_key_that_is_again_as_it_was_does_not_appear() -> None:
    table, play = Table(SCHEMA, KEY), Play(KERNEL)
    play.step(one=table.apply([(("a", 0.0), (1, 1.0, 10))]))
    there_and_back = [(("a", 0.0), None), (("a", 0.0), (2, 1.0, 11)), (("a", 0.0), (1, 1.0, 12))]
    assert play.step(one=table.apply(there_and_back)).is_empty()


def test_changes_of_a_key_are_in_the_order_of_their_epochs() -> None:
    table, play = Table(SCHEMA, KEY), Play(KERNEL)
    steps = [play.step(one=table.apply([((None, 0.0), (number, 1.0, 5))])) for number in range(4)]
    changes = pl.concat(steps[::-1]).sort("_partition", "_offset")
    assert changes["_op"].to_list() == ["insert", "update", "update", "update"]
    assert [row["n"] for row in changes["_after"]] == [0, 1, 2, 3]


def test_hidden_parts_of_the_key_are_not_shown() -> None:
    schema: dict[str, pl.DataType] = {"_id": pl.Int64(), "n": pl.Int64()}
    table, play = Table(schema, ["_id"]), Play(ChangesKernel(("_id",), schema, ("n",)))
    changes = play.step(one=table.apply([((1,), (7, 0)), ((2,), (7, 0))]))
    assert changes["_after"].to_list() == [{"n": 7}, {"n": 7}]
    assert changes["_before"].to_list() == [None, None]
    assert changes.schema["_before"] == pl.Struct({"n": pl.Int64()})


def test_a_key_of_columns_whose_names_differ_by_right() -> None:
    """As the join of a table with itself has it."""
    schema: dict[str, pl.DataType] = {"k": pl.Int64(), "k_right": pl.Int64(), "n": pl.Int64()}
    table, play = Table(schema, ["k", "k_right"]), Play(ChangesKernel(("k", "k_right"), schema))
    changes = play.step(one=table.apply([((1, 2), (7, 0))]))
    assert changes["_after"].to_list() == [{"k": 1, "k_right": 2, "n": 7}]


def test_a_table_of_one_row() -> None:
    schema: dict[str, pl.DataType] = {"n": pl.Int64()}
    table, play = Table(schema, []), Play(ChangesKernel((), schema))
    told_ = [
        play.step(one=table.apply([((), row)])).select("_op", "_before", "_after") for row in ((1, 0), (2, 0), None)
    ]
    assert pl.concat(told_).rows() == [
        ("insert", None, {"n": 1}),
        ("update", {"n": 1}, {"n": 2}),
        ("delete", {"n": 2}, None),
    ]
