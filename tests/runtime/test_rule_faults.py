"""Rules that nobody foresaw: whatever is wrong with one, it is told, and the flow and the other rules go on."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl
import pytest

import riverrun as rr
from riverrun.kernels import rule_match
from riverrun.rules.measures import RuleMeasures
from riverrun.testing import Result, run_flow

RULES = "rule_id string, pattern string, define string, within string, measures string, after string, enabled boolean"
EVENTS = "v string, x bigint, d decimal(30,2), bin binary, arr array<int>, st struct<q: binary>, at timestamp"
DEFINE = {"a": "v = 'a'", "b": "v = 'b'"}
DEEP = "(" * 300 + "x = 1" + ")" * 300


def at(second: float) -> datetime:
    return datetime(2026, 1, 31, 12, tzinfo=UTC) + timedelta(seconds=second)


def event(v: str, x: int, second: float) -> dict[str, Any]:
    return {"v": v, "x": x, "d": 1, "bin": b"\xff", "arr": [1, 2], "st": {"q": b"a"}, "at": at(second)}


def rule(name: str, pattern: str = "a b", define: Any = DEFINE, **measures: str) -> dict[str, Any]:
    texts = {"define": define if isinstance(define, str) else json.dumps(define), "measures": json.dumps(measures)}
    return {"rule_id": name, "pattern": pattern, "within": "1 minute", **texts, "enabled": True}


def ran(*rules: dict[str, Any], more: int = 0) -> Result:
    flow = rr.Flow("watch")
    table = flow.table("rules", RULES, key="rule_id")
    events = flow.stream("events", EVENTS, time="at")
    flow.view("hits", events.match_rules(table), key=["rule_id", "match_id"])
    epochs = [[event("a", 1, 10 * n), event("b", 2, 10 * n + 1), event("x", 0, 10 * n + 2)] for n in range(1 + more)]
    return run_flow(flow, [{"rules": list(rules)}, *({"events": rows} for rows in epochs)], partitions=1)


def told(result: Result) -> list[tuple[str, str]]:
    return [(row["rule_id"], row["_error"]) for row in result.topics.get("rules.quarantine", [])]


@pytest.mark.parametrize(
    ("measure", "expected"),
    [
        ("1", 1), ("'high'", "high"), ("a.bin", "/w=="), ("max(bin)", "/w=="), ("count(arr)", 2),
        ("count(st)", 2), ("a.arr", [1, 2]), ("b.x - a.x", 1),
    ],
)  # fmt: skip
def test_a_measure(measure: str, expected: Any) -> None:
    result = ran(rule("r", q=measure))
    assert told(result) == []
    assert [json.loads(row["measures"])["q"] for row in result.views["hits"]] == [expected]


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (rule("bad", q="max(arr)"), "has no order"),
        (rule("bad", q="a.st"), "has bytes inside"),
        (rule("bad", q="null"), "null is void"),
        (rule("bad", define={"b": DEEP}), "brackets are open"),
        (rule("bad", define={"b": "x = " + " + ".join(["a.x"] * 3000)}), "stand in a row"),
        (rule("bad", "(" * 3000 + "a" + ")" * 3000, {}), "groups are inside each other"),
        (rule("bad", define={"b": f"x > prev(x, {'9' * 20})"}), "more than 10000"),
        (rule("bad", q=f"last(a.x, {'9' * 20})"), "more than 10000"),
        (rule("bad", define='{"a": "x = 1", "A": "x = 2"}'), "define has 'A' twice"),
        (rule("bad", define={"b": "max(arr) is null"}), "compares array<int>"),
        (rule("bad", define={"b": "arr = prev(arr)"}), "compares array<int>"),
        (rule("bad", define={"b": "length(repeat(v, 2000000000)) > 1"}), "more than 10000 times as long"),
        (rule("bad", define={"b": "length(repeat(repeat(v, 1000), 1000)) > 1"}), "more than 10000 times as long"),
        (rule("bad", define={"b": "length(rpad(v, cast(x as int), 'a')) > 1"}), "a number that is written out"),
        (rule("bad", q="repeat(concat(a.v, b.v), 2000000000)"), "more than 10000 times as long"),
    ],
)
def test_a_rule_that_is_refused(bad: dict[str, Any], why: str) -> None:
    result = ran(rule("good"), bad)
    ((name, error),) = told(result)
    assert name == "bad" and why in error
    assert [row["rule_id"] for row in result.views["hits"]] == ["good"]


def test_a_long_list_of_alternatives_is_a_rule() -> None:
    result = ran(rule("r", define={"b": " or ".join(f"x = prev(x) + {number}" for number in range(500))}))
    assert told(result) == [] and len(result.views["hits"]) == 1


class Unforeseen(RuntimeError):
    """What no rule should raise."""


def test_a_rule_that_cannot_be_read_for_an_unknown_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    from riverrun.rules import rule as reading

    really = reading.check_shape

    def check(written: Any, within: int) -> Any:
        if written.rule_id == "bad":
            raise Unforeseen("an accident")
        return really(written, within)

    monkeypatch.setattr(reading, "check_shape", check)
    result = ran(rule("good"), rule("bad"))
    ((name, error),) = told(result)
    assert name == "bad" and error.startswith("this rule cannot be read: Unforeseen: an accident")
    assert [row["rule_id"] for row in result.views["hits"]] == ["good"]


def test_a_rule_whose_search_fails_is_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    really = rule_match.search_rule

    def search(rule: Any, *given: Any) -> Any:
        if rule.written.rule_id == "bad":
            raise Unforeseen("an accident")
        return really(rule, *given)

    monkeypatch.setattr(rule_match, "search_rule", search)
    result = ran(rule("good"), rule("bad"), more=2)
    assert told(result) == [("bad", "switched off: Unforeseen: an accident")]
    assert [row["rule_id"] for row in result.views["hits"]] == ["good"] * 3


def test_a_rule_whose_measures_fail_is_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    really = RuleMeasures.texts

    def texts(measures: RuleMeasures, known: pl.DataFrame) -> pl.Series:
        if "boom" in measures.order:
            raise pl.exceptions.PanicException("an accident")
        return really(measures, known)

    monkeypatch.setattr(RuleMeasures, "texts", texts)
    result = ran(rule("good", q="a.x"), rule("bad", boom="a.x"), more=2)
    assert told(result) == [("bad", "switched off: PanicException: an accident")]
    assert [row["rule_id"] for row in result.views["hits"]] == ["good"] * 3


def test_attempts_that_are_given_up_are_counted() -> None:
    flow = rr.Flow("watch")
    table = flow.table("rules", RULES, key="rule_id")
    events = flow.stream("events", EVENTS, time="at")
    flow.view("hits", events.match_rules(table, within="1 hour"), key=["rule_id", "match_id"])
    wide = {**rule("wide", "a+ b"), "within": "1 hour"}
    rows = [event("a", 1, number / 1000) for number in range(10_200)]
    script = [{"rules": [wide]}, {"events": rows}, {"events": [event("b", 1, 20), event("x", 1, 30)]}]
    result = run_flow(flow, script, partitions=1)
    assert [entry["given_up"] for entry in result.ledger if entry.get("given_up")] == [201]
    assert told(result) == [] and len(result.views["hits"]) == 1
