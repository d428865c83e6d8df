"""Stream–table joins: each row beside the newest version known when it is processed, and taken back as it was given."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles.joins import HIDDEN, Epoch, Record, moment, play
from riverrun.errors import Invalid
from riverrun.kernels.kernel import MIN_TIME
from riverrun.kernels.lookup import LookupKernel
from riverrun.kernels.sides import JoinOutput, Sides

LEFT: dict[str, pl.DataType] = {"user": pl.String(), "n": pl.Float64()}
RIGHT: dict[str, pl.DataType] = {"id": pl.String(), "name": pl.String(), "score": pl.Float64()}
SIDES = Sides(
    ("user",),
    ("id",),
    LEFT,
    RIGHT,
    (
        JoinOutput("user", "key", "user"),
        JoinOutput("n", "left", "n"),
        JoinOutput("name", "right", "name"),
        JoinOutput("score", "right", "score"),
    ),
)
RIGHT_HIDDEN = {name: kind for name, kind in HIDDEN.items() if name != "_received"}
SCHEMAS = ({**LEFT, **HIDDEN}, {**RIGHT, **RIGHT_HIDDEN})

KEYS = st.sampled_from(["a", "a", "b", "", None])
ROWS = st.lists(st.tuples(KEYS, st.sampled_from([0.5, math.nan, None]), st.integers(0, 30)), max_size=8)
VERSIONS = st.dictionaries(
    KEYS,
    st.one_of(st.none(), st.tuples(st.sampled_from(["x", "y", None]), st.sampled_from([1.5, math.nan, None]))),
    max_size=3,
)


def left_row(user: str | None, n: float | None, time: int, offset: int, weight: int = 1) -> Record:
    hidden = {"_time": time, "_weight": weight, "_partition": 0, "_offset": offset, "_received": moment(offset)}
    return {"user": user, "n": n, **hidden}


class Log:
    """Epochs as they are made: changes of the table, rows, retractions of some."""

    def __init__(self) -> None:
        self.table: dict[str | None, tuple[Any, ...]] = {}
        self.epochs: list[Epoch] = []
        self.answered: dict[int, tuple[Record, tuple[Any, ...] | None]] = {}
        self.late = 0

    def add(self, versions: dict[str | None, Any], rows: list[tuple[Any, ...]], gone: list[Record], end: int) -> None:
        changes = []
        for key, version in versions.items():
            old = self.table.pop(key, None)
            for weight, value in ((-1, old), (1, version)):
                if value is not None:
                    values = {"id": key, "name": value[0], "score": value[1]}
                    changes.append({**values, "_time": 0, "_weight": weight, "_partition": 0, "_offset": len(changes)})
            if version is not None:
                self.table[key] = version
        start = self.epochs[-1][2] if self.epochs else MIN_TIME
        for row in gone:
            if row["_time"] >= start:
                del self.answered[row["_offset"]]
            else:
                self.late += 1
        first = sum(len(epoch[0]) for epoch in self.epochs)
        added = [left_row(*row, first + at) for at, row in enumerate(rows)]
        for row in added:
            version = self.table.get(row["user"]) if row["user"] is not None else None
            self.answered[row["_offset"]] = row, version
        self.epochs.append((added + [{**row, "_weight": -1} for row in gone], changes, end))

    def expected(self, how: str) -> list[str]:
        found = []
        for row, version in self.answered.values():
            if version is not None or how == "left":
                name, score = version or (None, None)
                values = (row["user"], row["n"], name, score, row["_time"], 0, row["_offset"], row["_received"])
                found.append(repr(values))
        return sorted(found)


@st.composite
def logs(draw: st.DrawFn, retracts: bool) -> Log:
    log, end = Log(), MIN_TIME
    for _ in range(draw(st.integers(1, 5))):
        gone = []
        if retracts:
            gone = [row for row, _ in log.answered.values() if draw(st.integers(0, 3)) == 0]
        end = max(end, -1) + draw(st.integers(0, 12))
        log.add(draw(VERSIONS), draw(ROWS), gone, end)
    return log


@settings(max_examples=60, deadline=None)
@given(logs(False), st.sampled_from(["inner", "left"]))
def test_the_newest_version_known(log: Log, how: str) -> None:
    played = play(LookupKernel(SIDES, how), log.epochs, SCHEMAS)
    assert sorted(played.view) == log.expected(how)
    assert played.late == 0


@settings(max_examples=60, deadline=None)
@given(logs(True), st.sampled_from(["inner", "left"]))
def test_an_answer_is_taken_back_as_it_was_given(log: Log, how: str) -> None:
    played = play(LookupKernel(SIDES, how, True), log.epochs, SCHEMAS)
    assert sorted(played.view) == log.expected(how)
    assert played.late == log.late


@settings(max_examples=15, deadline=None)
@given(logs(True), st.sampled_from(["inner", "left"]))
def test_state_in_files_gives_the_same_changes(log: Log, how: str) -> None:
    kernel = LookupKernel(SIDES, how, True)
    with tempfile.TemporaryDirectory() as directory:
        in_files = play(kernel, log.epochs, SCHEMAS, Path(directory))
    in_memory = play(kernel, log.epochs, SCHEMAS)
    assert all(one.equals(other) for one, other in zip(in_memory.changes, in_files.changes, strict=True))


def test_a_corrected_row_is_answered_again() -> None:
    log = Log()
    log.add({"a": ("x", 1.0)}, [("a", 1.0, 5)], [], 0)
    old = log.epochs[0][0][0]
    log.add({"a": ("y", 1.0)}, [], [], 0)
    log.epochs[1][0].extend([{**old, "_weight": -1}, {**old, "n": 2.0}])
    played = play(LookupKernel(SIDES, "inner", True), log.epochs, SCHEMAS)
    assert played.changes[1].select("n", "name", "_weight", "_offset").rows() == [(1.0, "x", -1, 0), (2.0, "y", 1, 0)]


def test_answers_are_kept_until_the_watermark_has_passed_their_rows() -> None:
    log = Log()
    log.add({"a": ("x", 1.0)}, [], [], 0)
    for number in range(50):
        log.add({}, [("a", 1.0, number * 10 + n) for n in range(10)], [], number * 10 - 30)
    played = play(LookupKernel(SIDES, "inner", True), log.epochs, SCHEMAS)
    assert max(played.rows) <= 41


def test_what_cannot_be_joined_is_refused() -> None:
    with pytest.raises(Invalid, match="full"):
        LookupKernel(SIDES, "full")
    log = Log()
    log.add({}, [("a", 1.0, 5)], [], 0)
    log.add({}, [], [log.epochs[0][0][0]], 0)
    with pytest.raises(Invalid, match="retraction"):
        play(LookupKernel(SIDES, "left"), log.epochs, SCHEMAS)
