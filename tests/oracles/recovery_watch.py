"""Events of users, rules and stored searches; and what a match, the rules and the searches find in them, computed from the
sorted events."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from oracles.patterns import Attempt, MatchSetting, matches
from riverrun.patterns.language import parse
from riverrun.river import River

Row = dict[str, Any]
START = datetime(2026, 1, 31, 12, tzinfo=UTC)
KINDS = {kind: f"kind = '{kind}'" for kind in "abx"}
MATCH, WITHIN = "a -> b", 20
RULES = {"pair": "a b", "double": "x x", "quiet": "a !b"}
QUERIES: Mapping[str, tuple[str, Callable[[set[str]], bool]]] = {
    "tea": ("tea", lambda words: "tea" in words),
    "plain": ("tea AND NOT green", lambda words: "tea" in words and "green" not in words),
    "gr": ("gr*", lambda words: any(word.startswith("gr") for word in words)),
}


def rules() -> list[Row]:
    return [
        {
            "rule_id": name,
            "pattern": text,
            "define": json.dumps({kind: KINDS[kind] for kind in parse(text).variables}),
            "within": f"{WITHIN} seconds",
        }
        for name, text in RULES.items()
    ]


def searches() -> list[Row]:
    return [{"query_id": name, "query": text} for name, (text, _) in QUERIES.items()]


def events(batch: int) -> list[Row]:
    """Ten events, one a second."""
    rng = random.Random(batch)
    return [
        {
            "n": n,
            "user": rng.choice(["ada", "bob", "cyd"]),
            "kind": rng.choice("aabbx"),
            "title": " ".join(rng.sample(["tea", "green", "grey", "cup", "pot"], 2)),
            "at": START + timedelta(seconds=n),
        }
        for n in range(batch * 10, batch * 10 + 10)
    ]


def expected(rows: list[Row]) -> dict[str, Counter[Any]]:
    found: dict[str, Counter[Any]] = {"pairs": Counter(), "hits": Counter(), "wanted": Counter()}
    for user in {row["user"] for row in rows}:
        own = [{**row, "time": row["n"]} for row in sorted(rows, key=lambda row: row["n"]) if row["user"] == user]
        for first, last in _spans(MATCH, own):
            found["pairs"][user, first, last] += 1
        for name, text in RULES.items():
            for first, last in _spans(text, own):
                found["hits"][name, user, first, last] += 1
    for row in rows:
        for name, (_, holds) in QUERIES.items():
            if holds(set(row["title"].split())):
                found["wanted"][row["n"], name] += 1
    return {**found, "hits-log": found["hits"]}


def _spans(text: str, rows: list[Row]) -> list[tuple[int, int]]:
    tests = {kind: _is(kind) for kind in KINDS}
    made = matches(parse(text), tests, rows, MatchSetting(WITHIN))
    return [(rows[match.taken[0][0]]["n"], rows[match.taken[-1][0]]["n"]) for match in made]


def _is(kind: str) -> Callable[[Attempt], bool]:
    return lambda at: at.value("kind") == kind


def held(river: River) -> dict[str, Counter[Any]]:
    """What the views and the topic have."""

    def second(time: datetime) -> int:
        return round((time - START).total_seconds())

    def hit(row: Row) -> tuple[Any, ...]:
        return row["rule_id"], row["user"], second(row["match_start"]), second(row["match_end"])

    pairs = [(row["user"], row["first"], row["last"]) for row in river.view("pairs").rows()]
    return {
        "pairs": Counter(pairs),
        "hits": Counter(hit(row) for row in river.view("hits").rows()),
        "wanted": Counter((row["n"], row["query_id"]) for row in river.view("wanted").rows()),
        "hits-log": Counter(hit(row) for row in river.topic("hits-log").read().to_pylist()),
    }
