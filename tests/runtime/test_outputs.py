"""What a run declares: of each view the topics it is computed from, and no others."""

from __future__ import annotations

import pytest

from riverrun.errors import Invalid
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
