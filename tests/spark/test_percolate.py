"""Stored searches with Spark: the same as in the testing kit, with few rows in an epoch and with many."""

from __future__ import annotations

from typing import Any

import pytest

import riverrun as rr
from oracles.orders import at
from riverrun.testing import Delete, compare_engines

pytestmark = pytest.mark.spark


def test_searches_that_change_while_articles_come() -> None:
    flow = rr.Flow("news")
    articles = flow.stream("articles", "id int, body string, lang string, at timestamp", time="at", lateness="1 minute")
    searches = flow.table("searches", "query_id string, query string, lang string", key="query_id")
    found = articles.percolate(searches, text="body", where="row.lang = query.lang")
    flow.view("found", found.select("id", "query_id"), key=["id", "query_id"])
    flow.view("hits", found.group("query_id").agg(rows=rr.count()))

    def written(first: int, count: int) -> list[dict[str, Any]]:
        return [
            {
                "id": n,
                "body": f"word{n % 7} and word{n % 11} of many",
                "lang": "en" if n % 3 else "de",
                "at": at(n / 100),
            }
            for n in range(first, first + count)
        ]

    queries = [
        {"query_id": f"q{n}", "query": f"word{n % 7} AND word{n % 11}", "lang": "en" if n % 2 else "de"}
        for n in range(40)
    ]
    script: list[Any] = [
        {"searches": [*queries, {"query_id": "bad", "query": "word1 AND", "lang": "en"}]},
        {"articles": written(0, 20)},
        {"articles": written(20, 3000)},
        {"searches": [{"query_id": "q1", "query": '"of many" -word1', "lang": "en"}]},
        Delete("searches", "q2"),
        {"articles": written(3020, 20)},
    ]
    local, _ = compare_engines(flow, script)
    assert len(local.topics["searches.quarantine"]) == 1
    assert {row["query_id"] for row in local.views["hits"]} >= {"q1", "q3"}
