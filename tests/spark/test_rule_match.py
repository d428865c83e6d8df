"""Rules with Spark: the same as in the testing kit, with few rows in an epoch and with many."""

from __future__ import annotations

import json
from typing import Any

import pytest

import riverrun as rr
from oracles.orders import at
from riverrun.testing import Delete, compare_engines

pytestmark = pytest.mark.spark


def test_rules_that_change_while_rows_come() -> None:
    flow = rr.Flow("watch")
    events = flow.stream("events", "id int, user int, amount double, at timestamp", time="at")
    rules = flow.table(
        "rules", "rule_id string, pattern string, define string, within string, measures string", key="rule_id"
    )
    flow.view("hits", events.match_rules(rules, by="user", within="1 minute"), key=["rule_id", "match_id"])

    def happened(first: int, count: int) -> list[dict[str, Any]]:
        return [
            {"id": n, "user": n % 13, "amount": float(n * 7919 % 101), "at": at(n / 100)}
            for n in range(first, first + count)
        ]

    def rule(number: int, more: str = "") -> dict[str, Any]:
        define = {"low": f"amount < {number}", "high": f"amount > low.amount + 60{more}"}
        measures = {"ids": "first(id) * 1000 + last(id)"}
        texts = {"define": json.dumps(define), "measures": json.dumps(measures)}
        return {"rule_id": f"r{number}", "pattern": "low -> high", "within": "2 seconds", **texts}

    script: list[Any] = [
        {"rules": [*(rule(number) for number in range(1, 30)), {"rule_id": "bad", "pattern": "a ("}]},
        {"events": happened(0, 20)},
        {"events": happened(20, 3000)},
        {"rules": [rule(5, " and id % 2 = 0")]},
        Delete("rules", "r6"),
        {"events": happened(3020, 40)},
    ]
    local, _ = compare_engines(flow, script)
    assert len(local.topics["rules.quarantine"]) == 1
    assert len({row["rule_id"] for row in local.views["hits"]}) > 20
