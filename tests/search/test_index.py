"""Random queries, changed as they are: documents meet those that the oracle says, and few others are tried."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracles.orders import examples
from oracles.search import Search
from oracles.search_inputs import COLUMNS, DOCUMENTS, QUERIES, TEXT, WORDS
from riverrun.search import postings
from riverrun.search.fields import search_fields
from riverrun.search.index import SearchIndex
from riverrun.search.parsing import parse_query
from riverrun.search.words import Analyzer

FIELDS = search_fields(COLUMNS, TEXT)
ROWS = pl.Schema({"id": pl.Int64()})
ANALYSES = st.sampled_from([(False, None), (True, None), (False, "english"), (True, "german")])
CHANGES = st.dictionaries(st.integers(0, 9), st.one_of(st.none(), QUERIES), max_size=6)


def ids(numbers: Any) -> pl.DataFrame:
    return pl.DataFrame({"id": list(numbers)}, schema=ROWS)


def frame(documents: list[dict[str, Any]]) -> pl.DataFrame:
    return pl.DataFrame(documents, schema=COLUMNS)


def put(index: SearchIndex, queries: dict[int, str], analyzer: Analyzer) -> None:
    index.put(ids(queries), [parse_query(text, FIELDS, analyzer) for text in queries.values()])


def met(index: SearchIndex, rows: pl.DataFrame) -> list[tuple[int, int]]:
    documents, slots = index.match(rows)
    return sorted(zip(documents.tolist(), index.rows(slots)["id"].to_list(), strict=True))


@pytest.mark.parametrize("few", [1_000, 0])  # 0: what was taken out is forgotten at once
@examples(100)
@given(st.data(), ANALYSES, st.lists(st.tuples(CHANGES, st.lists(DOCUMENTS, max_size=3)), max_size=4))
def test_documents_meet_what_the_oracle_says(few: int, data: Any, analysis: Any, steps: list[Any]) -> None:
    analyzer, oracle = Analyzer(*analysis), Search(TEXT, *analysis)
    index, queries = SearchIndex(FIELDS, analyzer, ("id",), ROWS), {}
    index.few = few
    for changes, documents in steps:
        put(index, {number: text for number, text in changes.items() if text is not None}, analyzer)
        index.remove(ids(number for number, text in changes.items() if text is None))
        queries = {number: text for number, text in {**queries, **changes}.items() if text is not None}
        assert len(index) == len(queries)
        wanted = [
            (at, number)
            for at, document in enumerate(documents)
            for number, text in queries.items()
            if oracle.meets(document, text)
        ]
        assert met(index, frame(documents)) == sorted(wanted)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(8))
def test_many_documents_meet_what_the_oracle_says(seed: int) -> None:
    """Thousands of queries, changed now and then, and documents longer than hypothesis makes them."""
    dice = random.Random(seed)
    analysis = [(False, None), (True, None), (False, "english"), (True, "german")][seed % 4]
    analyzer, oracle = Analyzer(*analysis), Search(TEXT, *analysis)
    index, queries = SearchIndex(FIELDS, analyzer, ("id",), ROWS), dict[int, str]()
    index.few = dice.choice([0, 100])
    for _ in range(10):
        changes = {dice.randrange(600): drawn_query(dice) for _ in range(dice.randrange(300))}
        put(index, changes, analyzer)
        queries.update(changes)
        gone = [number for number in queries if dice.random() < 0.2]
        index.remove(ids(gone))
        queries = {number: text for number, text in queries.items() if number not in gone}
        documents = [drawn_document(dice) for _ in range(6)]
        wanted = [
            (at, number)
            for at, document in enumerate(documents)
            for number, text in queries.items()
            if oracle.meets(document, text)
        ]
        assert met(index, frame(documents)) == sorted(wanted)


def drawn_query(dice: random.Random, depth: int = 3) -> str:
    kind = dice.random()
    if depth == 0 or kind < 0.3:
        some = " ".join(dice.choices(WORDS[:-1], k=dice.randint(1, 3)))
        return dice.choice([dice.choice(WORDS[:-1]), f'"{some}"', f'"{some}"~{dice.randrange(4)}', "al*", "n:[1 TO 2]"])
    one, other = drawn_query(dice, depth - 1), drawn_query(dice, depth - 1)
    return dice.choice(
        [f"({one} AND {other})", f"({one} OR {other})", f"({one} {other})", f"(NOT {one})", f"({one} -{other})"]
    )


def drawn_document(dice: random.Random) -> dict[str, Any]:
    title, body = (" ".join(dice.choices(WORDS, k=dice.randrange(most))) for most in (5, 40))
    return {"title": title, "body": body, "city": dice.choice(WORDS), "price": 1.0, "n": dice.choice([None, 1, 3])}


def test_keys_of_several_columns_and_of_floats() -> None:
    schema = pl.Schema({"a": pl.String(), "b": pl.Float64(), "c": pl.Struct({"d": pl.Int64()})})
    index = SearchIndex(FIELDS, Analyzer(), ("a", "b", "c"), schema)
    rows = pl.DataFrame({"a": ["x", "x", None], "b": [float("nan"), -0.0, None], "c": [{"d": 1}] * 3}, schema=schema)
    for _ in range(2):
        index.put(rows.with_columns(b=pl.col("b") + 0.0), [parse_query("alpha", FIELDS, Analyzer())] * 3)
    assert len(index) == 3
    assert len(index.match(frame([{"body": "alpha"}]))[1]) == 3
    index.remove(rows)
    assert len(index) == 0


def test_a_query_is_filed_under_its_rarest_word() -> None:
    analyzer = Analyzer()
    index = SearchIndex(FIELDS, analyzer, ("id",), ROWS)
    put(index, {number: f"the AND rare{number}" for number in range(500)}, analyzer)
    put(index, {1000: "NOT the", 1001: "n:[1 TO 3]", 1002: "absent OR n:3", 1003: "longword OR beta"}, analyzer)
    assert index.loose == 3
    put(index, {1004: "NOT nothing"}, analyzer)
    index.remove(ids([1004]))
    assert index.loose == 3
    rows = frame([{"body": "the " * 5 + "rare7"}] * 300)
    assert met(index, rows) == [(at, 7) for at in range(300)]
    assert index.compared == 300 * (1 + 3)
    put(index, dict.fromkeys(range(2000, 2100), "frequently AND odd"), analyzer)
    index.match(frame([{"body": "frequently"}] * 3000))  # the longer word is taken for the rarer one until it is seen
    before = index.compared
    assert met(index, frame([{"body": "frequently"}])) == [(0, 1000)]
    assert index.compared - before == 3


def test_changes_cost_in_proportion(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten thousand single changes touch each query a few times, not ten thousand times."""
    analyzer = Analyzer()
    index = SearchIndex(FIELDS, analyzer, ("id",), ROWS)
    filed = 0
    inner = postings.file_slots

    def counting(programs: Any, first: int, behind: int) -> Any:
        nonlocal filed
        filed += behind - first
        return inner(programs, first, behind)

    monkeypatch.setattr(postings, "file_slots", counting)
    trees = [parse_query(f"word{number}", FIELDS, analyzer) for number in range(3000)]
    for number, tree in enumerate(trees):
        index.put(ids([number]), [tree])
    assert filed < 3000 * (2 + np.log2(3000))
