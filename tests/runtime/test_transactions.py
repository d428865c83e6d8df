"""Epochs end at the ends of a captured database's transactions: never inside of one, whatever is appended when."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import riverrun as rr
from riverrun.capture.topics import transactions_spec
from riverrun.log.memory import MemoryLog
from riverrun.runtime.compile.compiler import compile_flow
from riverrun.runtime.plan import Limit, Plan
from riverrun.runtime.planner import Planner
from riverrun.runtime.transactions import WholeTransactions, find_transactions, transactions_topic

SCHEMA = "id bigint, amount bigint, _position string, _transaction string"
TABLES = ("shop.debits", "shop.credits")


class Ledger:
    """Two tables of a capture and a topic of no capture, and a planner that reads all three."""

    def __init__(self, memory: str, limit: int) -> None:
        self.now = 1_000
        self.log = MemoryLog(clock=lambda: self.now)
        self.tables = [self.log.topic(rr.TopicSpec(name, SCHEMA, key="id", partitions=3)) for name in TABLES]
        self.other = self.log.topic(rr.TopicSpec("clicks", "page string", partitions=2))
        self.told = self.log.topic(transactions_spec("shop"))
        flow = rr.Flow("ledger")
        for name in TABLES:
            flow.view(name.partition(".")[2], flow.table(name, SCHEMA, key="id"))
        flow.view("clicks", flow.stream("clicks", "page string").group("page").agg(n=rr.count()))
        self.topics = {topic.name: topic for topic in (*self.tables, self.other)}
        self.planner = Planner(
            compile_flow(flow, 2), self.topics, memory, Limit(limit), lambda: self.now, {"shop.transactions": self.told}
        )
        self.number = 0

    def debit_and_credit(self, dice: random.Random) -> None:
        self.number += 1
        for topic, sign in zip(self.tables, (-1, 1), strict=True):
            self.now += 1
            count = dice.randrange(1, 4)
            rows = [{"id": dice.randrange(10_000), "amount": 0} for _ in range(count)]
            rows[0]["amount"] = sign * self.number
            topic.append(rows)

    def tell(self) -> None:
        ends = {topic.name: list(topic.ends().values()) for topic in self.tables}
        self.now += 1
        at = "2026-01-01T00:00:00Z"
        self.told.append(
            {"transaction": "", "position": "", "at": at, "ends": json.dumps(ends), "rows": 0, "kind": "commit"}
        )

    def balance(self, plan: Plan) -> int:
        return sum(
            row["amount"]
            for topic in self.tables
            for row in topic.read_offsets(topic.begins(), plan.positions[topic.name]).to_pylist()
        )


@given(seed=st.integers(0, 10**9), limit=st.sampled_from([1, 3, 10, 1000]))
@settings(max_examples=40, deadline=None)
def test_debits_and_credits_add_up_to_zero_after_every_epoch(
    tmp_path_factory: pytest.TempPathFactory, seed: int, limit: int
) -> None:
    dice = random.Random(seed)
    ledger = Ledger(str(tmp_path_factory.mktemp("memory")), limit)
    plan = ledger.planner.first()
    for _ in range(dice.randrange(1, 30)):
        ledger.debit_and_credit(dice)
        if dice.random() < 0.4:
            ledger.now += 1
            ledger.other.append({"page": "/"})
        if dice.random() < 0.6:
            ledger.tell()
        while dice.random() < 0.5 and (following := ledger.planner.next(plan)) is not None:
            plan = following
            assert ledger.balance(plan) == 0
    ledger.tell()
    while (following := ledger.planner.next(plan)) is not None:
        plan = following
        assert ledger.balance(plan) == 0
    assert plan.positions == {name: topic.ends() for name, topic in ledger.topics.items()}


def test_what_is_not_told_yet_is_not_read(tmp_path: Any) -> None:
    ledger = Ledger(str(tmp_path), 1000)
    ledger.debit_and_credit(random.Random(1))
    assert ledger.planner.next(ledger.planner.first()) is None
    ledger.tell()
    ledger.debit_and_credit(random.Random(2))
    plan = ledger.planner.next(ledger.planner.first())
    assert plan is not None
    assert ledger.balance(plan) == 0
    assert ledger.planner.next(plan) is None


def test_a_planner_that_starts_again_finds_where_it_is(tmp_path: Any) -> None:
    ledger = Ledger(str(tmp_path), 1)
    plan = ledger.planner.first()
    for number in range(40):
        ledger.debit_and_credit(random.Random(number))
        ledger.tell()
    for _ in range(17):
        plan = ledger.planner.next(plan) or plan
    again = WholeTransactions(ledger.topics, {"shop.transactions": ledger.told})
    (steps,) = again.steps(plan.positions, again.ends())
    assert len(list(steps)) == 40 - 17


def test_topics_of_no_capture_have_none() -> None:
    assert transactions_topic("orders") is None
    assert transactions_topic("shop.transactions") is None
    assert transactions_topic("shop.public.orders") == "shop.transactions"
    log = MemoryLog()
    other = log.topic(rr.TopicSpec("web.transactions", "amount double"))  # somebody's own
    orders = log.topic(rr.TopicSpec("web.orders", "user string"))
    assert find_transactions({"web.orders": orders}, {"web.transactions"}, lambda _: other) == {}
