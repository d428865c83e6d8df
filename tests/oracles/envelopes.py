"""Messages of Debezium and Maxwell, made at random and read the slow and certain way: with `json` and `decimal`."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

COLUMNS = (
    "id bigint, name string, price decimal(12,3), at timestamp, seen timestamp_ntz, day date, n smallint, paid boolean,"
    " rate double, photo binary, tags array<string>, marks array<int>"
)
UNAVAILABLE = "__debezium_unavailable_value"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Row = dict[str, Any]

NAMES = st.one_of(st.text(max_size=8), st.sampled_from(["é \U0001f3b2", 'quote"\\', "\x00", "null", "{}"]))
ROWS = st.fixed_dictionaries(
    {
        "id": st.integers(0, 6),
        "name": st.none() | NAMES.filter(lambda name: name != UNAVAILABLE),
        "price": st.none() | st.decimals(-999_999_999, 999_999_999, places=3),
        "at": st.none()
        | st.datetimes(datetime(1678, 1, 1), datetime(2261, 12, 30)).map(lambda t: t.replace(tzinfo=UTC)),
        "seen": st.none() | st.datetimes(datetime(1678, 1, 1), datetime(2261, 12, 30)),
        "day": st.none() | st.dates(),
        "n": st.none() | st.integers(-(1 << 15), (1 << 15) - 1),
        "paid": st.none() | st.booleans(),
        "rate": st.none() | st.floats(allow_nan=False, allow_infinity=False),
        "photo": st.none() | st.binary(max_size=6),
        "tags": st.none() | st.lists(st.none() | NAMES, max_size=3).filter(lambda tags: tags != [UNAVAILABLE]),
        "marks": st.none() | st.lists(st.none() | st.integers(-(1 << 31), (1 << 31) - 1), max_size=3),
    }
)


@dataclass(frozen=True)
class Writing:
    """How a connector is set up: the unit of times, how decimals are written, whether messages bring their schema."""

    times: str
    decimals: str
    schema: bool


WRITINGS = st.builds(
    Writing, st.sampled_from(["ms", "us", "ns", "iso"]), st.sampled_from(["precise", "string"]), st.booleans()
)

_TIME_NAMES = {
    "ms": ("int64", "io.debezium.time.Timestamp"),
    "us": ("int64", "io.debezium.time.MicroTimestamp"),
    "ns": ("int64", "io.debezium.time.NanoTimestamp"),
    "iso": ("string", "io.debezium.time.ZonedTimestamp"),
}


def micros(moment: datetime) -> int:
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (aware - EPOCH) // timedelta(microseconds=1)


def cut(moment: datetime, unit: str) -> datetime:
    """What is left of a moment in this unit."""
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000) if unit == "ms" else moment


def written(row: Row, how: Writing) -> Row:
    """A row as a connector writes it."""
    made = dict(row)
    for name in ("at", "seen"):
        if row[name] is not None:
            made[name] = _moment(row[name], how.times)
    if row["day"] is not None:
        made["day"] = (row["day"] - date(1970, 1, 1)).days
    if row["price"] is not None:
        made["price"] = str(row["price"]) if how.decimals == "string" else _bytes(int(row["price"].scaleb(3)))
    if row["photo"] is not None:
        made["photo"] = base64.b64encode(row["photo"]).decode()
    return made


def _moment(moment: datetime, unit: str) -> int | str:
    if unit == "iso":
        return moment.isoformat() if moment.tzinfo is None else moment.isoformat().replace("+00:00", "Z")
    return {"ms": micros(moment) // 1000, "us": micros(moment), "ns": micros(moment) * 1000}[unit]


def _bytes(whole: int) -> str:
    return base64.b64encode(whole.to_bytes(whole.bit_length() // 8 + 1, "big", signed=True)).decode()


def connect_schema(how: Writing) -> Row:
    """The schema of the messages, as Kafka Connect has it."""
    kind, name = _TIME_NAMES[how.times]
    decimal = {"type": "string"}
    if how.decimals == "precise":
        decimal = {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal"}
    fields = [
        {"type": "int64", "optional": False, "field": "id"},
        {"type": "string", "field": "name"},
        {**decimal, "parameters": {"scale": "3", "connect.decimal.precision": "12"}, "field": "price"},
        {"type": kind, "name": name, "version": 1, "field": "at"},
        {"type": kind, "name": name, "version": 1, "field": "seen"},
        {"type": "int32", "name": "io.debezium.time.Date", "version": 1, "field": "day"},
        {"type": "int16", "field": "n"},
        {"type": "boolean", "field": "paid"},
        {"type": "double", "field": "rate"},
        {"type": "bytes", "field": "photo"},
        {"type": "array", "items": {"type": "string", "optional": True}, "field": "tags"},
        {"type": "array", "items": {"type": "int32", "optional": True}, "field": "marks"},
    ]
    value = {"type": "struct", "fields": fields, "optional": True, "name": "shop.public.orders.Value"}
    ends = [{**value, "field": "before"}, {**value, "field": "after"}, {"type": "string", "field": "op"}]
    return {"type": "struct", "fields": ends, "name": "shop.public.orders.Envelope", "version": 2}


@dataclass(frozen=True)
class Change:
    """What happens in the database: an op, the row it is about, and the key that the row had before."""

    op: str
    row: Row
    old: int | None = None
    full: bool = True  # whether the row before is sent as a whole


CHANGES = st.lists(
    st.builds(Change, st.sampled_from("rcuud0m"), ROWS, st.none() | st.integers(0, 6), st.booleans()), max_size=12
)


def debezium(change: Change, how: Writing, moment: int = 1) -> tuple[str | None, str | None]:
    """Key and value of a message; op 0 is a tombstone."""
    row = written(change.row, how)
    before = {**row, "id": change.row["id"] if change.old is None else change.old}
    if not change.full:
        before = {name: value if name == "id" else None for name, value in before.items()}
    payload: Row = {"before": None, "after": None, "source": {"ts_ms": moment}, "op": change.op, "ts_ms": moment + 5}
    if change.op in "rcu":
        payload["after"] = row
    if change.op == "u" and change.old is not None:
        payload["before"] = before
    if change.op == "d" and change.full:
        payload["before"] = {**row, "name": "gone"}
    key: Any = {"id": change.row["id"]}
    value: Any = None if change.op == "0" else payload
    if how.schema:
        value = None if value is None else {"schema": connect_schema(how), "payload": value}
        key = {"schema": {"type": "struct", "fields": [{"type": "int64", "field": "id"}]}, "payload": key}
    return json.dumps(key), None if value is None else json.dumps(value, ensure_ascii=change.full)


def maxwell(change: Change, moment: int = 1) -> tuple[str | None, str | None]:
    """The same of Maxwell."""
    data = {name: _of_maxwell(value) for name, value in change.row.items()}
    kinds = {"r": "bootstrap-insert", "c": "insert", "u": "update", "d": "delete", "m": "bootstrap-complete"}
    key = {"database": "shop", "table": "orders", "pk.id": change.row["id"]}
    if change.op == "0":
        return json.dumps(key), None
    message = {"database": "shop", "table": "orders", "type": kinds[change.op], "ts": moment, "data": data}
    if change.op == "m":
        message["data"] = {}
    text = json.dumps(message)
    if change.op == "u":
        old = {"name": "was", **({} if change.old is None else {"id": change.old})}
        text = json.dumps({**message, "old": old})
    if change.row["price"] is not None:  # a number to the last digit, which `json` does not write
        text = text.replace(json.dumps(str(change.row["price"])), str(change.row["price"]), 1)
    return json.dumps(key), text


def _of_maxwell(value: Any) -> Any:
    match value:
        case datetime():
            return value.replace(tzinfo=None).isoformat(" ")
        case date():
            return value.isoformat()
        case bytes():
            return base64.b64encode(value).decode()
        case Decimal():
            return str(value)
    return value


def expected(changes: Sequence[Change], cut_to: str = "us") -> list[tuple[int, bool, Row]]:
    """What messages come to: the message, whether it deletes, and the row; of a deletion its key."""
    found: list[tuple[int, bool, Row]] = []
    for at, change in enumerate(changes):
        key = change.row["id"]
        if change.op in "d0":
            found.append((at, True, {"id": key}))
        elif change.op in "rcu":
            if change.op == "u" and change.old is not None and change.old != key:
                found.append((at, True, {"id": change.old}))
            row = {
                name: cut(value, cut_to) if isinstance(value, datetime) else value for name, value in change.row.items()
            }
            found.append((at, False, row))
    return found


def table(found: Sequence[tuple[int, bool, Row]]) -> Mapping[int, Row]:
    """The rows that are left after all of it."""
    rows: dict[int, Row] = {}
    for _, deleted, row in found:
        rows.pop(row["id"], None)
        if not deleted:
            rows[row["id"]] = row
    return rows
