"""A small shop to declare flows about, and a way to read refusals."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest

from riverrun.errors import Invalid, NotFound
from riverrun.flow import Flow, Stream, Table

ORDERS = "order_id string, user string, amount double, quantity int, tags map<string,string>, at timestamp"
USERS = "user string, city string, updated_at timestamp"


@pytest.fixture
def flow() -> Flow:
    return Flow("shop")


@pytest.fixture
def orders(flow: Flow) -> Stream:
    return flow.stream("orders", ORDERS, time="at", key="user", lateness="10 seconds")


@pytest.fixture
def users(flow: Flow) -> Table:
    return flow.table("users", USERS, key="user", time="updated_at")


Refusal = Callable[..., str]


@pytest.fixture
def refusal() -> Refusal:
    """What a call is refused with, message and hint, without the place: that must be a line of the call itself."""

    def refused(call: Callable[..., Any], *args: Any) -> str:
        with pytest.raises((Invalid, NotFound)) as caught:
            call(*args)
        code = call.__code__
        file = code.co_filename.removeprefix(os.path.join(os.getcwd(), ""))
        place, _, message = str(caught.value).partition(": ")
        assert place in {f"{file}:{line}" for *_, line in code.co_lines()}
        return message

    return refused
