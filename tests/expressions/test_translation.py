"""What is in the verified set, what is not, and what is evaluated for which rows."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from riverrun import ddl
from riverrun.ddl import Type
from riverrun.expressions import Translated, Unverified, connect, translate
from riverrun.expressions.forms import HINT, UNKNOWN_HINT

TYPES = {
    column.name: column.type
    for column in ddl.parse(
        "s string, t string, i int, l bigint, d double, m decimal(10,2), b boolean, w timestamp, y date, "
        "`is` array<int>, p struct<x:bigint,name:string>"
    )
}
ROW: dict[str, Any] = {
    "s": "Ab c",
    "t": "12",
    "i": 7,
    "l": 2**40,
    "d": 2.675,
    "m": Decimal("12.35"),
    "b": True,
    "w": datetime(2024, 2, 29, 12, 34, 56, 789000, UTC),
    "y": date(2024, 2, 29),
    "is": [1, None, 3],
    "p": {"x": 5, "name": "ada"},
}


def column_type(column: Any) -> Type | None:
    """The type of a column, or of a field of the struct `p`."""
    if [part.name for part in column.parts] == ["p", "x"]:
        return ddl.Scalar("bigint")
    return TYPES.get(column.name)


def translated(sql: str) -> Translated:
    return translate(sql, column_type)


def value(sql: str, **changed: Any) -> Any:
    schema = pa.schema([(name, ddl.to_arrow(kind)) for name, kind in TYPES.items()])
    db = connect()
    db.register("rows", pa.Table.from_pylist([{**ROW, **changed}], schema=schema))
    return db.sql(f"SELECT {translated(sql).sql} FROM rows").to_arrow_table().column(0)[0].as_py()


@pytest.mark.parametrize(
    ("sql", "kind", "expected"),
    [
        ("i + 1", "int", 8),
        ("i / 2", "double", 3.5),
        ("i div 2", "bigint", 3),
        ("-i % 3", "int", -1),
        ("pmod(-i, 3)", "int", 2),
        ("m * 1.1", "decimal(13,3)", Decimal("13.585")),
        ("m / 3", "decimal(14,6)", Decimal("4.116667")),
        ("round(d, 2)", "double", 2.68),
        ("cast(cast(2147483647 as float) as double)", "double", 2147483648.0),
        ("s || t", "string", "Ab c12"),
        ("t = 12", "boolean", True),
        ("upper('straße' || s)", "string", "STRASSEAB C"),
        ("lower('ΟΔΥΣΣΕΥΣ' || '')", "string", "οδυσσευς"),
        ("substring(s, -2, 5)", "string", " c"),
        ("split_part('a/b/' || s, '/', 3)", "string", "Ab c"),
        ("regexp_extract(s, '([a-z]) (.)', 2)", "string", "c"),
        ("regexp_replace(s, '[bc]', '<$0>')", "string", "A<b> <c>"),
        ("s like 'A_ %'", "boolean", True),
        ("s ilike 'aB%'", "boolean", True),
        ("date_format(w, 'dd.MM.yyyy HH:mm')", "string", "29.02.2024 12:34"),
        ("date_trunc('hour', w)", "timestamp", datetime(2024, 2, 29, 12, tzinfo=UTC)),
        ("add_months(y, 12)", "date", date(2025, 2, 28)),
        ("w + interval 1 day", "timestamp", datetime(2024, 3, 1, 12, 34, 56, 789000, UTC)),
        ("timestamp_micros(l)", "timestamp", datetime(1970, 1, 13, 17, 25, 11, 627776, UTC)),
        ("unix_millis(w)", "bigint", 1709210096789),
        ("to_date(concat('01.', t, '.2024'), 'dd.MM.yyyy')", "date", date(2024, 12, 1)),
        ("cast(concat('2024-03-', t) as date)", "date", date(2024, 3, 12)),
        ("p.x + 1", "bigint", 6),
        ("`is`[0]", "int", 1),
        ("size(`is`)", "int", 3),
        ("coalesce(`is`[1], i)", "int", 7),
        ("case when b then 'yes' else 'no' end", "string", "yes"),
        ("greatest(i, d, m)", "double", 12.35),
        ("array(i, 2)", "array<int>", [7, 2]),
        ("named_struct('a', i)", "struct<a:int>", {"a": 7}),
    ],
)
def test_forms(sql: str, kind: str, expected: Any) -> None:
    assert (str(translated(sql).type), value(sql)) == (kind, expected)


@pytest.mark.parametrize(
    ("sql", "part"),
    [
        ("upper(concat(s, hash(t)))", "hash(t)"),
        ("i + length(from_json(s, 'x int'))", "from_json(s, 'x int')"),
        ("transform(`is`, x -> x + 1)", "transform(`is`, x -> x + 1)"),
        ("cast(d as string)", "double to string"),
        ("s like t", "s like t"),
        ("rand() < 0.5", "rand()"),
        ("s rlike '(?<=a)b'", "(?<"),
        ("s rlike '[a&&b]'", "'&'"),
        ("date_format(w, 'e')", "date_format(w, 'e')"),
        ("nothing + 1", "nothing"),
        ("i +", "at its end"),
        ("cast('x' as int) + i", "a cast of 'x' to int"),
        ("coalesce('x', s) = i", "a cast of 'x' to bigint"),
        ("try_cast(coalesce('x', s) as decimal(5, 1)) / cast(t as decimal(14, 4))", "try_cast(coalesce('x', s)"),
        ("t = nullif(try_cast('a%b' as double), d)", "nullif(try_cast('a%b' as double), d)"),
        ("coalesce(md5('x'), s) = i", "coalesce(md5('x'), s)"),
        ("y = replace(named_struct('x', i, 'name', 'it').name, 'a')", "a cast of replace('it', 'a', '') to date"),
        ("to_date(coalesce('x', s), 'dd.MM.yyyy') = y", "to_date(coalesce('x', s), 'dd.MM.yyyy')"),
        ("i * dayofweek(date'1969-12-31') * 2147483647", "i * dayofweek(date'1969-12-31')"),
    ],
)
def test_what_is_refused_is_named_as_small_as_it_is(sql: str, part: str) -> None:
    with pytest.raises(Unverified) as refused:
        translated(sql)
    assert part in refused.value.message
    assert refused.value.hint in (HINT, UNKNOWN_HINT)


@pytest.mark.parametrize(
    ("sql", "row"),
    [
        ("i + 1", {"i": 2**31 - 1}),
        ("l * 2", {"l": 2**62}),
        ("-i", {"i": -(2**31)}),
        ("1 / i", {"i": 0}),
        ("i % i", {"i": 0}),
        ("cast(t as int)", {"t": "tea"}),
        ("cast(d as int)", {"d": 3e9}),
        ("cast(m as decimal(3,2))", {}),
        ("`is`[i]", {}),
        ("cast(t as timestamp)", {"t": "2023-02-29"}),
        ("timestamp_millis(l)", {"l": 2**62}),
        ("log(d, -i)", {"d": -1.0, "i": -(2**31)}),
        ("log(-i, d)", {"d": -1.0, "i": -(2**31)}),
        ("add_months(y, i)", {"i": 2**31 - 1}),
        ("y - interval 1 month * i", {"i": -(2**31)}),
    ],
)
def test_what_fails_in_spark_fails(sql: str, row: dict[str, Any]) -> None:
    assert translated(sql).may_fail
    with pytest.raises(duckdb.Error):
        value(sql, **row)


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("case when i = 0 then 0 else 1 / i end", 0.0),
        ("if(i <> 0, 1 / i, -1)", -1.0),
        ("i = 0 or 1 / i > 0", True),
        ("i <> 0 and 1 / i > 0", False),
        ("coalesce(l, 1 / i)", float(2**40)),
        ("nullif(i, 0) / 2 + 1 / i", None),
        ("try_cast(s as int)", None),
    ],
)
def test_what_spark_does_not_evaluate_does_not_fail(sql: str, expected: Any) -> None:
    assert value(sql, i=0) == expected


@pytest.mark.parametrize("unit", ["year", "quarter", "month", "week"])
@pytest.mark.parametrize("text", ["610012-08-31", "-290000-02-28", "2024-02-29", "0000-12-31"])
def test_dates_reach_further_than_timestamps(unit: str, text: str) -> None:
    """NumPy has the same calendar, in all years."""
    days = np.datetime64(text).astype(int)
    month = np.datetime64(text, "M")
    weekday = (days + 3) % 7
    starts = {
        "year": np.datetime64(text, "Y"),
        "quarter": month - month.astype(int) % 3,
        "month": month,
        "week": np.datetime64(text) - weekday,
    }
    assert value(f"unix_date(trunc(s, '{unit}'))", s=text) == starts[unit].astype("M8[D]").astype(int)


@pytest.mark.parametrize(("text", "months"), [("610012-08-31", 6), ("-290000-03-31", -1), ("2024-01-31", 5_000_001)])
def test_months_are_added_in_far_years(text: str, months: int) -> None:
    month = np.datetime64(text, "M") + months
    last = (month + 1).astype("M8[D]").astype(int) - 1
    first = month.astype("M8[D]").astype(int)
    day = int(text[-2:]) - 1
    assert value("unix_date(add_months(s, i))", s=text, i=months) == min(first + day, last)
    assert value("unix_date(cast(s as date) - interval 1 month * i)", s=text, i=-months) == min(first + day, last)


def test_a_power_of_null_is_null() -> None:
    assert value("pow(d, cast('NaN' as double))", d=None) is None


@pytest.mark.parametrize(
    "sql", ["d + 1", "s = t", "upper(s)", "split_part(s, '/', 2)", "date_format(w, 'yyyy')", "p.x"]
)
def test_what_cannot_fail_says_so(sql: str) -> None:
    assert not translated(sql).may_fail


def test_connections_have_tables_of_their_own_and_are_in_utc() -> None:
    one, other = connect(), connect()
    one.register("rows", pa.table({"n": [1]}))
    with pytest.raises(duckdb.CatalogException):
        other.sql("FROM rows")
    assert other.sql("SELECT current_setting('TimeZone'), current_setting('threads')").fetchall() == [("UTC", 1)]
