"""Errors and nodes name the user's line."""

from __future__ import annotations

import inspect
import os

import pytest

from riverrun.errors import Invalid, NotFound
from riverrun.flow import Flow
from riverrun.flow import aggregates as rr

HERE = __file__.removeprefix(os.path.join(os.getcwd(), ""))


def line() -> int:
    frame = inspect.currentframe()
    assert frame and frame.f_back
    return frame.f_back.f_lineno


def test_a_node_knows_its_line(flow: Flow) -> None:
    orders, at = flow.stream("orders", "user string, amount double"), line()
    big, below = orders.where("amount > 10"), line()
    assert str(orders.node.place) == f"{HERE}:{at}"
    assert str(big.node.place) == f"{HERE}:{below}"


def test_a_chain_names_the_call_that_is_wrong(flow: Flow) -> None:
    with pytest.raises(NotFound) as caught:
        start = line()
        (
            flow.stream("orders", "user string, amount double")
            .where("amount > 10")
            .where("amout > 10")
            .group("user")
            .agg(n=rr.count())
        )
    assert str(caught.value) == (
        f"{HERE}:{start + 4}: there is no column 'amout' in 'amout > 10'. Did you mean 'amount'?"
    )
    assert caught.value.hint == "Did you mean 'amount'?"


def test_a_call_inside_a_function_of_the_user_names_that_function(flow: Flow) -> None:
    def big(rows):  # type: ignore[no-untyped-def]
        return rows.where("amount")  # the line that is named

    with pytest.raises(Invalid) as caught:
        big(flow.stream("orders", "user string, amount double"))
    assert str(caught.value).startswith(f"{HERE}:{big.__code__.co_firstlineno + 1}: 'amount' is double, not boolean")


def test_aggregates_and_windows_name_their_line_too() -> None:
    with pytest.raises(Invalid) as caught:
        rr.quantile("amount", 2)
    assert str(caught.value) == f"{HERE}:{line() - 1}: a quantile lies between 0 and 1, not 2"
