"""As-of joins: the version valid at the row's time, corrected or waited for, whatever the order and the batches."""

from __future__ import annotations

import math
import random
import tempfile
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import duckdb
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles.joins import HIDDEN, Epoch, Played, Record, framed, moment, play
from riverrun.errors import Invalid
from riverrun.kernels.as_of import AsOfKernel
from riverrun.kernels.kernel import MAX_TIME, MIN_TIME
from riverrun.kernels.sides import JoinOutput, Sides

LEFT: dict[str, pl.DataType] = {"user": pl.String(), "n": pl.Float64()}
RIGHT: dict[str, pl.DataType] = {"id": pl.String(), "price": pl.Float64()}
SIDES = Sides(
    ("user",),
    ("id",),
    LEFT,
    RIGHT,
    (
        JoinOutput("user", "key", "user"),
        JoinOutput("n", "left", "n"),
        JoinOutput("price", "right", "price"),
        JoinOutput("_version", "right", "_version"),
    ),
)
LOG = {name: kind for name, kind in HIDDEN.items() if name != "_weight"}
TOPIC = ({**LEFT, **HIDDEN}, {**RIGHT, "_deleted": pl.Boolean(), **LOG})
CHANGES = {name: kind for name, kind in HIDDEN.items() if name != "_received"}
DERIVED = ({**LEFT, **HIDDEN}, {**RIGHT, "_deleted": pl.Boolean(), **CHANGES})

EPOCH = datetime(1970, 1, 1, tzinfo=ZoneInfo("UTC"))
HOW = st.sampled_from(["inner", "left"])
KEYS = st.sampled_from(["a", "a", "a", "b", "", None])
VALUES = st.sampled_from([0.5, math.nan, None])
ROW = st.tuples(st.just(0), KEYS, VALUES, st.integers(0, 40))
VERSION = st.tuples(st.just(1), KEYS, st.one_of(VALUES, st.just("deleted")), st.integers(0, 40))


def record(drawn: tuple[Any, ...], offset: int) -> tuple[int, Record]:
    """A row or a version as the log has it; two topics with three partitions each."""
    side, key, value, time = drawn
    hidden = {
        "_time": time,
        "_partition": 1024 * side + offset % 3,
        "_offset": offset,
        "_received": moment(offset // 4),
    }
    if side == 0:
        return 0, {"user": key, "n": value, "_weight": 1, **hidden}
    gone = value == "deleted"
    return 1, {"id": key, "price": None if gone else value, "_deleted": gone, **hidden}


def order(version: Record) -> tuple[Any, ...]:
    return version["_time"], version["_received"], version["_partition"], version["_offset"]


def accepted(epochs: list[Epoch], side: int, wait: bool, horizon: int) -> tuple[list[Record], int]:
    """The rows or versions that are not late and not retracted, and how many are late."""
    kept: dict[tuple[int, int], Record] = {}
    start, late = MIN_TIME, 0
    for epoch in epochs:
        for row in sorted(epoch[side], key=lambda row: row.get("_weight", 1)):
            gone = row.get("_weight", 1) < 0
            if row["_time"] < (start if wait and not gone else start - horizon):
                late += row.get("id", "") is not None  # a version that nobody can find is not missed
            elif gone:
                kept.pop((row["_partition"], row["_offset"]), None)
            else:
                kept[row["_partition"], row["_offset"]] = row
        start = epoch[2]
    return list(kept.values()), late


def answered(rows: list[Record], versions: list[Record], how: str, wait: bool = False) -> list[str]:
    """What every row is answered. With `wait` it stands where its time is."""
    found = []
    for row in rows:
        fit = [v for v in versions if v["id"] == row["user"] is not None and v["_time"] <= row["_time"]]
        version = max(fit, key=order, default=None)
        if version is not None and version["_deleted"]:
            version = None
        if version is None and how == "inner":
            continue
        name = f"{version['_partition'] % 1024}:{version['_offset']}" if version else None
        answer = (version["price"] if version else None, name)
        stands = EPOCH + timedelta(microseconds=row["_time"]) if wait else row["_received"]
        hidden = (row["_time"], row["_partition"], row["_offset"], stands)
        found.append(repr((row["user"], row["n"], *answer, *hidden)))
    return sorted(found)


def kernel(how: str, wait: bool, horizon: int, changelog: bool = True) -> AsOfKernel:
    return AsOfKernel(SIDES, how, horizon, wait, changelog, retracts=True)


@st.composite
def in_time(draw: st.DrawFn, lateness: int) -> list[list[Epoch]]:
    """The same rows in two batchings; the watermark leaves none behind by more than `lateness`."""
    rows = [record(drawn, offset) for offset, drawn in enumerate(draw(st.lists(ROW | VERSION, max_size=30)))]
    times = [row["_time"] for _, row in rows]
    made = []
    for _ in range(2):
        cuts = sorted(draw(st.sets(st.integers(0, len(rows)), max_size=6)) | {0, len(rows)})
        epochs: list[Epoch] = []
        for first, behind in pairwise(cuts):
            end = min([max(times[:behind]) + 1, *(time + lateness for time in times[behind:])])
            epochs.append(([r for s, r in rows[first:behind] if not s], [r for s, r in rows[first:behind] if s], end))
        made.append([*epochs, ([], [], MAX_TIME)])
    return made


@settings(max_examples=50, deadline=None)
@given(in_time(10), HOW)
def test_corrected_answers_equal_the_batch_join(made: list[list[Epoch]], how: str) -> None:
    first, second = (play(AsOfKernel(SIDES, how, 10, False, True), epochs, TOPIC) for epochs in made)
    rows, versions = ([row for epoch in made[0] for row in epoch[side]] for side in (0, 1))
    assert sorted(first.view) == answered(rows, versions, how) == sorted(second.view)
    assert first.late == second.late == 0


@settings(max_examples=50, deadline=None)
@given(in_time(0), HOW)
def test_answers_waited_for_equal_the_batch_join(made: list[list[Epoch]], how: str) -> None:
    first, second = (play(AsOfKernel(SIDES, how, 0, True, True), epochs, TOPIC) for epochs in made)
    rows, versions = ([row for epoch in made[0] for row in epoch[side]] for side in (0, 1))
    assert sorted(first.view) == answered(rows, versions, how, wait=True) == sorted(second.view)
    assert all((changes["_weight"] > 0).all() for changes in first.changes), "nothing is corrected"


@st.composite
def disturbed(draw: st.DrawFn, horizon: int, wait: bool) -> list[Epoch]:
    """Late rows and versions, retracted rows, rows that are replaced."""
    epochs: list[Epoch] = []
    watermark, offset = MIN_TIME, 0
    for number in range(draw(st.integers(1, 5))):
        sides: tuple[list[Record], list[Record]] = ([], [])
        for old in accepted(epochs, 0, wait, horizon)[0]:
            if old["_time"] < watermark - horizon or draw(st.integers(0, 2)):
                continue
            sides[0].append({**old, "_weight": -1})
            if draw(st.booleans()) and old["_time"] >= watermark - (0 if wait else horizon):
                sides[0].append({**old, "n": draw(st.sampled_from([old["n"], 2.5]))})
        for drawn in draw(st.lists(ROW | VERSION, max_size=10)):
            at, row = record(drawn, offset)
            sides[at].append(row)
            offset += 1
        watermark = max(watermark, -1) + draw(st.integers(0, 15)) if number or draw(st.booleans()) else watermark
        epochs.append((*sides, watermark))
    return [*epochs, ([], [], MAX_TIME)]


WAYS = st.tuples(st.sampled_from([0, 8]), st.booleans()).flatmap(
    lambda way: st.tuples(st.just(way[0]), st.just(way[1]), disturbed(*way))
)


@settings(max_examples=70, deadline=None)
@given(WAYS, HOW)
def test_late_rows_late_versions_and_retractions(drawn: tuple[int, bool, list[Epoch]], how: str) -> None:
    horizon, wait, epochs = drawn
    played = play(kernel(how, wait, horizon), epochs, TOPIC)
    (rows, late), (versions, missed) = (accepted(epochs, side, wait, horizon) for side in (0, 1))
    assert sorted(played.view) == answered(rows, versions, how, wait)
    assert played.counts["left"]["late_dropped"] == late
    assert played.counts["right"]["late_dropped"] == missed


@settings(max_examples=15, deadline=None)
@given(WAYS, HOW)
def test_state_in_files_gives_the_same_changes(drawn: tuple[int, bool, list[Epoch]], how: str) -> None:
    horizon, wait, epochs = drawn
    with tempfile.TemporaryDirectory() as directory:
        in_files = play(kernel(how, wait, horizon), epochs, TOPIC, Path(directory))
    in_memory = play(kernel(how, wait, horizon), epochs, TOPIC)
    assert all(one.equals(other) for one, other in zip(in_memory.changes, in_files.changes, strict=True))
    assert in_memory.counts == in_files.counts


@st.composite
def derived(draw: st.DrawFn, horizon: int, wait: bool) -> tuple[list[Epoch], list[Record]]:
    """Changes of a table that another operator makes, and the versions they stand for."""
    epochs: list[Epoch] = []
    versions: list[Record] = []
    table: dict[Any, tuple[Any, int, bool]] = {}
    guesses: dict[Any, set[int]] = {}  # when keys were thought to have gone
    watermark, offset = MIN_TIME, 0
    for number in range(draw(st.integers(1, 5))):
        oldest = watermark - (0 if wait else horizon)
        changes: list[Record] = []
        for key in draw(st.sets(KEYS, max_size=3)):
            old, new = table.pop(key, None), draw(st.none() | st.tuples(VALUES, st.integers(0, 40), st.booleans()))
            for weight, value in ((-1, old), (1, new)):
                if value is not None:
                    values = {"id": key, "price": value[0], "_time": value[1], "_weight": weight, "_deleted": value[2]}
                    changes.append({**values, "_partition": 0, "_offset": len(changes)})
            if new is not None:
                table[key] = new
                # what comes stands also where the key was thought to have gone later
                times = [new[1], *(time for time in guesses.get(key, ()) if time > new[1])] if new[1] >= oldest else []
                guesses.get(key, set()).difference_update(times[:1])
            else:
                times = [max(old[1], oldest)] if old and not old[2] else []
                guesses.setdefault(key, set()).update(times)
            for time in times:
                told = new or (None, time, True)
                place = {"_received": number, "_partition": told[1], "_offset": 0, "_deleted": told[2]}
                versions.append({"id": key, "price": told[0], "_time": time, **place})
        rows = [record(drawn, offset + at)[1] for at, drawn in enumerate(draw(st.lists(ROW, max_size=8)))]
        offset += len(rows)
        watermark = max(watermark, -1) + draw(st.integers(0, 15)) if number or draw(st.booleans()) else watermark
        epochs.append((rows, changes, watermark))
    return [*epochs, ([], [], MAX_TIME)], versions


def by_time(lines: list[str]) -> list[str]:
    """The oracle names versions by offset (which is 0 here) of a partition (which is the time here)."""
    return sorted(line.replace(":0'", "'") for line in lines)


@settings(max_examples=70, deadline=None)
@given(
    st.tuples(st.sampled_from([0, 8]), st.booleans()).flatmap(lambda way: st.tuples(st.just(way), derived(*way))), HOW
)
def test_a_derived_table(drawn: tuple[tuple[int, bool], tuple[list[Epoch], list[Record]]], how: str) -> None:
    (horizon, wait), (epochs, versions) = drawn
    played = play(AsOfKernel(SIDES, how, horizon, wait, False), epochs, DERIVED)
    assert sorted(played.view) == by_time(answered(accepted(epochs, 0, wait, horizon)[0], versions, how, wait))


def log_of(*rows: tuple[Any, ...]) -> tuple[list[Record], list[Record]]:
    made = [record(row, offset) for offset, row in enumerate(rows)]
    return [row for side, row in made if not side], [row for side, row in made if side]


def shown(played: Played) -> list[list[tuple[Any, ...]]]:
    return [changes.select("price", "_version", "_weight").rows() for changes in played.changes]


def test_an_answer_is_corrected_when_its_version_comes_late() -> None:
    early = log_of((1, "a", 1.0, 0), (0, "a", 0.5, 10))
    late = [record((1, "a", 2.0, 5), 7)[1]]
    epochs: list[Epoch] = [(*early, 12), ([], late, 12), ([], [], 30)]
    assert shown(play(kernel("left", False, 10), epochs, TOPIC)) == [
        [(1.0, "0:0", 1)],
        [(1.0, "0:0", -1), (2.0, "1:7", 1)],
        [],
    ]


def test_an_answer_waits_for_the_watermark() -> None:
    early = log_of((1, "a", 1.0, 0), (0, "a", 0.5, 10))
    late = [record((1, "a", 2.0, 5), 7)[1]]
    epochs: list[Epoch] = [(*early, 5), ([], late, 10), ([], [], 11), ([], [], 30)]
    assert shown(play(kernel("inner", True, 0), epochs, TOPIC)) == [[], [], [(2.0, "1:7", 1)], []]


def test_a_deletion_is_a_version() -> None:
    rows = log_of((1, "a", 1.0, 0), (1, "a", "deleted", 5), (0, "a", 0.5, 4), (0, "a", 0.5, 5))
    played = play(kernel("left", False, 10), [(*rows, 0)], TOPIC)
    assert shown(played) == [[(None, None, 1), (1.0, "0:0", 1)]]


def test_a_deletion_is_remembered_when_it_is_long_ago() -> None:
    made = [record((1, "a", 1.0, 0), 0)[1], record((1, "a", "deleted", 20), 1)[1]]
    asked = [record((0, "a", 0.5, 70), 2)[1]]
    epochs: list[Epoch] = [([], made[:1], 15), ([], made[1:], 20), ([], [], 60), (asked, [], 60)]
    played = play(kernel("left", False, 10), epochs, TOPIC)
    assert shown(played)[-1] == [(None, None, 1)]
    assert played.rows == [1, 2, 0, 1], "nothing is kept of a key that is gone"


def test_a_late_deletion_in_a_derived_table_counts_from_where_answers_can_change() -> None:
    def change(weight: int, price: float, time: int) -> Record:
        return {"id": "a", "price": price, "_time": time, "_weight": weight, "_partition": 0, "_offset": 0}

    rows = [record((0, "a", 0.5, time), time)[1] for time in (20, 35, 45)]
    epochs: list[Epoch] = [(rows, [change(1, 1.0, 5), change(1, 2.0, 12)], 40), ([], [change(-1, 1.0, 5)], 41)]
    played = play(AsOfKernel(SIDES, "inner", 10, False, False), epochs, DERIVED)
    assert [changes.select("_time", "price", "_weight").sort("_time").rows() for changes in played.changes] == [
        [(20, 2.0, 1), (35, 2.0, 1), (45, 2.0, 1)],
        [(35, 2.0, -1), (45, 2.0, -1)],
    ]


def test_what_cannot_be_joined_is_refused() -> None:
    with pytest.raises(Invalid, match="right"):
        kernel("right", False, 0)
    gone = [{**log_of((0, "a", 0.5, 4))[0][0], "_weight": -1}]
    with pytest.raises(Invalid, match="retraction"):
        play(AsOfKernel(SIDES, "left", 0, False, True), [(gone, [], 0)], TOPIC)


@pytest.mark.parametrize("wait", [False, True])
def test_versions_and_rows_that_nobody_needs_are_forgotten(wait: bool) -> None:
    chance = random.Random(3)
    epochs: list[Epoch] = []
    for number in range(80):
        made = [
            record(
                (chance.randrange(2), chance.choice("abcde"), 1.0, number * 10 + chance.randrange(10)), number * 20 + n
            )
            for n in range(20)
        ]
        epochs.append(([r for s, r in made if not s], [r for s, r in made if s], number * 10))
    played = play(kernel("inner", wait, 30), epochs, TOPIC)
    assert max(played.rows) <= 5 * 20 + 5
    played = play(kernel("inner", wait, 30), [*epochs, ([], [], MAX_TIME)], TOPIC)
    assert played.rows[-1] == 5, "the newest version of each key stays"


@pytest.mark.parametrize("wait", [False, True])
def test_many_rows_against_duckdb(wait: bool) -> None:
    chance = random.Random(11)
    keys = ["hot", "hot", *(f"k{n}" for n in range(200)), None]
    drawn = [
        (chance.randrange(2), chance.choice(keys), chance.random(), n // 2 + chance.randrange(60)) for n in range(6000)
    ]
    made = [record(row, offset) for offset, row in enumerate(drawn)]
    epochs: list[Epoch] = []
    for first in range(0, len(made), 700):
        part, rest = made[first : first + 700], made[first + 700 :]
        end = min((row["_time"] for _, row in rest), default=MAX_TIME) + (0 if wait else 40)
        epochs.append(([r for s, r in part if not s], [r for s, r in part if s], min(end, MAX_TIME)))
    played = play(AsOfKernel(SIDES, "left", 0 if wait else 40, wait, True), epochs, TOPIC)
    assert played.late == 0
    tables = [framed([r for s, r in made if s == side], TOPIC[side]) for side in (0, 1)]
    with duckdb.connect() as database:
        database.register("l", tables[0].to_arrow())
        database.register("r", tables[1].to_arrow())
        expected = database.sql(
            "with v as (select * from r qualify row_number() over"
            " (partition by id, _time order by _received desc, _partition desc, _offset desc) = 1)"
            " select l._offset, v.price, (v._partition % 1024) || ':' || v._offset"
            " from l asof left join v on l.user = v.id and l._time >= v._time"
        ).fetchall()
    total = pl.concat(played.changes).group_by("_offset", "price", "_version").agg(pl.col("_weight").cast(int).sum())
    assert sorted(total.filter(pl.col("_weight") > 0).drop("_weight").rows()) == sorted(expected)
    assert total["_weight"].is_in([0, 1]).all()
