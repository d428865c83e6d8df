"""Conditions given as strings."""

from __future__ import annotations

import pytest

from riverrun.errors import Invalid
from riverrun.views.sql.conditions import condition

COLUMNS = ["user", "Amount", "date", "and", 'odd "one']


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("user = 'x'", "\"user\" = 'x'"),
        ("USER IS NULL AND amount > 1e3", '"user" IS NULL AND "Amount" > 1e3'),
        ("date > '2026-01-01'", "\"date\" > '2026-01-01'"),
        ("date(date) = date ('2026-01-01')", "date(\"date\") = date ('2026-01-01')"),
        ('"odd ""one" = \'user; -- drop\'', '"odd ""one" = \'user; -- drop\''),
        ("(user, amount) in (('a', 1))", '("user", "Amount") in ((\'a\', 1))'),
        ("raw = x'00ff'", "raw = x'00ff'"),
    ],
)
def test_columns_are_quoted_and_the_rest_stays(where, expected):
    assert condition(where, COLUMNS) == expected


@pytest.mark.parametrize(
    "where",
    [
        "",
        " ",
        "a; b",
        "a)",
        "(a",
        "a) or (b",
        "a -- b",
        "a /* b */",
        "a = 'x",
        'a = "x',
        "E'\\''",
        "$1",
        "$$x$$",
        "a in (SELECT 1)",
        "exists(select 1)",
        "with x",
        "a = 1 \0",
        "a \\ b",
        "`a",
    ],
)
def test_anything_but_one_expression_is_refused(where):
    with pytest.raises(Invalid, match="not one condition"):
        condition(where, COLUMNS)
