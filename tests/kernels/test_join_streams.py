"""Stream–stream joins: every pair once, every lonely row once, whatever the order and the batches."""

from __future__ import annotations

import math
import random
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles.joins import HIDDEN, Epoch, Played, Record, moment, pairs, play, timely
from riverrun.errors import Invalid
from riverrun.kernels.join_streams import JoinStreamsKernel
from riverrun.kernels.kernel import MAX_TIME, MIN_TIME
from riverrun.kernels.sides import JoinOutput, Sides

LEFT: dict[str, pl.DataType] = {"user": pl.String(), "part": pl.Int64(), "n": pl.Float64()}
RIGHT: dict[str, pl.DataType] = {"who": pl.String(), "part": pl.Int64(), "m": pl.String()}
SIDES = Sides(
    ("user", "part"),
    ("who", "part"),
    LEFT,
    RIGHT,
    (
        JoinOutput("user", "key", "user"),
        JoinOutput("part", "key", "part"),
        JoinOutput("n", "left", "n"),
        JoinOutput("m", "right", "m"),
    ),
)
SCHEMAS = ({**LEFT, **HIDDEN}, {**RIGHT, **HIDDEN})

HOW = st.sampled_from(["inner", "left", "right", "full"])
BOUNDS = st.sampled_from([(-5, 5), (0, 0), (0, 9), (-9, 0), (3, 8), (-8, -3), (-20, 4)])
ROW = st.tuples(
    st.sampled_from(["left", "right"]),
    st.sampled_from(["a", "a", "a", "b", "", None]),
    st.sampled_from([1, 1, None]),
    st.sampled_from([0.5, math.nan, None]),
    st.integers(0, 40),
)


def record(drawn: tuple[Any, ...], offset: int) -> tuple[int, Record]:
    side, key, part, value, time = drawn
    hidden = {"_time": time, "_weight": 1, "_partition": offset % 3, "_offset": offset, "_received": moment(offset)}
    if side == "left":
        return 0, {"user": key, "part": part, "n": value, **hidden}
    return 1, {"who": key, "part": part, "m": None if value is None else str(value), **hidden}


def joined(epochs: list[Epoch], how: str, lo: int, hi: int) -> list[str]:
    """Rows as the kernel gives them, without the id."""

    def fits(left: Record, right: Record) -> bool:
        keys = (left["user"], left["part"])
        near = lo <= right["_time"] - left["_time"] <= hi
        return near and None not in keys and keys == (right["who"], right["part"])

    found = []
    for left, right in pairs(timely(epochs, 0), timely(epochs, 1), how, fits):
        first: Any = left or right
        received = max(row["_received"] for row in (left, right) if row)
        key = first["user"] if left else first["who"]
        n, m = left["n"] if left else None, right["m"] if right else None
        found.append(repr((key, first["part"], n, m, first["_time"], received)))
    return sorted(found)


def shown(played: Played) -> list[str]:
    frames = [changes.with_columns(pl.col("_weight").cast(pl.Int64)) for changes in played.changes]
    columns = ["user", "part", "n", "m", "_time", "_received"]
    total = pl.concat(frames).group_by(*columns, "_partition", "_offset").agg(pl.col("_weight").sum())
    assert total["_weight"].is_in([0, 1]).all()
    return sorted(repr(row) for row in total.filter(pl.col("_weight") > 0).select(columns).rows())


def ids(played: Played) -> set[tuple[int, int]]:
    issued = {row for changes in played.changes for row in changes.select("_partition", "_offset").rows()}
    assert all(0 <= partition < 1 << 31 and offset >= 0 for partition, offset in issued)
    return issued


@st.composite
def in_time(draw: st.DrawFn) -> list[list[Epoch]]:
    """The same rows in two batchings, under the highest watermarks by which none is late."""
    rows = [record(drawn, offset) for offset, drawn in enumerate(draw(st.lists(ROW, max_size=30)))]
    made = []
    for _ in range(2):
        cuts = sorted(draw(st.sets(st.integers(0, len(rows)), max_size=6)) | {0, len(rows)})
        epochs: list[Epoch] = []
        for first, behind in pairwise(cuts):
            times = [row["_time"] for _, row in rows]
            end = min([max(times[:behind]) + 1, *times[behind:]])
            epochs.append(([r for s, r in rows[first:behind] if not s], [r for s, r in rows[first:behind] if s], end))
        made.append([*epochs, ([], [], MAX_TIME)])
    return made


@st.composite
def disturbed(draw: st.DrawFn) -> list[Epoch]:
    """Late rows, retractions, rows that are replaced, under a watermark that rises on its own account."""
    epochs: list[Epoch] = []
    watermark, offset = MIN_TIME, 0
    for number in range(draw(st.integers(1, 5))):
        sides: tuple[list[Record], list[Record]] = ([], [])
        for at in (0, 1):
            for old in timely(epochs, at):
                if old["_time"] < watermark or draw(st.integers(0, 2)):
                    continue
                sides[at].append({**old, "_weight": -1})
                if draw(st.booleans()):
                    sides[at].append({**old, ("m" if at else "n"): draw(st.sampled_from([None, "1"])) if at else 2.5})
        for drawn in draw(st.lists(ROW, max_size=10)):
            at, row = record(drawn, offset)
            sides[at].append(row)
            offset += 1
        watermark = max(watermark, -1) + draw(st.integers(0, 15)) if number or draw(st.booleans()) else watermark
        epochs.append((*sides, watermark))
    return [*epochs, ([], [], MAX_TIME)]


@settings(max_examples=60, deadline=None)
@given(in_time(), HOW, BOUNDS)
def test_the_view_equals_the_join_in_any_batching(made: list[list[Epoch]], how: str, bounds: tuple[int, int]) -> None:
    first, second = (play(JoinStreamsKernel(SIDES, how, *bounds), epochs, SCHEMAS) for epochs in made)
    assert shown(first) == joined(made[0], how, *bounds) == shown(second)
    assert ids(first) == ids(second)
    assert all((changes["_weight"] > 0).all() for changes in first.changes), "nothing is corrected"
    assert first.late == 0
    assert first.rows[-1] == 0


@settings(max_examples=60, deadline=None)
@given(disturbed(), HOW, BOUNDS)
def test_late_rows_and_retractions(epochs: list[Epoch], how: str, bounds: tuple[int, int]) -> None:
    played = play(JoinStreamsKernel(SIDES, how, *bounds), epochs, SCHEMAS)
    assert shown(played) == joined(epochs, how, *bounds)


@settings(max_examples=15, deadline=None)
@given(disturbed(), HOW, BOUNDS)
def test_state_in_files_gives_the_same_changes(epochs: list[Epoch], how: str, bounds: tuple[int, int]) -> None:
    kernel = JoinStreamsKernel(SIDES, how, *bounds)
    with tempfile.TemporaryDirectory() as directory:
        in_files = play(kernel, epochs, SCHEMAS, Path(directory))
    in_memory = play(kernel, epochs, SCHEMAS)
    assert all(one.equals(other) for one, other in zip(in_memory.changes, in_files.changes, strict=True))
    assert in_memory.counts == in_files.counts


def both(left: list[tuple[Any, ...]], right: list[tuple[Any, ...]]) -> tuple[list[Record], list[Record]]:
    """Rows (user, n, time, offset) and (who, m, time, offset)."""
    return (
        [record(("left", user, 1, n, time), offset)[1] for user, n, time, offset in left],
        [record(("right", who, 1, m, time), offset)[1] for who, m, time, offset in right],
    )


def test_a_lonely_row_is_issued_when_no_partner_can_come_any_more() -> None:
    rows = both([("a", 1.0, 10, 0)], [("b", 2.0, 10, 1)])
    epochs: list[Epoch] = [(*rows, 14), ([], [], 15), ([], [], 16), ([], [], 20), ([], [], 21), ([], [], 90)]
    played = play(JoinStreamsKernel(SIDES, "full", -10, 5), epochs, SCHEMAS)
    assert [changes.select("user", "n", "m").rows() for changes in played.changes] == [
        [],
        [],
        [("a", 1.0, None)],
        [],
        [("b", None, "2.0")],
        [],
    ]


def test_a_partner_taken_back_leaves_a_lonely_row() -> None:
    left, right = both([("a", 1.0, 10, 0)], [("a", 2.0, 12, 1)])
    gone = [{**right[0], "_weight": -1}]
    kernel = JoinStreamsKernel(SIDES, "left", 0, 5)
    played = play(kernel, [(left, right, 12), ([], gone, 16)], SCHEMAS)
    assert [changes.select("n", "m", "_weight").rows() for changes in played.changes] == [
        [(1.0, "2.0", 1)],
        [(1.0, "2.0", -1), (1.0, None, 1)],
    ]


def test_a_row_that_has_another_partner_is_not_lonely() -> None:
    left, right = both([("a", 1.0, 10, 0)], [("a", 2.0, 12, 1), ("a", 3.0, 13, 2)])
    gone = [{**right[0], "_weight": -1}]
    kernel = JoinStreamsKernel(SIDES, "left", 0, 5)
    played = play(kernel, [(left, right, 12), ([], gone, 16)], SCHEMAS)
    assert played.changes[1].select("n", "m", "_weight").rows() == [(1.0, "2.0", -1)]


def test_a_stream_joined_with_itself() -> None:
    sides = Sides(("user",), ("user",), LEFT, LEFT, (JoinOutput("n", "left", "n"), JoinOutput("n_right", "right", "n")))
    rows, _ = both([("a", 1.0, 0, 0), ("a", 2.0, 3, 1)], [])
    played = play(
        JoinStreamsKernel(sides, "inner", 1, 5), [(rows, rows, 0), ([], [], MAX_TIME)], (SCHEMAS[0], SCHEMAS[0])
    )
    assert played.changes[0].select("n", "n_right").rows() == [(1.0, 2.0)]


def test_what_cannot_be_joined_is_refused() -> None:
    with pytest.raises(Invalid, match="outer"):
        JoinStreamsKernel(SIDES, "outer", 0, 1)
    with pytest.raises(Invalid, match="no pairs"):
        JoinStreamsKernel(SIDES, "inner", 2, 1)


@pytest.mark.parametrize("how", ["inner", "left", "right", "full"])
def test_state_is_bounded_by_the_bound_not_by_history(how: str) -> None:
    chance = random.Random(5)
    epochs, offset = [], 0
    for number in range(60):
        sides: tuple[list[Record], list[Record]] = ([], [])
        for _ in range(20):
            key = chance.choice(["hot", "hot", None, *(f"k{n}" for n in range(9))])
            at, row = record(
                (chance.choice(["left", "right"]), key, 1, 0.5, number * 10 + chance.randrange(10)), offset
            )
            sides[at].append(row)
            offset += 1
        epochs.append((*sides, number * 10))
    played = play(JoinStreamsKernel(SIDES, how, -20, 10), epochs, SCHEMAS)
    assert max(played.rows) <= 20 * 6
    assert max(played.rows[-10:]) <= max(played.rows[:12]) + 20


def test_many_rows_against_duckdb() -> None:
    chance = random.Random(11)
    keys = ["hot", "hot", *(f"k{n}" for n in range(300)), None]
    rows = [
        record((chance.choice(["left", "right"]), chance.choice(keys), 1, 0.5, n // 2 + chance.randrange(100)), n)
        for n in range(6000)
    ]
    epochs: list[Epoch] = []
    for first in range(0, len(rows), 1500):
        part = rows[first : first + 1500]
        end = min((row["_time"] for _, row in rows[first + 1500 :]), default=MAX_TIME)
        epochs.append(([r for s, r in part if not s], [r for s, r in part if s], end))
    played = play(JoinStreamsKernel(SIDES, "full", -30, 60), epochs, SCHEMAS)
    left = pl.DataFrame([r for s, r in rows if not s], schema=SCHEMAS[0])
    right = pl.DataFrame([r for s, r in rows if s], schema=SCHEMAS[1])
    names = {"l": left.to_arrow(), "r": right.to_arrow()}
    with duckdb.connect() as database:
        for name, table in names.items():
            database.register(name, table)
        expected = database.sql(
            "select coalesce(l.user, r.who), l.n, r.m, coalesce(l._time, r._time), l._offset is null, r._offset is null"
            " from l full join r on l.user = r.who and l.part = r.part and r._time - l._time between -30 and 60"
        ).fetchall()
    got = pl.concat(played.changes)
    assert (got["_weight"] == 1).all()
    shown_rows = got.select(
        "user", "n", "m", "_time", pl.col("n").is_null().alias("x"), pl.col("m").is_null().alias("y")
    ).rows()
    assert sorted(map(repr, shown_rows)) == sorted(map(repr, expected))
    assert got.select("_partition", "_offset").is_unique().all()
