"""Rows: every type and every kind of input comes back as it was; what cannot be kept exactly is refused by name."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from contracts.conftest import Log
from riverrun.errors import Invalid, RecordTooLarge

EVERY_TYPE = """
    s string, b boolean, t tinyint, h smallint, i int, l bigint, f float, d double, day date, at timestamp,
    wall timestamp_ntz, raw binary, price decimal(10,2), big decimal(38,18),
    tags array<string>, deep array<array<int>>, counts map<string,bigint>, by_day map<date,double>,
    place struct<lat:double,lon:double,name:string>, visits array<struct<at:timestamp,cost:decimal(6,2)>>
"""
FULL: dict[str, Any] = {
    "s": "naïve 🌊 \x00 text",
    "b": True,
    "t": -128,
    "h": 32767,
    "i": -(2**31),
    "l": 2**63 - 1,
    "f": 0.5,
    "d": 0.1,
    "day": date(1, 1, 1),
    "at": datetime(2024, 2, 29, 23, 59, 59, 999_999, tzinfo=UTC),
    "wall": datetime(1969, 12, 31, 23, 59, 59, 1),
    "raw": bytes(range(256)),
    "price": Decimal("-12345678.90"),
    "big": Decimal("12345678901234567890.123456789012345678"),
    "tags": ["a", None, ""],
    "deep": [[1, 2], [], None],
    "counts": {"x": 1, "y": None},
    "by_day": {date(2024, 1, 1): 0.25},
    "place": {"lat": 1.5, "lon": None, "name": "Rom"},
    "visits": [{"at": datetime(2024, 1, 1, tzinfo=UTC), "cost": Decimal("1.20")}, None],
}
SECOND: dict[str, Any] = {
    **FULL,
    "s": "",
    "b": False,
    "l": -(2**63),
    "f": -math.inf,
    "d": math.nan,
    "day": date(9999, 12, 31),
    "at": datetime(1, 1, 1, tzinfo=UTC),
    "raw": b"",
    "tags": [],
    "counts": {},
}
EMPTY = dict.fromkeys(FULL)


def plain(table: pa.Table) -> list[dict[str, Any]]:
    """Rows as they were given: maps as dicts, times in UTC, NaN as a text, because it is not equal to itself."""

    def value(found: Any) -> Any:
        if isinstance(found, datetime):
            return found.astimezone(UTC) if found.tzinfo else found
        if isinstance(found, list):
            if found and all(isinstance(item, tuple) for item in found):
                return {k: value(v) for k, v in found}
            return [value(item) for item in found]
        if isinstance(found, dict):
            return {k: value(v) for k, v in found.items()}
        return "nan" if isinstance(found, float) and math.isnan(found) else found

    return [{name: value(v) for name, v in row.items()} for row in table.to_pylist()]


def expected(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    # An empty map reads as an empty list in Python.
    return [
        {n: [] if v == {} else "nan" if isinstance(v, float) and math.isnan(v) else v for n, v in row.items()}
        for row in rows
    ]


ROWS = [FULL, EMPTY, SECOND]


def test_every_type_from_dicts(log: Log) -> None:
    topic = log.topic(schema=EVERY_TYPE, partitions=1)
    topic.append(ROWS)
    assert plain(topic.read().select(list(FULL))) == expected(ROWS)


def test_every_type_from_a_single_dict(log: Log) -> None:
    topic = log.topic(schema=EVERY_TYPE, partitions=1)
    topic.append(FULL)
    topic.append({})
    assert plain(topic.read().select(list(FULL))) == expected([FULL, EMPTY])


def test_every_type_through_a_producer(log: Log) -> None:
    topic = log.topic(schema=EVERY_TYPE, partitions=1)
    with topic.producer() as producer:
        for row in ROWS:
            producer.send(row)
    assert plain(topic.read().select(list(FULL))) == expected(ROWS)


@pytest.mark.parametrize("kind", ["table", "batch", "chunks", "sliced"])
def test_every_type_from_arrow(log: Log, kind: str) -> None:
    topic = log.topic(schema=EVERY_TYPE, partitions=1)
    table = pa.Table.from_pylist(ROWS, topic.schema)
    given = {
        "table": table,
        "batch": table.to_batches()[0],
        "chunks": pa.concat_tables([table.slice(0, 1), table.slice(1)]),
        "sliced": pa.concat_tables([table, table]).combine_chunks().slice(3),
    }[kind]
    topic.append(given)
    assert plain(topic.read().select(list(FULL))) == expected(ROWS)


def test_from_polars(log: Log) -> None:
    schema = "s string, b boolean, i int, l bigint, f float, d double, day date, at timestamp, raw binary, \
              tags array<string>, price decimal(10,2), place struct<lat:double,name:string>"
    topic = log.topic(schema=schema, partitions=1)
    names = [field.name for field in topic.schema]
    rows = [{n: row[n] for n in names} for row in (FULL, EMPTY)]
    rows[0]["place"] = {"lat": 1.5, "name": "Rom"}
    topic.append(pl.from_arrow(pa.Table.from_pylist(rows, topic.schema)))
    assert plain(topic.read().select(names)) == rows


def test_from_polars_categories_and_enums(log: Log) -> None:
    topic = log.topic(schema="s string", partitions=1)
    topic.append(pl.DataFrame({"s": pl.Series(["a", "b", None], dtype=pl.Categorical)}))
    topic.append(pl.DataFrame({"s": pl.Series(["x"], dtype=pl.Enum(["x", "y"]))}))
    assert topic.read().column("s").to_pylist() == ["a", "b", None, "x"]


def test_from_pandas(log: Log) -> None:
    topic = log.topic(schema="s string, l bigint, d double, b boolean, at timestamp", partitions=1)
    at = pd.Timestamp("2024-01-01T12:00:00.123456", tz="Europe/Rome")
    frame = pd.DataFrame(
        {
            "s": ["a", None],
            "l": pd.array([1, None], dtype="Int64"),
            "d": [0.5, 1.0],
            "b": pd.array([True, None], dtype="boolean"),
            "at": [at, at],
        },
        index=[5, 6],
    )
    topic.append(frame)
    moment = at.to_pydatetime().astimezone(UTC)
    assert plain(topic.read().select(["s", "l", "d", "b", "at"])) == [
        {"s": "a", "l": 1, "d": 0.5, "b": True, "at": moment},
        {"s": None, "l": None, "d": 1.0, "b": None, "at": moment},
    ]


def test_columns_may_come_in_any_order_and_be_left_out(log: Log) -> None:
    topic = log.topic(schema="a int, b int, c int", partitions=1)
    topic.append(pa.table({"c": pa.array([3], pa.int32()), "a": pa.array([1], pa.int32())}))
    topic.append({"c": 6, "b": 5})
    assert topic.read().select(["a", "b", "c"]).to_pylist() == [
        {"a": 1, "b": None, "c": 3},
        {"a": None, "b": 5, "c": 6},
    ]


@pytest.mark.parametrize(
    ("given", "column"),
    [
        (pa.array([1, 2], pa.int16()), "l"),
        (pa.array([1.0, 2.0]), "l"),
        (pa.array([1, 2], pa.uint64()), "l"),
        (pa.array([1, 2]), "d"),
        (pa.array(["x", "y"], pa.large_string()), "s"),
        (pa.array(["x", "y"], pa.string_view()), "s"),
        (pa.array(["x", "y"]).dictionary_encode(), "s"),
        (pa.array([b"x", b"y"], pa.large_binary()), "raw"),
        (pa.array([None, None]), "s"),
        (pa.array([datetime(2024, 1, 1)] * 2, pa.timestamp("ms")), "wall"),
        (pa.array([datetime(2024, 1, 1, tzinfo=UTC)] * 2, pa.timestamp("ns", "America/Lima")), "at"),
        (pa.array([[1, 2], None], pa.large_list(pa.int64())), "numbers"),
    ],
)
def test_arrow_columns_of_a_wider_or_narrower_type_are_cast_when_nothing_is_lost(
    log: Log, given: pa.Array, column: str
) -> None:
    topic = log.topic(
        schema="s string, l bigint, d double, raw binary, at timestamp, wall timestamp_ntz, numbers array<int>",
        partitions=1,
    )
    topic.append(pa.table({column: given}))
    found = plain(topic.read().select([column]))
    assert [row[column] for row in found] == [row["x"] for row in plain(pa.table({"x": given}))]


AT = datetime(2024, 1, 1, tzinfo=UTC)
GOOD: dict[str, Any] = {"user": "ada", "at": AT, "must": 1}
STRICT = """
    user string, at timestamp, must int NOT NULL, t tinyint, l bigint, d double, f float, day date, wall timestamp_ntz,
    raw binary, price decimal(5,2), tags array<string>, numbers array<double>, counts map<string,int>,
    place struct<lat:double NOT NULL,name:string>
"""
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "unknown column": ({"usr": "x"}, r"there is no column 'usr'\. Did you mean 'user'\?"),
    "unknown field": ({"place": {"lat": 1.0, "long": 2.0}}, r"there is no column 'place\.long'"),
    "missing key": ({"user": None}, r"column 'user': a value is required"),
    "missing time": ({"at": None}, r"column 'at': a value is required"),
    "missing NOT NULL": ({"must": None}, r"column 'must': a value is required"),
    "missing NOT NULL field": ({"place": {"lat": None}}, r"column 'place\.lat'"),
    "number for text": ({"user": 5}, r"column 'user': expected `str.*got `int`"),
    "bytes for text": ({"user": b"x"}, r"column 'user'"),
    "surrogate": ({"user": "\ud800"}, r"column 'user'.*surrogates not allowed"),
    "text for number": ({"l": "5"}, r"column 'l': expected `int.*got `str`"),
    "fraction for bigint": ({"l": 1.5}, r"column 'l'"),
    "float for bigint": ({"l": 1.0}, r"column 'l'"),
    "bool for number": ({"l": True}, r"column 'l'"),
    "number for bool in double": ({"d": True}, r"column 'd'"),
    "too large for tinyint": ({"t": 128}, r"column 't': expected `int` <= 127, not 128"),
    "too small for tinyint": ({"t": -129}, r"column 't'"),
    "too large for bigint": ({"l": 2**63}, r"column 'l'"),
    "far too large for bigint": ({"l": 2**200}, r"column 'l'"),
    "lossy in double": ({"d": 2**53 + 1}, r"column 'd': expected `int` <= 9007199254740992"),
    "lossy in nested double": ({"numbers": [1, 2**53 + 1]}, r"column 'numbers\[1\]'"),
    "lossy in float": ({"f": 2**24 + 1}, r"column 'f'"),
    "too large for float": ({"f": 1e39}, r"column 'f': 1e\+39 is too large for a float"),
    "number for time": ({"at": 1704067200}, "column 'at': 1704067200 is a number, not a time"),
    "date for time": ({"at": date(2024, 1, 1)}, r"column 'at'"),
    "nonsense for time": ({"at": "noon"}, r"column 'at'"),
    "time for date": ({"day": AT}, r"column 'day'"),
    "zone for wall clock": ({"wall": AT}, r"column 'wall'"),
    "not base64 for binary": ({"raw": "x"}, r"column 'raw'"),
    "too many digits": ({"price": Decimal("1234.5")}, r"column 'price': 1234.5 does not fit decimal"),
    "too many decimals": ({"price": Decimal("1.005")}, r"column 'price': 1.005 does not fit decimal"),
    "no number": ({"price": Decimal("NaN")}, r"column 'price': NaN does not fit decimal"),
    "text for list": ({"tags": "a,b"}, r"column 'tags'"),
    "wrong element": ({"tags": ["a", 1]}, r"column 'tags\[1\]'"),
    "wrong map key": ({"counts": {1: 1}}, r"column 'counts'"),
    "wrong map value": ({"counts": {"a": 1.5}}, r"column 'counts"),
    "wrong field": ({"place": {"lat": "x"}}, r"column 'place\.lat'"),
    "hidden column": ({"_offset": 5}, r"there is no column '_offset'"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_bad_row_is_refused_by_row_and_column_and_nothing_is_written(log: Log, case: str) -> None:
    values, message = REFUSED[case]
    topic = log.topic(schema=STRICT, key="user", time="at")
    bad = {**GOOD, **values}
    with pytest.raises(Invalid, match=rf"topic t, row 2(, |: ).*{message}"):
        topic.append([GOOD, GOOD, bad, GOOD])
    with pytest.raises(Invalid, match=message):
        topic.append(bad)
    with topic.producer() as producer:
        with pytest.raises(Invalid, match=message):
            producer.send(bad)
        producer.send(GOOD)
    assert topic.read().num_rows == 1


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"usr": ["x"]}, r"no column 'usr'"),
        ({"l": pa.array([1, 2, 1.5])}, r"row 2, column 'l'"),
        ({"l": pa.array([1, 2**63], pa.uint64())}, r"row 1, column 'l'"),
        ({"l": pa.array(["1"])}, r"column 'l' is int64, not string"),
        ({"t": pa.array([1, 2, 3, 400])}, r"row 3, column 't'"),
        ({"d": pa.array([0, 2**53 + 1])}, r"row 1, column 'd'"),
        ({"f": pa.array([0.0, 1e39])}, r"row 1, column 'f'"),
        ({"user": pa.array([None, "x"])}, r"row 0, column 'user': a value is required"),
        ({"user": pa.array([b"x"])}, r"column 'user' is string, not binary"),
        ({"at": pa.array([1704067200])}, r"column 'at' is timestamp\[us, tz=UTC\], not int64"),
        ({"at": pa.array([1], pa.timestamp("ns", "UTC"))}, r"row 0, column 'at'"),
        ({"price": pa.array([Decimal("1.00"), Decimal("1.005")])}, r"row 1, column 'price'"),
    ],
)
def test_a_bad_table_is_refused_by_row_and_column(log: Log, values: dict[str, Any], message: str) -> None:
    topic = log.topic(schema=STRICT, key="user", time="at")
    (size,) = {len(v) for v in values.values()}
    good = {"user": ["ada"] * size, "at": pa.array([AT] * size), "must": pa.array([1] * size)}
    with pytest.raises(Invalid, match=message):
        topic.append(pa.table({**good, **values}))
    assert topic.latest == topic.earliest


def test_a_column_given_twice_is_refused(log: Log) -> None:
    topic = log.topic(schema="a int")
    with pytest.raises(Invalid, match="given twice"):
        topic.append(pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"]))


@pytest.mark.parametrize("rows", [5, "text", iter([GOOD]), {"user"}, [GOOD, "x"], [GOOD, None], [[1, 2]]])
def test_what_is_no_row_is_refused(log: Log, rows: Any) -> None:
    topic = log.topic(schema=STRICT, key="user", time="at")
    with pytest.raises(Invalid, match=r"rows cannot be|row \d: expected `object`"):
        topic.append(rows)
    assert topic.latest == topic.earliest


def test_texts_for_times_dates_decimals_and_bytes_are_read(log: Log) -> None:
    topic = log.topic(schema="at timestamp, day date, wall timestamp_ntz, price decimal(5,2), raw binary", partitions=1)
    texts = {
        "at": "2024-01-01T01:00:00+01:00",
        "day": "2024-02-29",
        "wall": "2024-01-01T12:00:00",
        "price": "1.5",
        "raw": "aGk=",
    }
    read = {
        "at": AT,
        "day": date(2024, 2, 29),
        "wall": datetime(2024, 1, 1, 12),
        "price": Decimal("1.50"),
        "raw": b"hi",
    }
    topic.append([texts, read])
    with topic.producer() as producer:
        producer.send(texts)
    assert plain(topic.read().select(list(texts))) == [read] * 3


def test_times_are_kept_in_utc(log: Log) -> None:
    topic = log.topic(schema="at timestamp", partitions=1, naive="utc")
    moments = [AT, AT.replace(tzinfo=None), AT.astimezone(timezone(timedelta(hours=-5)))]
    topic.append([{"at": moment} for moment in moments])
    with topic.producer() as producer:
        for moment in moments:
            producer.send({"at": moment})
    assert [row["at"] for row in plain(topic.read().select(["at"]))] == [AT] * 6


def test_a_record_over_the_limit_is_refused_and_the_topic_goes_on(log: Log) -> None:
    topic = log.topic(schema="user string, raw binary, tags array<string>", partitions=1)
    limit = topic.settings.max_record_bytes
    for large in ({"user": "x" * (limit + 1)}, {"raw": bytes(limit + 1)}, {"tags": ["y" * 1000] * (limit // 1000 + 1)}):
        with pytest.raises(RecordTooLarge, match=f"over the limit of {limit}"):
            topic.append([{"user": "a"}, large])
    topic.append({"user": "x" * (limit - 1000)})
    assert topic.read().num_rows == 1


def test_a_json_topic_is_one_text_column(log: Log) -> None:
    topic = log.topic(schema="json string", partitions=1)
    topic.append([{"json": '{"a": 1}'}, {"json": "null"}])
    assert topic.read().column("json").to_pylist() == ['{"a": 1}', "null"]
