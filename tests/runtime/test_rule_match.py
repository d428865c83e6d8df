"""Rules in a flow: put, changed, refused, switched off while rows flow, through crashes; and none is missed or doubled."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import riverrun as rr
from riverrun.errors import Invalid
from riverrun.testing import Crash, Delete, Result, run_flow

RULES = "rule_id string, pattern string, define string, within string, measures string, after string, enabled boolean"
STEPS = ["host.stepped", "host.committed"]


def at(second: float) -> datetime:
    return datetime(2026, 1, 31, 12, tzinfo=UTC) + timedelta(seconds=second)


def event(user: str, kind: str, amount: float, second: float) -> dict[str, Any]:
    return {"user": user, "kind": kind, "amount": amount, "at": at(second)}


def rule(name: str, pattern: str = "a b", enabled: bool = True, **more: Any) -> dict[str, Any]:
    define = more.pop("define", {"a": "kind = 'a'", "b": "kind = 'b'"})
    measures = more.pop("measures", {"amount": "b.amount"})
    texts = {"define": json.dumps(define), "measures": json.dumps(measures)}
    return {"rule_id": name, "pattern": pattern, "within": "1 minute", **texts, "enabled": enabled, **more}


def made(**options: Any) -> rr.Flow:
    flow = rr.Flow("watch")
    rules = flow.table("rules", RULES, key="rule_id")
    events = flow.stream("events", "user string, kind string, amount double, at timestamp", time="at")
    hits = events.match_rules(rules, by="user", within="1 hour", **options)
    flow.view("hits", hits, key=["rule_id", "match_id"])
    return flow


def found(result: Result) -> list[tuple[str, str, float]]:
    rows = [(row["rule_id"], row["user"], json.loads(row["measures"])["amount"]) for row in result.views["hits"]]
    return sorted(rows)


def test_rules_count_from_the_epoch_that_brings_them() -> None:
    script = [
        {"events": [event("ada", "a", 1, 1), event("ada", "b", 2, 2), event("bob", "x", 0, 3)]},
        {"rules": [rule("one")]},
        {"events": [event("ada", "a", 1, 4), event("ada", "b", 5, 5), event("bob", "x", 0, 6)]},
        {"rules": [rule("one", enabled=False), rule("two")]},
        {"events": [event("ada", "a", 1, 7), event("ada", "b", 8, 8), event("bob", "x", 0, 9)]},
    ]
    assert found(run_flow(made(), script)) == [("one", "ada", 5.0), ("two", "ada", 8.0)]


def test_a_rule_that_cannot_be_read_changes_nothing_else() -> None:
    script = [
        {"rules": [rule("one"), rule("bad", "a (")]},
        {"rules": [rule("one", define={"a": "kind = 'a'", "b": "knd = 'b'"})]},
        {"events": [event("ada", "a", 1, 4), event("ada", "b", 5, 5), event("bob", "x", 0, 6)]},
    ]
    result = run_flow(made(), script)
    assert found(result) == [("one", "ada", 5.0)]
    told = [(row["rule_id"], row["_error"].splitlines()[0]) for row in result.topics["rules.quarantine"]]
    assert told == [
        ("bad", "pattern: ends where a variable is expected"),
        ("one", "there is no column 'knd' in \"knd = 'b'\". Did you mean 'kind'?"),
    ]
    (entry,) = [one for one in result.ledger if one["node"].startswith("match_rules") and one["input"] == "right"]
    assert (entry["read"], entry["quarantined"]) == (4, 2)  # a changed row is taken back and put


def test_a_rule_that_is_deleted_is_gone_and_the_same_one_again_goes_on() -> None:
    script = [
        {"rules": [rule("one"), rule("two")]},
        {"events": [event("ada", "a", 1, 1), event("bob", "x", 0, 2)]},
        {"rules": [rule("one")]},
        Delete("rules", "two"),
        {"events": [event("ada", "b", 5, 5), event("bob", "x", 0, 6)]},
    ]
    assert found(run_flow(made(), script)) == [("one", "ada", 5.0)]


@pytest.mark.parametrize("epochs", [1, 7])
@pytest.mark.parametrize("crash", [None, *STEPS])
def test_a_hundred_rules_are_swapped_while_rows_flow(epochs: int, crash: str | None) -> None:
    """Every pair of rows is found by exactly one of two generations of rules, whatever is killed."""
    many, users = 100, [f"u{number}" for number in range(20)]
    first = [rule(f"r{number}", define={"a": "kind = 'a'", "b": f"amount = {number}"}) for number in range(many)]
    second = [{**one, "rule_id": f"s{number}"} for number, one in enumerate(first)]
    off = [{**one, "enabled": False} for one in first]
    script: list[Any] = [{"rules": first}]
    pairs, second_since = [], 0
    for epoch in range(2 * epochs):
        if epoch == epochs:
            script.append({"rules": [*off, *second]})
            second_since = epoch
        rows = []
        for place, user in enumerate(users):
            amount = (epoch * len(users) + place) % many
            rows += [event(user, "a", -1, 10 * epoch + 1), event(user, "b", amount, 10 * epoch + 2)]
            pairs.append((f"{'s' if epoch >= epochs else 'r'}{amount}", user, float(amount)))
        rows.append(event("clock", "x", -1, 10 * epoch + 5))
        if crash is not None and epoch in (0, second_since):
            script.append(Crash(crash))
        script.append({"events": rows})
    assert found(run_flow(made(), script)) == sorted(pairs)


def test_a_rule_that_explodes_is_switched_off_and_the_flow_goes_on() -> None:
    """A condition that asks for all rows of the match, in a pattern with many ways: no two attempts are alike."""
    hungry = rule(
        "hungry",
        "(a | b)* c",
        define={
            "a": "kind = 'a' and coalesce(sum(b.amount), 0) >= 0",
            "b": "kind = 'a' and coalesce(sum(a.amount), 0) >= 0",
            "c": "sum(a.amount) = sum(b.amount) + 0.5",
        },
        measures={"amount": "c.amount"},
    )
    rows = [event("ada", "a", 2**number, number / 10) for number in range(40)]
    script = [
        {"rules": [hungry, rule("one")]},
        {"events": [*rows, event("bob", "x", 0, 70)]},
        {"events": [event("ada", "a", 1, 80), event("ada", "b", 5, 81), event("bob", "x", 0, 90)]},
    ]
    result = run_flow(made(steps=100), script)
    assert found(result) == [("one", "ada", 5.0)]
    (told,) = result.topics["rules.quarantine"]
    assert told["rule_id"] == "hungry" and told["_error"].startswith("switched off: it takes more than")


def test_too_many_open_attempts_switch_a_rule_off() -> None:
    wide = rule("wide", "a -> b")
    users = [f"u{number}" for number in range(20)]
    script = [
        {"rules": [wide]},
        {"events": [event(user, kind, 1, second) for second, kind in ((1, "a"), (2, "x")) for user in users]},
        {"events": [event("clock", "x", 0, 5)]},
        {"events": [event("u1", "b", 7, 6), event("clock", "x", 0, 9)]},
    ]
    assert found(run_flow(made(), script)) == [("wide", "u1", 7.0)]
    result = run_flow(made(open_attempts=10), script)
    assert found(result) == []
    (told,) = result.topics["rules.quarantine"]
    assert "more than 10 open attempts" in told["_error"]


def test_what_cannot_be_declared() -> None:
    flow = rr.Flow("watch")
    events = flow.stream("events", "user string, kind string, at timestamp", time="at")
    named = flow.table("named", "name string, pattern string", key="name")
    lean = flow.table("lean", "rule_id string, pattern string", key="rule_id")
    assert list(events.match_rules(lean).schema) == ["rule_id", "match_start", "match_end", "match_id", "measures"]
    with pytest.raises(Invalid, match="whose key is rule_id"):
        events.match_rules(named)
    with pytest.raises(Invalid, match="takes a table of rules"):
        events.match_rules(events)  # type: ignore[arg-type]
    with pytest.raises(Invalid, match="cannot correct its results"):
        events.match_rules(lean, late=rr.correct("1 hour"))
    with pytest.raises(Invalid, match="steps cannot be 0"):
        events.match_rules(lean, steps=0)
