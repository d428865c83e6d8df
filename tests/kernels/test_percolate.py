"""Stored searches: each row beside the queries it meets, of those known when it is processed, and taken back as found."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles.joins import HIDDEN, ID, Epoch, Played, Record, framed, moment, play
from oracles.search import Search
from oracles.search_inputs import COLUMNS, DOCUMENTS, QUERIES, TEXT, UNREADABLE
from riverrun.errors import Invalid
from riverrun.kernels import stored_queries
from riverrun.kernels.kernel import MAX_TIME, MIN_TIME, EpochClock
from riverrun.kernels.percolate import PercolateKernel
from riverrun.kernels.sides import JoinOutput, Sides
from riverrun.state.directory import StateDirectory

RIGHT: dict[str, pl.DataType] = {"id": pl.String(), "query": pl.String(), "owner": pl.String()}
SIDES = Sides(
    (),
    (),
    COLUMNS,
    RIGHT,
    (*(JoinOutput(name, "left", name) for name in COLUMNS), *(JoinOutput(name, "right", name) for name in RIGHT)),
)
SCHEMAS = ({**COLUMNS, **HIDDEN}, {**RIGHT, **{name: kind for name, kind in HIDDEN.items() if name != "_received"}})

VERSION = st.one_of(
    st.none(), st.tuples(QUERIES, st.sampled_from("xyz")), st.tuples(st.sampled_from(UNREADABLE), st.just("x"))
)
VERSIONS = st.dictionaries(st.sampled_from(["a", "b", "c", "d", None]), VERSION, max_size=4)
ROWS = st.lists(st.tuples(DOCUMENTS, st.integers(0, 30)), max_size=4)


def kernel(retracts: bool = False) -> PercolateKernel:
    return PercolateKernel(SIDES, ("id",), "query", TEXT, retracts=retracts)


class History:
    """Epochs as they are made: changes of the queries, rows, retractions of some; and what they come to."""

    def __init__(self) -> None:
        self.queries: dict[str | None, tuple[str, str]] = {}
        self.epochs: list[Epoch] = []
        self.found: dict[int, tuple[Record, list[tuple[Any, ...]]]] = {}
        self.late = 0
        self.unread = 0

    def add(self, versions: dict[str | None, Any], rows: list[tuple[Any, int]], gone: list[Record], end: int) -> None:
        changes = []
        for key, version in versions.items():
            old = self.queries.pop(key, None)
            for weight, value in ((-1, old), (1, version)):
                if value is not None:
                    hidden = {"_time": 0, "_weight": weight, "_partition": 0, "_offset": len(changes)}
                    changes.append({"id": key, "query": value[0], "owner": value[1], **hidden})
            if version is not None:
                self.queries[key] = version
                self.unread += version[0] in UNREADABLE
        start = self.epochs[-1][2] if self.epochs else MIN_TIME
        for row in gone:
            if row["_time"] >= start:
                del self.found[row["_offset"]]
            else:
                self.late += 1
        first = sum(len(epoch[0]) for epoch in self.epochs)
        added = []
        for at, (document, time) in enumerate(rows, first):
            hidden = {"_time": time, "_weight": 1, "_partition": 0, "_offset": at, "_received": moment(at)}
            added.append({**document, **hidden})
            met = [(key, *version) for key, version in self.queries.items() if _meets(document, version[0])]
            self.found[at] = added[-1], met
        self.epochs.append((added + [{**row, "_weight": -1} for row in gone], changes, end))

    @property
    def expected(self) -> list[str]:
        hidden = ("_time", "_received")
        return sorted(
            repr((*(row[name] for name in COLUMNS), *query, *(row[name] for name in hidden)))
            for row, met in self.found.values()
            for query in met
        )


def _meets(document: Record, text: str) -> bool:
    return text not in UNREADABLE and Search(TEXT).meets(document, text)


def shown(played: Played) -> list[str]:
    """The view without the ids, which are hashes."""
    rows: Counter[str] = Counter()
    for changes in played.changes:
        for *values, weight in changes.select(pl.exclude(*ID, "_weight"), "_weight").iter_rows():
            rows[repr(tuple(values))] += weight
    return sorted(rows.elements())


@st.composite
def histories(draw: st.DrawFn, retracts: bool) -> History:
    history, end = History(), MIN_TIME
    for _ in range(draw(st.integers(1, 5))):
        gone = []
        if retracts:
            gone = [row for row, _ in history.found.values() if draw(st.integers(0, 3)) == 0]
        end = max(end, -1) + draw(st.integers(0, 12))
        history.add(draw(VERSIONS), draw(ROWS), gone, end)
    return history


@settings(max_examples=80)
@given(histories(False))
def test_queries_that_are_known_when_a_row_is_processed(history: History) -> None:
    played = play(kernel(), history.epochs, SCHEMAS)
    assert shown(played) == history.expected
    assert played.counts["right"]["quarantined"] == history.unread
    assert played.late == 0


@settings(max_examples=80)
@given(histories(True))
def test_what_was_found_is_taken_back(history: History) -> None:
    played = play(kernel(True), history.epochs, SCHEMAS)
    assert shown(played) == history.expected
    assert played.late == history.late


@settings(max_examples=30)
@given(histories(True))
def test_state_in_files_and_every_epoch_computed_twice(history: History) -> None:
    """The second time, the index in memory has seen an epoch that had no effect."""
    with tempfile.TemporaryDirectory() as directory:
        played = play(kernel(True), history.epochs, SCHEMAS, Path(directory))
    assert shown(played) == history.expected


def steps(history: History, directories: list[StateDirectory], turns: list[int]) -> list[pl.DataFrame]:
    """The changes of each epoch; `turns` says which process takes which step. All of them have the same files."""
    entries: dict[str, Any] = {}
    changes, start, one = [], MIN_TIME, kernel()
    for number, (left, right, end) in enumerate(history.epochs):
        state = directories[turns[number % len(turns)]].open(entries, one.tables, "n", number % 2 or None)
        inputs = {"left": framed(left, SCHEMAS[0]), "right": framed(right, SCHEMAS[1])}
        changes.append(one.step(state, inputs, EpochClock(number, start, end)).changes)
        entries = state.commit(number)
        start = end
    return changes


@settings(max_examples=30)
@given(histories(False), st.lists(st.integers(0, 2), min_size=1, max_size=5))
def test_processes_take_turns(history: History, turns: list[int]) -> None:
    """An index that has missed some epochs is brought up to date; the rows are the same, in the same order."""
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        wanted = steps(history, [StateDirectory(one, inline_bytes=500)], [0])
        found = steps(history, [StateDirectory(other, inline_bytes=500) for _ in range(3)], turns)
    assert [changes.rows() for changes in map(_told, found)] == [changes.rows() for changes in map(_told, wanted)]


def _told(changes: pl.DataFrame) -> pl.DataFrame:
    return changes.with_columns(pl.col("price").cast(pl.String))  # NaN is not equal to itself


def searched(number: int, text: str) -> Record:
    hidden = {"_time": 0, "_weight": 1, "_partition": 0, "_offset": number}
    return {"id": str(number), "query": text, "owner": "o", **hidden}


def article(number: int, body: str) -> Record:
    hidden = {"_time": number, "_weight": 1, "_partition": 0, "_offset": number, "_received": moment(number)}
    return {**dict.fromkeys(COLUMNS), "body": body, **hidden}


def test_an_epoch_reads_no_query_that_did_not_change(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    inner = stored_queries.parse_query

    def reading(text: str, *rest: Any) -> Any:
        read.append(text)
        return inner(text, *rest)

    monkeypatch.setattr(stored_queries, "parse_query", reading)
    first = [searched(number, f"word{number}") for number in range(200)]
    epochs: list[Epoch] = [
        ([], first, 0),
        ([article(0, "word7")], [], 0),
        ([article(1, "new")], [searched(7, "new")], 0),
    ]
    played = play(kernel(), epochs, SCHEMAS)
    assert [changes["id"].to_list() for changes in played.changes] == [[], ["7"], ["7"]]
    assert read == [row["query"] for row in first] + ["new"]


def test_an_index_that_missed_too_many_epochs_is_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_queries, "_EPOCHS_BACK", 2)
    history = History()
    for number in range(12):
        text = f"alpha AND word{number}" if number % 3 else "beta"
        versions = {"a": (text, "x")} if number < 9 else {}
        document = {**dict.fromkeys(COLUMNS), "city": "c", "body": f"alpha word{number} beta"}
        history.add(versions, [(document, number)], [], number)
    with tempfile.TemporaryDirectory() as directory:
        found = steps(history, [StateDirectory(directory) for _ in range(3)], [0, 1, 1, 1, 2, 0])
    assert sum(len(changes) for changes in found) == len(history.expected)


def test_retractions_are_refused_where_nobody_announced_them() -> None:
    row = {**article(0, "x"), "_weight": -1}
    with pytest.raises(Invalid, match="percolate got a retraction"):
        play(kernel(), [([row], [], MAX_TIME)], SCHEMAS)
