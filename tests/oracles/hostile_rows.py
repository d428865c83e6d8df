"""Rows with the values that computations get wrong: ends of ranges, NaN, leap days, strange characters, nulls."""

from __future__ import annotations

import random
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

DDL = (
    "t tinyint, h smallint, i int, j int, l bigint, k bigint, f float, d double, e double, "
    "m decimal(10,2), n decimal(38,10), q decimal(20,0), z decimal(5,5), s string, u string, v string, b boolean, c boolean, "
    "w timestamp, x timestamp, a timestamp_ntz, y date, o date, bin binary, `is` array<int>, ss array<string>, "
    "p struct<x:bigint,name:string>, mp map<string,int>"
)

_TINY = [0, 1, -1, 2, 7, 127, -128, 31]
_SMALL = [0, 1, -1, 32767, -32768, 100, -7]
_INT = [0, 1, -1, 2, 3, -7, 13, 100, 2147483647, -2147483648, 1700000000, 86399]
_LONG = [0, 1, -1, 5, -13, 2**53 + 1, 9223372036854775807, -9223372036854775808, 10**12, 1700000000, -(10**15)]
_DOUBLE = [0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -2.5, 2.675, 1.005, 0.1, 1e-3, 1e15, -123456.789, 1e308, -1e308, 5e-324]
_DOUBLE += [
    float("nan"),
    float("inf"),
    float("-inf"),
    2.0**63,
    -(2.0**63),
    2147483647.5,
    1.7e9,
    0.045,
    9007199254740993.0,
]
_FLOAT = [0.0, -0.0, 1.5, -2.5, 0.1, 3.4e38, 1e-45, float("nan"), float("inf"), float("-inf"), 2.0**63, 16777217.0]
_CENTS = ["0.00", "0.01", "-0.05", "1.00", "12.35", "99999999.99", "-99999999.99", "0.50", "2.45"]
_WIDE = ["0", "0.0000000001", "-1.5", "9999999999999999999999999999.9999999999", "123456789.987654321", "1", "-0.5"]
_WHOLE = ["0", "1", "-1", "99999999999999999999", "-99999999999999999999", "9223372036854775808", "12"]
_FRACTION = ["0.00000", "0.00001", "-0.99999", "0.50000", "0.12345"]
_TEXT = ["", " ", "a", "abc", "ABC", "tea time", "a,b,c", ",,", "a%b_c", "a\\b", "it's", "x1y22", "a-b c", "AbÇ dÉ"]
_TEXT += [
    "ß",
    "İ",
    "ﬁ",
    "ΟΔΥΣΣΕΥΣ",
    "e\u0301",
    "👨‍👩‍👧",
    "🇩🇪a",
    "a\0b",
    "a\n",
    "b\r\n",
    "x\u2028",
    "\u00a0x\u00a0",
    "\tq ",
    "ａ",
    "K",
]
_TEXT += ["aXc\nAbc", "é", "Éa", "xxaxx", "a.b.c", "12ab", "  lead", "z" * 40, "\ufeffa", "𐐀𐐨", "\x7f1\x1f"]
_LIKE_VALUES = [
    "12",
    "-7",
    "+4",
    " 12 ",
    "1e3",
    "0x1F",
    "1.5",
    "-0",
    ".5",
    "5.",
    "NaN",
    "Infinity",
    "-inf",
    "1d",
    "1_000",
]
_LIKE_VALUES += [
    "true",
    "T",
    " no ",
    "99999999999",
    "9223372036854775808",
    "1e400",
    "-1e-400",
    "0.045",
    "\t7\n",
    "٣",
    "",
]
_LIKE_VALUES += ["2024-02-29", "2023-02-29", "2024-2-9", "2024", "2024-06", "10000-01-01", "0000-01-01", "-0001-01-01"]
_LIKE_VALUES += ["2024-02-29 12:34:56", "2024-02-29T12:34:56.1234567Z", "2024-02-29 25:00:00", "2024-02-29 1:2:3.4"]
_LIKE_VALUES += [
    "2024-07-01 12:00:00+02:00",
    "2024-07-01 12:00:00 Europe/Berlin",
    "2024-07-01 12:00:00UTC+1",
    " 2024-02-29 ",
]
_LIKE_VALUES += [
    "29.02.2024",
    "31.12.9999",
    "2024-02-29T12:34",
    "1969-12-31 23:59:59.999999",
    "9999-12-31 23:59:59",
    "123.455",
]
_DATES = [date(1, 1, 1), date(1, 1, 3), date(1582, 10, 10), date(1900, 2, 28), date(1969, 12, 31), date(1970, 1, 1)]
_DATES += [
    date(2000, 2, 29),
    date(2024, 2, 29),
    date(2024, 12, 30),
    date(2026, 1, 31),
    date(2262, 4, 12),
    date(9999, 12, 31),
]
_MOMENTS = [datetime(1, 1, 1), datetime(1, 1, 1, 23, 59, 59, 1), datetime(1582, 10, 14, 12), datetime(1899, 12, 31, 23)]
_MOMENTS += [
    datetime(1969, 12, 31, 23, 59, 59, 999999),
    datetime(1970, 1, 1),
    datetime(2024, 2, 29, 12, 34, 56, 789012),
]
_MOMENTS += [
    datetime(2026, 3, 29, 1, 30),
    datetime(2262, 4, 11, 23, 47, 16, 854776),
    datetime(9999, 12, 31, 23, 59, 59, 999999),
]
_MOMENTS += [datetime(2000, 1, 1, 0, 0, 0, 500000), datetime(2026, 12, 31, 6, 7, 8, 90)]


class _Values:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(f"rows {seed}")

    def some(self, pool: list[Any], other: Any = None) -> Any:
        """Null, one of the pool, or something random."""
        chance = self.random.random()
        if chance < 0.12:
            return None
        return self.random.choice(pool) if other is None or chance < 0.75 else other()

    def row(self) -> dict[str, Any]:
        return {
            "t": self.some(_TINY),
            "h": self.some(_SMALL),
            **{name: self.some(_INT, lambda: self.random.randint(-1000, 1000)) for name in "ij"},
            **{name: self.some(_LONG, lambda: self.random.randint(-(10**10), 10**10)) for name in "lk"},
            "f": self.some(_FLOAT),
            **{name: self.some(_DOUBLE, self.double) for name in "de"},
            "m": self.decimal(_CENTS, 10, 2),
            "n": self.decimal(_WIDE, 38, 10),
            "q": self.decimal(_WHOLE, 20, 0),
            "z": self.decimal(_FRACTION, 5, 5),
            **{name: self.some(_TEXT) for name in "su"},
            "v": self.some(_LIKE_VALUES),
            **{name: self.some([True, False]) for name in "bc"},
            **{name: self.some(_MOMENTS, self.moment) for name in "wxa"},
            **{name: self.some(_DATES, lambda: self.moment().date()) for name in "yo"},
            "bin": self.some([b"", b"abc", b"\x00\xff", "é".encode()]),
            "is": self.some([[], [1], [1, None, 3], [None], [2147483647, -1, 0, 5]]),
            "ss": self.some([[], ["a"], [None, "é", ""]]),
            "p": self.some([{"x": 1, "name": "ada"}, {"x": None, "name": ""}, {"x": -(2**63), "name": None}]),
            "mp": self.some([[], [("a", 1)], [("b", None), ("a", 2147483647)], [("", 3)]]),
        }

    def double(self) -> float:
        digits = self.random.randint(0, 6)
        return round(self.random.uniform(-1000, 1000), digits)

    def decimal(self, pool: list[str], precision: int, scale: int) -> Decimal | None:
        most = 10 ** min(precision, self.random.randint(1, precision)) - 1
        random_one = f"{self.random.randint(-most, most)}e-{scale}"
        text = self.some(pool, lambda: random_one)
        return None if text is None else Decimal(text)

    def moment(self) -> datetime:
        return datetime(1970, 1, 1) + timedelta(microseconds=self.random.randint(-(10**16), 10**17))


def hostile_rows(seed: int, count: int, schema: pa.Schema) -> pa.Table:
    """So many rows of `schema`, which is that of `DDL`; timestamps are in UTC."""
    values = _Values(seed)
    rows = []
    for _ in range(count):
        row = values.row()
        rows.append({**row, **{name: row[name] and row[name].replace(tzinfo=UTC) for name in "wx"}})
    return pa.Table.from_pylist(rows, schema=schema)
