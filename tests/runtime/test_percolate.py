"""`s.percolate` in flows: for any epochs and any crash, rows meet the queries of their epoch; and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import riverrun as rr
from oracles.histories import FAILPOINTS, counted
from oracles.orders import at, examples
from oracles.search import Search
from oracles.search_inputs import DOCUMENTS, QUERIES, TEXT, UNREADABLE
from riverrun.errors import Invalid, NotFound
from riverrun.flow.fingerprint import fingerprints
from riverrun.runtime.compile.compiler import compile_flow
from riverrun.testing import Append, Crash, Process, run_flow

ROW = "id int, title string, body string, city string, price double, n long, at timestamp"
IDS = st.sampled_from(["a", "b", "c", "d"])
QUERY = st.fixed_dictionaries(
    {
        "query_id": IDS,
        "query": st.one_of(QUERIES, QUERIES, st.sampled_from(UNREADABLE)),
        "city": st.sampled_from(["x", "alpha", None]),
    }
)
GONE = IDS.map(lambda id: {"query_id": id, "_deleted": True})
ARRIVING = st.one_of(
    DOCUMENTS.map(lambda row: ("articles", row)), st.one_of(QUERY, QUERY, GONE).map(lambda row: ("searches", row))
)
EPOCHS = st.lists(st.lists(ARRIVING, min_size=1, max_size=8), min_size=1, max_size=4)


def declared(**options: Any) -> tuple[rr.Flow, rr.Stream, rr.Table]:
    flow = rr.Flow("news")
    articles = flow.stream("articles", ROW, time="at", lateness="1 minute", **options)
    return flow, articles, flow.table("searches", "query_id string, query string, city string", key="query_id")


def news() -> rr.Flow:
    flow, articles, searches = declared()
    found = articles.percolate(searches, text=["title", "body"])
    flow.view("found", found.select("id", "query_id"), key=["id", "query_id"])
    flow.view("per_query", found.group("query_id").agg(rows=rr.count(), last=rr.max("id")))
    flow.view("same_city", articles.percolate(searches, TEXT, where="row.city = query.city").select("id", "query_id"))
    flow.topic("hits", found.select("query_id", "id", "city_query"))
    return flow


def numbered(epochs: list[list[Any]]) -> list[list[Any]]:
    """Articles numbered in the order of arrival, four seconds apart."""
    number, found = 0, []
    for epoch in epochs:
        found.append([])
        for topic, row in epoch:
            if topic == "articles":
                row, number = {**row, "id": number, "at": at(number * 4)}, number + 1
            found[-1].append((topic, row))
    return found


def expected(epochs: list[list[Any]]) -> list[tuple[Any, Any]]:
    """Rows and queries that belong together: epoch by epoch, first the queries, then the rows."""
    queries: dict[str, Any] = {}
    found = []
    for epoch in epochs:
        for topic, row in epoch:
            if topic == "searches":
                queries[row["query_id"]] = None if row.get("_deleted") or row["query"] in UNREADABLE else row
        for topic, row in epoch:
            if topic == "articles":
                found += [(row, q) for q in queries.values() if q and Search(TEXT).meets(row, q["query"])]
    return found


@given(EPOCHS, st.sampled_from(FAILPOINTS), st.integers(0, 3), st.sampled_from([1, 3]))
@examples(12)
def test_rows_meet_the_queries_of_their_epoch(epochs: Any, place: str, when: int, shards: int) -> None:
    epochs = numbered(epochs)
    steps = [[*(Append(topic, [row]) for topic, row in epoch), Process()] for epoch in epochs]
    script = [
        *(step for one in steps[:when] for step in one),
        Crash(at=place),
        *(s for one in steps[when:] for s in one),
    ]
    found = run_flow(news(), script, partitions=2, shards=shards)
    wanted = expected(epochs)
    pairs = [{"id": row["id"], "query_id": query["query_id"]} for row, query in wanted]
    assert counted(found.views["found"]) == counted(pairs)
    hits = [{"query_id": q["query_id"], "id": row["id"], "city_query": q["city"]} for row, q in wanted]
    assert counted(found.topics["hits"]) == counted(hits)
    cities = [pair for pair, (row, query) in zip(pairs, wanted, strict=True) if row["city"] == query["city"]]
    assert counted(found.views["same_city"]) == counted(cities)
    assert {row["query_id"]: row["rows"] for row in found.views["per_query"]} == {
        query["query_id"]: sum(other["query_id"] == query["query_id"] for _, other in wanted) for _, query in wanted
    }


ADA = {"query_id": "ada", "query": "tea AND price:<5"}


def article(number: int, body: str, **values: Any) -> dict[str, Any]:
    return {"id": number, "body": body, "price": 3.0, "at": at(number), **values}


def test_what_is_known_of_a_row_is_taken_back_with_it() -> None:
    """The price of an article is corrected: what was found for it is found again, by the queries of now."""
    flow, articles, searches = declared()
    prices = flow.table("prices", "id int, now double, since timestamp", key="id", time="since")
    priced = articles.drop("price").as_of(prices, on="id", late=rr.correct("1 hour")).with_columns(price="now")
    found = priced.percolate(searches, text="body")
    assert found.node.retracts
    flow.view("found", found.select("id", "query_id", "price"), key=["id", "query_id"])
    script = [
        {"searches": [ADA, {"query_id": "bob", "query": "tea"}], "prices": [{"id": 1, "now": 9.0, "since": at(0)}]},
        {"articles": [article(1, "green tea")]},
        {"prices": [{"id": 1, "now": 2.0, "since": at(1)}], "searches": [{"query_id": "bob", "_deleted": True}]},
    ]
    early = run_flow(flow, script[:2], drain=False)
    assert early.views["found"] == [{"id": 1, "query_id": "bob", "price": 9.0}]
    assert run_flow(flow, script).views["found"] == [{"id": 1, "query_id": "ada", "price": 2.0}]
    assert run_flow(flow, [*script, Crash(), Process()]).views["found"] == [{"id": 1, "query_id": "ada", "price": 2.0}]


def test_a_query_that_cannot_be_read_is_put_aside() -> None:
    flow = news()
    script = [
        {"searches": [ADA, {"query_id": "bob", "query": "tea"}]},
        {"searches": [{"query_id": "bob", "query": "tea AND"}, {"query_id": "eve", "query": None}]},
        {"articles": [article(1, "tea")]},
        {"searches": [{"query_id": "bob", "query": "tea"}]},
        {"articles": [article(2, "tea")]},
    ]
    found = run_flow(flow, script)
    pairs = {(row["id"], row["query_id"]) for row in found.views["found"]}
    assert pairs == {(1, "ada"), (2, "ada"), (2, "bob")}
    aside = {row["query_id"]: row["_error"] for row in found.topics["searches.quarantine"]}
    assert aside["eve"] == "the query has no words"
    assert aside["bob"] == "the query ends too early\n  tea AND\n         ^"
    (entry,) = [e for e in found.ledger if e["input"] == "right" and e["node"] == _percolates(flow)[0]]
    assert (entry["read"], entry["quarantined"]) == (6, 2)
    assert entry["accepted"] == 4


def _percolates(flow: rr.Flow) -> list[str]:
    return [node.id for node in flow.nodes if node.kind == "percolate"]


def test_queries_of_a_computed_table() -> None:
    flow, articles, _ = declared()
    asked = flow.stream("asked", "who string, words string, at timestamp", time="at")
    newest = asked.latest("who").select("who", "concat(words, ' AND price:<5') as query")
    found = articles.percolate(newest, text="body")
    flow.view("found", found.select("id", "who"))
    wishes = [{"who": "ada", "words": "tea", "at": at(0)}, {"who": "bob", "words": "(", "at": at(0)}]
    result = run_flow(flow, [{"asked": wishes}, {"articles": [article(1, "tea"), article(2, "rye")]}])
    assert result.views["found"] == [{"id": 1, "who": "ada"}]
    (name,) = [topic for topic in result.topics if topic.endswith(".quarantine")]
    assert name == f"news.{_percolates(flow)[0]}.quarantine"
    assert [row["who"] for row in result.topics[name]] == ["bob"]


def test_columns_and_where() -> None:
    flow, articles, searches = declared()
    found = articles.percolate(searches, text="body", where="row.city = query.`city` and length(query.query_id) > 1")
    assert list(found.schema)[-3:] == ["query_id", "query", "city_query"]
    flow.view("found", found)
    script = [
        {
            "searches": [
                {"query_id": id, "query": "tea", "city": city} for id, city in (("ada", "x"), ("b", "x"), ("cy", "z"))
            ]
        },
        {"articles": [article(1, "tea", city="x")]},
    ]
    (row,) = run_flow(flow, script).views["found"]
    assert (row["id"], row["query_id"], row["city"], row["city_query"]) == (1, "ada", "x", "x")


def test_stems_and_accents() -> None:
    flow, articles, searches = declared()
    plain, folded, stemmed = (
        articles.percolate(searches, text="body", fold=fold, stem=stem)
        for fold, stem in ((False, None), (True, None), (False, "english"))
    )
    for name, found in (("plain", plain), ("folded", folded), ("stemmed", stemmed)):
        flow.view(name, found.select("query_id"))
    queries = [
        {"query_id": "1", "query": "cafe"},
        {"query_id": "2", "query": "runs"},
        {"query_id": "3", "query": "CAFÉ"},
    ]
    result = run_flow(flow, [{"searches": queries}, {"articles": [article(1, "Running to the café")]}])
    assert {name: [row["query_id"] for row in rows] for name, rows in result.views.items()} == {
        "plain": ["3"],
        "folded": ["1", "3"],
        "stemmed": ["2", "3"],
    }
    prints = fingerprints(flow.nodes)
    assert len({prints[id] for id in _percolates(flow)}) == 3


def test_only_columns_that_are_read_go_on() -> None:
    """A long text that many queries meet is not written out as many times."""
    flow = news()
    (output,) = [
        op.output.names for stage in compile_flow(flow, 1).stages for op in stage if op.id in _percolates(flow)
    ]
    assert output == ["id", "city", "query_id", "city_query", "_received"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"text": "boddy"}, "text: there is no column 'boddy'"),
        ({"text": []}, "text needs at least one column"),
        ({"text": "price"}, "text: 'price' is double, and words are looked for in strings"),
        ({"query": "words"}, "query: there is no column 'words'"),
        ({"where": "city = 'x'"}, "there is no column 'city'"),
        ({"where": "row.town = query.city"}, "'row' has no field 'town'"),
        ({"where": "row = query"}, "row is not a value"),
        ({"where": "row.city"}, "is string, not boolean"),
        ({"stem": "klingon"}, "there is no stemmer for 'klingon'"),
    ],
)
def test_what_is_refused(options: dict[str, Any], said: str) -> None:
    _, articles, searches = declared()
    with pytest.raises((Invalid, NotFound), match=said) as caught:
        articles.percolate(searches, **{"text": "body", **options})
    assert "test_percolate.py:" in str(caught.value)


def test_queries_are_a_table_with_a_key() -> None:
    flow, articles, searches = declared()
    with pytest.raises(Invalid, match="percolate takes a table of queries"):
        articles.percolate(articles, text="body")  # type: ignore[arg-type]
    with pytest.raises(Invalid, match="whose key is columns of it"):
        articles.percolate(searches.union(searches), text="body")
    with pytest.raises(Invalid, match="percolate is a method of a stream"):
        searches.percolate(searches, text="query")
    with pytest.raises(Invalid, match="query: 'n' is bigint"):
        articles.percolate(flow.table("other", "k int, n long", key="k"), text="body", query="n")
