"""Values in SQL for SQLite: what becomes what a column is shown as, and what stays as it was written."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from riverrun.views import ViewSpec
from riverrun.views.sql.sqlite_values import bound, shown, written

VIEW = ViewSpec("v", "shop", "k bigint, at timestamp, said string", ("k",))
AT = datetime(2026, 1, 1, 0, 0, 2, tzinfo=UTC)


@pytest.mark.parametrize(
    "sql",
    [
        "select '2026-01-01T00:00:02Z' from v",
        "select * from v where said = '2026-01-01T00:00:02Z'",
        "select * from v where at > datetime('2026-01-01T00:00:02Z')",
        "select * from v where at > '2026-13-01T00:00:02Z'",
        "select * from v where at > '2026-01'",
        "select * from nowhere where at > '2026-01-01T00:00:02Z'",
        "select * from v where at > '2026-01-01T00:00:02Z' selekt (",
        "select * from v where at > '2026-01-01T00:00:02Z",
        "insert into v values ('2026-01-01T00:00:02Z')",
        "select 1; select * from v where at > '2026-01-01T00:00:02Z'",
    ],
)
def test_what_is_not_compared_with_a_time_stays_as_it_is(sql: str) -> None:
    assert written(sql, (), lambda: [VIEW]) == (sql, [])


def test_only_the_literal_changes() -> None:
    sql = (
        "SELECT  k FROM v /* '2026-01-01T00:00:02Z' */ WHERE At>='2026-01-01T00:00:02Z'AND said='2026-01-01T00:00:02Z'"
    )
    expected = sql.replace("At>='2026-01-01T00:00:02Z'", "At>='2026-01-01 00:00:02'")
    assert written(sql, (), lambda: [VIEW]) == (expected, [])


def test_parameters_by_name_or_number() -> None:
    assert written("select :at", {"at": AT}, lambda: [VIEW])[1] == {"at": "2026-01-01 00:00:02"}
    assert written("select * from v where at = ?1", [AT], lambda: [VIEW])[1] == ["2026-01-01 00:00:02"]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Decimal("9.99"), 9.99),
        (Decimal("7.0"), 7),
        (Decimal(10**17 + 1), 10**17 + 1),
        (Decimal("1e30"), 1e30),
        (Decimal("NaN"), "NaN"),
        (Decimal("-Infinity"), float("-inf")),
        (float("nan"), "NaN"),
        (True, True),
        (b"x", b"x"),
        (None, None),
    ],
)
def test_parameters(value: Any, expected: Any) -> None:
    made = bound(value)
    assert (made, type(made)) == (expected, type(expected))


def test_times_are_shown_in_one_form() -> None:
    assert shown(AT.replace(microsecond=250_000)) == "2026-01-01 00:00:02.25"
    assert shown(datetime(1, 1, 1)) == "0001-01-01 00:00:00"
