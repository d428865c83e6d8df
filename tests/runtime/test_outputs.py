"""What a run declares: of each view the topics it is computed from, and no others."""

from __future__ import annotations

import pytest

from riverrun.errors import Invalid, OutOfRange
from riverrun.flow import Flow
from riverrun.flow.aggregates import count
from riverrun.testing.local import LocalRun
from riverrun.views import View


def test_a_view_reads_the_topics_below_it() -> None:
    flow = Flow("shop")
    orders, clicks = (flow.stream(name, "user string", key="user") for name in ("orders", "clicks"))
    users = flow.table("users", "user string, city string", key="user")
    flow.view("counts", orders.group("user").agg(n=count()))
    flow.view("clicks", clicks)
    flow.view("cities", orders.join(users, on="user"))
    with LocalRun(flow, (), None, 1, 1, 1000) as run:
        run.take({"orders": [{"user": "ada"}], "clicks": [{"user": "bob"}]})
        views = {name: View(run._store, name) for name in flow.views}
        topics = {name: view.spec.topics for name, view in views.items()}
        assert topics == {"counts": ("orders",), "clicks": ("clicks",), "cities": ("orders", "users")}
        assert str(views["counts"].position) == "orders@0:1"
        assert views["counts"].rows(at_least="orders@0:1", timeout=0) == [{"user": "ada", "n": 1}]
        with pytest.raises(Invalid, match="does not read topic 'clicks'; it reads orders"):
            views["counts"].rows(at_least="clicks@0:1", timeout=0)


def test_a_view_that_was_removed_from_its_flow_does_not_go_on() -> None:
    def flow(*views: str) -> Flow:
        made = Flow("shop")
        orders = made.stream("orders", "user string", key="user")
        for view in views:
            made.view(view, orders.group("user").agg(n=count()))
        return made

    with LocalRun(flow("a", "b"), (), None, 1, 1, 1000) as run:
        run.take({"orders": [{"user": "ada"}]})
        run._flow = flow("a")
        run._start()
        run.take({"orders": [{"user": "ada"}]})
        a, b = View(run._store, "a"), View(run._store, "b")
        assert (str(a.position), str(b.position)) == ("orders@0:2", "orders@0:1")
        assert b.rows(at_least="orders@0:1", timeout=0) == [{"user": "ada", "n": 1}]
        with pytest.raises(OutOfRange, match="no longer keeps up view 'b'"):
            b.rows(at_least="orders@0:2", timeout=0)
