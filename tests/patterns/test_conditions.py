"""Conditions across the rows of a match: what they compute, and which are refused."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

import riverrun as rr
from riverrun.errors import Invalid
from riverrun.testing import run_flow

SCHEMA = "x bigint, y double, s string, at timestamp"


def at(second: int) -> datetime:
    return datetime(2026, 1, 31, 12, tzinfo=UTC) + timedelta(seconds=second)


def holds(condition: str, first: dict[str, Any], second: dict[str, Any], schema: str = SCHEMA) -> bool:
    """Whether a condition on `b` is true of the second of two rows, the first of which is `a`."""
    flow = rr.Flow("f")
    rows = flow.stream("rows", schema, time="at")
    flow.view("found", rows.match("a b", define={"b": condition}))
    return bool(
        run_flow(flow, [{"rows": [{"at": at(0), **first}, {"at": at(1), **second}]}], partitions=1).views["found"]
    )


@pytest.mark.parametrize("value", ["a.x", "prev(x)"])
@pytest.mark.parametrize("many", [1, 40, 300])
def test_a_case_with_many_whens(value: str, many: int) -> None:
    whens = " ".join(f"when {value} = {number} then x = {number + 1}" for number in range(100, 100 + many))
    case = f"case {whens} when {value} = 1 then x = 2 else x = 7 end"
    assert holds(case, {"x": 1}, {"x": 2})
    assert not holds(case, {"x": 1}, {"x": 3})
    assert holds(case, {"x": 99 + many}, {"x": 100 + many})
    assert holds(case, {"x": None}, {"x": 7})


def test_what_would_have_too_many_values_open_at_once_is_refused() -> None:
    condition = "x = " + "".join(f"{number} - (" for number in range(1200)) + "a.x" + ")" * 1200
    with pytest.raises(Invalid):
        holds(condition, {"x": 1}, {"x": 1})


@pytest.mark.parametrize(
    "condition",
    [
        "(" * 60 + "x > a.x" + ")" * 60,
        "x = " + " + ".join(["a.x"] * 500),
        "abs(" * 60 + "x" + ")" * 60 + " > 1",
        "not " * 400 + "x > a.x",
    ],
)
def test_what_is_nested_too_deep_is_refused_with_a_caret(condition: str) -> None:
    with pytest.raises(Invalid, match=r"(?s)brackets are open|stand in a row|nested too deep"):
        holds(condition, {"x": 1}, {"x": 1})


def test_a_thousand_alternatives_are_not_deep() -> None:
    condition = " or ".join(f"x = prev(x) + {number}" for number in range(1000))
    assert holds(condition, {"x": 1}, {"x": 1000})
    assert not holds(condition, {"x": 1}, {"x": 1001})


@pytest.mark.parametrize("value", ["prev(x, {})", "last(a.x, {})", "first(a.x, {})"])
def test_a_row_that_is_too_far_away_is_refused(value: str) -> None:
    for far in ("10001", "9" * 30):
        with pytest.raises(Invalid, match="more than 10000"):
            holds(f"x > {value.format(far)}", {"x": 1}, {"x": 1})


def test_a_case_that_compares_one_value() -> None:
    assert holds("case a.x when 1 then x = 2 when 3 then x = 4 else false end", {"x": 3}, {"x": 4})
    assert not holds("case a.x when 1 then x = 2 when 3 then x = 4 else false end", {"x": 1}, {"x": 4})
    assert holds("case x when a.x + 1 then true end", {"x": 1}, {"x": 2})


WIDE = "d decimal(10,2), e decimal(5,3), w decimal(30,2), x bigint, y double, s string, arr array<int>, dt date, at timestamp"
LARGE = 9_223_372_036_854_775_807
FIRST = {"d": Decimal(-3), "x": 1, "w": Decimal("1e20"), "arr": [1], "y": math.nan, "dt": date(1960, 1, 1)}


@pytest.mark.parametrize(
    ("condition", "second", "expected"),
    [
        ("-max(a.d) = d", {"d": 3}, True),
        ("-max(d) < d", {"d": 2}, True),
        ("abs(min(d)) = d", {"d": 3}, True),
        ("abs(coalesce(a.d, d)) = prev(d)", {"d": 2}, False),
        ("d = a.d * -1.1", {"d": Decimal("3.30")}, True),
        ("d > a.d * -1.1", {"d": Decimal("3.30")}, False),
        ("d + a.d = 0.3", {"d": Decimal("3.30")}, True),
        ("x > a.d", {"x": LARGE}, True),
        ("x < a.d", {"x": -LARGE}, True),
        ("x = a.d", {"x": -3}, True),
        ("e > a.d", {"e": Decimal("1.5")}, True),
        ("e * a.d = -4.5", {"e": Decimal("1.5")}, True),
        ("sum(d) = -1 and avg(d) = -0.5", {"d": 2}, True),
        ("a.d / d = -1.5", {"d": 2}, True),
        ("y > a.d", {"y": 1.5}, True),
        ("d in (a.d, 5)", {"d": 5}, True),
        ("d between a.d and 0.5", {"d": Decimal("0.5")}, True),
        ("case when a.d < 0 then a.d else 0 end = -3", {}, True),
        ("w = a.w", {"w": Decimal("1e20")}, True),
        ("w = a.w", {"w": Decimal("100000000000000000000.01")}, False),
        ("w > a.w", {"w": Decimal("100000000000000000000.01")}, True),
        ("max(w) > 1 and coalesce(a.w, w) > 5", {"w": 1}, True),
    ],
)
def test_decimals(condition: str, second: dict[str, Any], expected: bool) -> None:
    assert holds(condition, FIRST, second, WIDE) is expected


@pytest.mark.parametrize(
    ("condition", "second", "expected"),
    [
        ("isnan(a.y) and isnan(a.y + y)", {"y": 1.0}, True),
        ("isnan(prev(y, 5))", {}, False),
        ("greatest(x, a.x) = 2 and least(a.x, 5, x, null) = 1", {"x": 2}, True),
        ("greatest(a.y, y) > 1e300 and least(a.y, y) = 2", {"y": 2.0}, True),
        ("greatest(a.s, s) = 'b'", {"s": "b"}, True),
        ("nullif(a.x, 1) is null and nullif(a.x, x) = 1", {"x": 3}, True),
        ("datediff(at, a.at) = 1", {"at": at(86_400)}, True),
        ("datediff(dt, a.dt) = -1", {"dt": date(1959, 12, 31)}, True),
        ("timestampdiff(second, a.at, at) = 61", {"at": at(61)}, True),
        ("timestampdiff(minute, at, a.at) = -1", {"at": at(119)}, True),
        ("x" + " - a.x" * 40 + " = -40", {"x": 0}, True),
        ("count(arr) = 2 and count(a.arr) = 1", {"arr": []}, True),
        ("count(arr) = 1 and a.arr is not null and prev(arr, 2) is null", {}, True),
    ],
)
def test_functions_of_several_rows(condition: str, second: dict[str, Any], expected: bool) -> None:
    assert holds(condition, FIRST, second, WIDE) is expected


@pytest.mark.parametrize("condition", ["max(arr) is null", "arr = a.arr", "d % a.d = 1", "concat(a.s, s) = 'x'"])
def test_what_has_no_answer_is_refused(condition: str) -> None:
    with pytest.raises(Invalid, match="b: "):
        holds(condition, FIRST, {}, WIDE)


def test_nested_columns_in_measures_are_counted_and_not_compared() -> None:
    flow = rr.Flow("f")
    rows = flow.stream("rows", "arr array<int>, st struct<q: int>, at timestamp", time="at")
    flow.view("found", rows.match("a b", measures={"n": "count(arr)", "m": "count(b.st)"}))
    given = [{"arr": [1], "st": {"q": 1}, "at": at(0)}, {"arr": None, "st": {"q": 2}, "at": at(1)}]
    (found,) = run_flow(flow, [{"rows": given}]).views["found"]
    assert (found["n"], found["m"]) == (1, 1)
    for measure in ("max(arr)", "min(a.st)"):
        with pytest.raises(Invalid, match="has no order"):
            rows.match("a b", measures={"q": measure})
