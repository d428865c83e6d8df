"""SQL without Spark: what is known to mean the same runs in DuckDB, the rest is refused. Compared in tests/spark."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from oracles.expressions import COLUMNS, ROWS, SQL, UNKNOWN
from riverrun.errors import Invalid
from riverrun.expressions import Unverified
from riverrun.expressions.forms import HINT, UNKNOWN_HINT
from riverrun.testing.projection import compute

TABLE = pa.Table.from_pylist(ROWS, schema=COLUMNS)
KNOWN = {
    "cast(d as int)": [2, -2, 0, None, 1],
    "round(d, 2)": [2.68, -2.5, 0.5, None, 1.01],
    "l / 2": [5e11, -2.5, 1.5, None, 2.0],
    "i div 2": [3, -3, 1, None, 1],
    "i % 3": [1, -1, 2, None, 0],
    "concat(s, '-', t)": ["tea time-12", "- -7 ", "Ünïcode-0", None, "a%b_c-+4"],
    "greatest(d, e)": [2.675, -2.5, 0.5, None, 8.5],
    "cast(w as bigint)": [1772360430, -1, 1709164800, None, 1798419723],
    "cast(w as string)": [
        "2026-03-01 10:20:30.5",
        "1969-12-31 23:59:59.999999",
        "2024-02-29 00:00:00",
        None,
        "2026-12-28 01:02:03",
    ],
    "m * 1.1": [Decimal("13.585"), Decimal("-0.055"), Decimal("1.100"), None, Decimal("109999999.989")],
    "date_trunc('hour', w)": [
        datetime(2026, 3, 1, 10, tzinfo=UTC),
        datetime(1969, 12, 31, 23, tzinfo=UTC),
        datetime(2024, 2, 29, tzinfo=UTC),
        None,
        datetime(2026, 12, 28, 1, tzinfo=UTC),
    ],
    "p.x": [3, None, None, None, -1],
    "CASE WHEN d > 1 THEN 'big' WHEN d > 0 THEN 'small' END": ["big", None, "small", None, "big"],
}


@pytest.mark.parametrize("sql", KNOWN)
def test_values(sql: str) -> None:
    assert compute([sql], TABLE).column(0).to_pylist() == KNOWN[sql]


@pytest.mark.parametrize("sql", SQL)
def test_everything_known_runs(sql: str) -> None:
    assert compute([sql], TABLE).num_rows == len(ROWS)


@pytest.mark.parametrize("sql", UNKNOWN)
def test_what_only_spark_knows_is_refused(sql: str) -> None:
    with pytest.raises(Unverified, match=r"verified set") as refused:
        compute([sql], TABLE)
    assert refused.value.hint in (HINT, UNKNOWN_HINT)


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("l / (i - i)", "division by zero"),
        ("i % 0", "(?i)division by zero"),
        ("cast(s as int)", "not a whole number"),
        ("i + 2147483647", "(?i)overflow|out of range"),
    ],
)
def test_what_fails_in_spark_fails(sql: str, why: str) -> None:
    with pytest.raises(Invalid, match=why):
        compute([sql], TABLE)


def test_rows_keep_their_order() -> None:
    many: list[Any] = [{"i": number} for number in range(5000)]
    table = pa.Table.from_pylist(many, schema=pa.schema([COLUMNS.field("i")]))
    assert compute(["i + 1"], table).column(0).to_pylist() == list(range(1, 5001))


@pytest.mark.parametrize(
    ("sql", "given", "wanted"),
    [
        ("upper(s)", "ß ﬁ", "SS FI"),
        ("lower(s)", "\u0130", "i\u0307"),
        ("s ilike 'i%'", "\u0130", True),
        ("trim(s)", "\u00a0a ", "\u00a0a"),
        ("reverse(s)", "e\u0301!", "!\u0301e"),
    ],
)
def test_odd_letters_and_spaces_are_what_spark_makes_of_them(sql: str, given: str, wanted: object) -> None:
    """Letters with several capitals, a space that is none for Spark, and signs that combine."""
    table = pa.table({"s": [given]})
    assert compute([sql], table).column(0).to_pylist() == [wanted]
