"""What something does not have and what a method does not take is answered with what is meant."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import riverrun as rr
from riverrun import habits
from riverrun.calls import Miscalled, Misplaced, answering
from riverrun.log.coordinated_consumer import CoordinatedConsumer
from riverrun.spark.run import Run
from riverrun.views import View

ORDERS = "user string, amount double, at timestamp"


@pytest.fixture
def flow() -> rr.Flow:
    return rr.Flow("shop")


@pytest.fixture
def river(tmp_path: Path) -> Iterator[rr.River]:
    with rr.River(tmp_path / "river") as opened:
        yield opened


@pytest.mark.parametrize(
    ("call", "answer"),
    [
        (
            lambda f: f.stream("o", ORDERS, latness="10 s"),
            "stream() has no argument 'latness'. Did you mean 'lateness'?",
        ),
        (lambda f: f.stream("o", ORDERS, watermark="10 s"), "stream() has no argument 'watermark'. Use lateness="),
        (
            lambda f: f.stream("o", ORDERS, "at"),
            "stream() takes at most 2 without a name, and 3 are given. These are given by",
        ),
        (lambda f: f.stream(), "stream(): missing a required argument: 'topic'. Its arguments are: topic, schema,"),
        (
            lambda f: orders(f).group("user").agg(rr.count()),
            "agg() takes what it makes by name. Write agg(n=rr.count()",
        ),
        (
            lambda f: orders(f).window(rr.tumbling("1 minute")).agg(rr.count()),
            "agg() takes what it makes by name. Write agg(n=rr.count()",
        ),
        (lambda f: orders(f).with_columns("amount * 2"), 'by name. Write with_columns(total="price * quantity")'),
        (lambda f: orders(f).where("amount > 5", sql="x"), "where(): multiple values for argument 'sql'"),
        (
            lambda f: orders(f).window(rr.hopping("1 minute", slide="1 s")),
            "hopping() has no argument 'slide'. Use every=",
        ),
        (lambda f: rr.drop(late=1), "drop() has no argument 'late'. It takes none"),
        (lambda f: rr.Flow(nme="x"), "Flow() has no argument 'nme'. Did you mean 'name'?"),
    ],
)
def test_arguments_that_a_flow_does_not_take_are_answered_with_the_line(
    flow: rr.Flow, call: Callable[[Any], object], answer: str
) -> None:
    with pytest.raises(Miscalled) as caught:
        call(flow)
    place, _, said = str(caught.value).partition(": ")
    assert place.startswith("tests/test_calls.py:")
    assert said.startswith(answer) or answer in said
    assert isinstance(caught.value, rr.Invalid | TypeError)


def orders(flow: Any) -> Any:
    return flow.stream("orders", ORDERS)


def test_a_type_error_of_something_else_stays_what_it_is(flow: rr.Flow, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise TypeError("of something inside")

    monkeypatch.setattr("riverrun.flow.relation.condition", broken)
    with pytest.raises(TypeError, match="^of something inside$") as caught:
        orders(flow).where("amount > 5")
    assert not isinstance(caught.value, Miscalled)


@pytest.mark.parametrize(
    ("call", "answer"),
    [
        (lambda r: r.create_topic("orders"), "a river has no 'create_topic'. Use topic("),
        (lambda r: r.list_topics(), r"a river has no 'list_topics'. Use topics("),
        (lambda r: r.topik("orders"), "a river has no 'topik'. Did you mean 'topic'?"),
        (
            lambda r: r.topic("t", "n int", partition=1),
            "topic() has no argument 'partition'. Did you mean 'partitions'?",
        ),
        (lambda r: rr.River(pth="x"), "River() has no argument 'pth'. Did you mean 'path'?"),
        (lambda r: topic(r).send({"n": 1}), "a topic has no 'send'. Use append("),
        (lambda r: topic(r).to_pandas(), "a topic has no 'to_pandas'. Use read()"),
        (
            lambda r: topic(r).append({"n": 1}, sequnce=1),
            "append() has no argument 'sequnce'. Did you mean 'sequence'?",
        ),
        (lambda r: topic(r).consumer("g").subscribe("t"), "a consumer has no 'subscribe'. Topics are said before"),
        (lambda r: topic(r).consumer("g").poll(timout=1), "poll() has no argument 'timout'. Did you mean 'timeout'?"),
        (lambda r: View.__new__(View).to_pandas(), "a view has no 'to_pandas'. Use rows("),
        (lambda r: View.__new__(View).rows(limt=1), "rows() has no argument 'limt'. Did you mean 'limit'?"),
    ],
)
def test_habits_outside_of_flows_are_answered(river: rr.River, call: Callable[[Any], object], answer: str) -> None:
    with pytest.raises((Misplaced, Miscalled)) as caught:
        call(river)
    assert str(caught.value).startswith(answer)


def topic(river: rr.River) -> Any:
    return river.topic("t", "n int")


def test_a_run_is_answered_too() -> None:
    run = Run.__new__(Run)
    with pytest.raises(AttributeError, match=r"a run has no 'awaitTermination'. Use wait\(\)"):
        run.awaitTermination()  # type: ignore[attr-defined]
    with pytest.raises(TypeError, match=r"wait\(\) has no argument 'timout'. Did you mean 'timeout'?"):
        run.wait(timout=1)  # type: ignore[call-arg]


def test_what_is_answered_is_not_there_under_that_name() -> None:
    """An answer for a method that exists would never be given."""
    for kind, answers in (
        (rr.Topic, habits.TOPIC_METHODS),
        (View, habits.VIEW_METHODS),
        (rr.River, habits.RIVER_METHODS),
        (CoordinatedConsumer, habits.CONSUMER_METHODS),
        (Run, habits.RUN_METHODS),
    ):
        assert not [name for name in answers if hasattr(kind, name)]


def test_tools_see_what_is_there_and_what_is_not(river: rr.River) -> None:
    assert not hasattr(river, "_repr_html_") and not hasattr(river, "send") and hasattr(river, "topics")
    assert str(inspect.signature(rr.Topic.read)).startswith("(self, start:")


def test_a_property_that_fails_says_why() -> None:
    @answering("thing", {})
    class Thing:
        @property
        def broken(self) -> int:
            return None.real  # type: ignore[attr-defined, no-any-return]

    with pytest.raises(AttributeError, match="'NoneType' object has no attribute 'real'"):
        _ = Thing().broken
