"""An expression that Spark computes and that fails is the flow's own error: what, where, on which row, and why."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from riverrun.errors import Invalid
from riverrun.flow import Flow
from riverrun.flow.aggregates import count, max
from riverrun.runtime.compile.compiler import compile_flow
from riverrun.runtime.source import Range
from riverrun.spark.blame import Suspects, failed_fragments, unseen_row

ORDERS = "user string, amount string, n int"


@dataclass
class Thrown(Exception):
    """What pyspark raises for an exception of the JVM, and that exception."""

    state: str | None
    fragments: list[str] = field(default_factory=list)
    text: str = ""
    cause: Thrown | None = None

    @property
    def _origin(self) -> Thrown:
        return self

    def __str__(self) -> str:
        return self.text

    def getSqlState(self) -> str | None:
        return self.state

    def getQueryContext(self) -> list[Any]:
        return [SimpleNamespace(fragment=lambda part=part: part) for part in self.fragments]

    def getCause(self) -> Thrown | None:
        return self.cause


IMITATED = "SQLSTATE: 22018\n== SQL (line 1, position 1) ==\ncast(amount as double)\n^^^^^^^^^^^^^^^^^^^^^^"


def test_only_the_exception_itself_says_that_it_was_a_value() -> None:
    """Not its text: part of that is an event's."""
    assert failed_fragments(Thrown("22018", ["cast(x as int)"], IMITATED)) == ("cast(x as int)",)
    assert failed_fragments(Thrown("XXKST", cause=Thrown("22012", ["1 / n"]))) == ("1 / n",)
    assert failed_fragments(Thrown("22007")) == ()
    assert failed_fragments(Thrown("P0001")) == ()
    assert failed_fragments(Thrown("38000", text=IMITATED)) is None
    assert failed_fragments(RuntimeError(IMITATED)) is None
    assert failed_fragments(Invalid(IMITATED)) is None


def test_of_a_row_that_cannot_be_read_again_the_node_and_the_epoch_are_known() -> None:
    flow = Flow("shop")
    rows = flow.stream("orders", ORDERS)
    users = rows.group("user").agg(n=count(), most=max("amount")).named("users")
    priced = users.with_columns(price="cast(most as double) * 2", hash="xxhash64(user)")
    flow.view("prices", priced.with_columns(half="price / n"))
    job = compile_flow(flow, 2, engine="spark")
    [branch] = [one for one in job.branches if one.target == "prices" or "xxhash64" in str(one.items)]
    failed = branch.written[0].sql.removesuffix(" * 2")
    parts = [Range("orders", 0, 7, 9), Range("orders", 2, 0, 4)]
    found = unseen_row(Suspects(job, (failed,)), "it is malformed", parts)
    line = priced.node.place.line
    assert f"test_blame.py:{line}: cast(most as double) * 2" in str(found)
    assert "xxhash64" not in str(found)
    assert "a row of users, in the epoch from orders@0:7,2:0 to before orders@0:9,2:4: it is malformed" in str(found)


@pytest.fixture
def by_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark computes every expression of the rivers that are opened from here on."""
    monkeypatch.setenv("RIVERRUN_EXPRESSIONS", "spark")


PLANTED = f"many {IMITATED}"


def failing(flow: Flow, river: Any, rows: list[dict[str, Any]]) -> str:
    """What the run of a flow over these orders fails with."""
    river.topic("orders", ORDERS, partitions=1, fsync="os").append(rows)
    with river.run(flow) as run, pytest.raises(Invalid) as caught:
        run.process(timeout="60 seconds")
    return str(caught.value)


@pytest.mark.spark
def test_topic_position_values_expression_and_line_are_named(by_spark: None, river: Any) -> None:
    """Of two that fit what Spark underlines, it is the one that fails; and rows that a `where` keeps away are not it.
    That a value looks like what Spark says of another expression changes nothing."""
    flow = Flow("shop")
    rows = flow.stream("orders", ORDERS).where("user <> 'eve'")
    harmless = rows.where("n < 5").with_columns(price="cast(amount as double) + 1")
    priced = rows.where("n >= 5").with_columns(price="cast(amount as double) * 2")
    flow.view("first", harmless)
    flow.view("prices", priced)
    said = failing(
        flow,
        river,
        [{"user": "ada", "amount": "1.5", "n": n} for n in range(20)]
        + [{"user": "eve", "amount": "none", "n": 9}, {"user": "bob", "amount": PLANTED, "n": 7}]
        + [{"user": "ada", "amount": "2.5", "n": n} for n in range(20)],
    )
    line = priced.node.place.line
    assert f"test_blame.py:{line}: cast(amount as double) * 2 fails on row orders@0:21 (amount = many SQLSTATE" in said
    assert "The value 'many" in said
    assert len(said.splitlines()) == 1


@pytest.mark.spark
@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("cast(n + 3000000000 as int)", 'cannot be cast to "INT" due to an overflow'),
        ("to_date(amount, 'yyyy-MM-dd')", "could not be parsed"),
        ("cast(raise_error(user) as string)", "bob"),
    ],
)
def test_errors_of_which_spark_underlines_nothing(by_spark: None, river: Any, expression: str, reason: str) -> None:
    flow = Flow("shop")
    flow.view("all", flow.stream("orders", ORDERS).with_columns(made=f"if(n > 0, {expression}, null)"))
    said = failing(flow, river, [{"user": "ada", "n": 0}, {"user": "bob", "amount": "x", "n": 1}])
    assert re.search(r"fails on row orders@0:1 \(.*n = 1.*\): ", said), said
    assert reason in said


@pytest.mark.spark
def test_behind_a_node_its_name_is_said(by_spark: None, river: Any) -> None:
    flow = Flow("shop")
    users = flow.stream("orders", ORDERS).group("user").agg(n=max("n"), most=max("amount")).named("users")
    flow.view("prices", users.with_columns(price="cast(most as double) * 2"))
    said = failing(flow, river, [{"user": "ada", "amount": "many", "n": 1}])
    assert "cast(most as double) * 2 fails on a row of users, in the epoch from orders@0:0 to before orders@0:1" in said
    assert "'many'" in said
