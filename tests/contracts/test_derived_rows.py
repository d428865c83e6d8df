"""Every value comes back from a derived store as it went in."""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from contracts.derived_flow import DERIVED, DerivedFlow, contents
from contracts.view_flow import weighted
from riverrun.errors import Invalid
from riverrun.views import ViewSpec
from riverrun.views.columns import rows_of

SCHEMA = (
    "k string, tiny tinyint, small smallint, whole int, big bigint, real float, x double, yes boolean, day date,"
    " at timestamp, local timestamp_ntz, price decimal(12,2), huge decimal(38,10), raw binary, tags array<string>,"
    " counts map<string,int>, place struct<city:string,at:array<double>>"
)
EXTREMES: list[tuple[Any, ...]] = [
    ("all null", *[None] * 16),
    (
        "largest",
        127,
        32767,
        2**31 - 1,
        2**63 - 1,
        3.4e38,
        1.7976931348623157e308,
        True,
        date(9999, 12, 31),
        datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
        datetime(9999, 12, 31, 23, 59, 59, 999999),
        Decimal("9999999999.99"),
        Decimal("9999999999999999999999999999.9999999999"),
        bytes(range(256)),
        ["", None, "a,b", '"'],
        [("a", 1), ("", None)],
        {"city": "Zürich", "at": [1.5, None]},
    ),
    (
        "smallest",
        -128,
        -32768,
        -(2**31),
        -(2**63),
        -0.0,
        5e-324,
        False,
        date(1, 1, 1),
        datetime(1, 1, 1, tzinfo=UTC),
        datetime(1, 1, 1),
        Decimal("-9999999999.99"),
        Decimal("-0.0000000001"),
        b"",
        [],
        [],
        {"city": None, "at": []},
    ),
    ("odd", 0, 0, 0, 0, math.nan, math.nan, None, None, datetime(2026, 1, 31, 12, 0, 0, 1, tzinfo=UTC), *[None] * 7),
    ("infinite", 0, 0, 0, 0, math.inf, -math.inf, *[None] * 10),
]


@pytest.fixture(params=DERIVED)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    opened = DERIVED[request.param](tmp_path).open()
    yield opened
    opened.close()


def same(left: Any, right: Any) -> bool:
    if isinstance(left, float) and isinstance(right, float):
        return (math.isnan(left) and math.isnan(right)) or (
            left == right and math.copysign(1, left) == math.copysign(1, right)
        )
    return bool(left == right)


def test_extremes_of_every_type(store):
    spec = ViewSpec("all", "shop", SCHEMA, ("k",))
    flow = DerivedFlow(store, spec)
    table = weighted(SCHEMA, *((*row, 1) for row in EXTREMES))
    flow.commit({"all": table})
    flow.commit()
    rows = {row["k"]: row for row in rows_of(store.scan(spec))}
    for expected in rows_of(table.drop_columns(["_weight"])):
        found = rows[expected["k"]]
        assert [name for name in expected if not same(expected[name], found[name])] == [], expected["k"]
        (one,) = rows_of(store.lookup(spec, [pa.array([expected["k"]])]))
        assert all(same(expected[name], one[name]) for name in expected)
    assert store.scan(spec).schema == spec.arrow


KEYS: dict[str, list[Any]] = {
    "string": [None, "", ":", "%", "%-", "%3A", "a:b", "a", "b", "\0", "*", "[a]", "日本", "é", "null", "x" * 3000],
    "bigint": [None, 0, -1, 1, 2**63 - 1, -(2**63)],
    "double": [None, 0.0, 1.5, -1e300, math.inf, -math.inf, math.nan],
    "boolean": [None, True, False],
    "timestamp": [None, datetime(2026, 1, 31, 12, 0, 0, 1, tzinfo=UTC), datetime(1, 1, 1, tzinfo=UTC)],
    "decimal(10,2)": [None, Decimal("1.50"), Decimal("-0.01"), Decimal("0.00")],
    "binary": [None, b"", b"\0\xff", b":"],
    "date": [None, date(2026, 1, 31), date(9999, 12, 31)],
}
KINDS = [("string",), ("string", "bigint"), ("double", "boolean"), ("timestamp", "decimal(10,2)", "binary", "date")]


@pytest.mark.parametrize("kinds", KINDS, ids=len)
def test_rows_are_told_apart_by_any_key(store, kinds):
    """Rows come, change and go at random, and are compared with a dictionary after every epoch."""
    schema = ", ".join(f"k{i} {kind}" for i, kind in enumerate(kinds)) + ", n bigint"
    spec = ViewSpec("keyed", "shop", schema, tuple(f"k{i}" for i in range(len(kinds))))
    flow = DerivedFlow(store, spec)
    random = Random(len(kinds))
    every = list(product(*(KEYS[kind] for kind in kinds)))
    if store.address.kind == "postgresql":
        every = [key for key in every if "\0" not in key]  # PostgreSQL has no such strings
    expected: dict[tuple, tuple] = {}
    for _ in range(5):
        changes = []
        for key in random.sample(every, min(20, len(every))):
            before = expected.pop(key, None)
            if before is not None:
                changes.append((*before, -1))
            if before is None or random.random() < 0.5:
                expected[key] = (*key, random.randrange(1000))
                changes.append((*expected[key], 1))
        flow.commit({"keyed": weighted(schema, *changes)})
        assert sorted(map(shown, contents(store, spec))) == sorted(map(shown, expected.values()))
    for row in list(expected.values())[:10]:
        key = [pa.array([part], spec.arrow.field(i).type) for i, part in enumerate(row[:-1])]
        assert [shown(found.values()) for found in rows_of(store.lookup(spec, key))] == [shown(row)]


def test_many_small_epochs_by_one_run_after_the_other(tmp_path):
    """Writers come and go; what one has left in the background must not undo what the next one does."""
    place = DERIVED["search"](tmp_path)
    schema = "k string, n bigint"
    spec = ViewSpec("keyed", "shop", schema, ("k",))
    random, expected = Random(7), {}
    flow = DerivedFlow(place.open(), spec)
    for number in range(30):
        if number % 3 == 0:
            flow.store.close()
            flow = DerivedFlow(place.open(), spec, fence=number + 2)
        changes = []
        for key in random.sample([f"key {n}" for n in range(60)], 20):
            before = expected.pop(key, None)
            if before is not None:
                changes.append((*before, -1))
            if before is None or random.random() < 0.9:
                expected[key] = (key, random.randrange(1000))
                changes.append((*expected[key], 1))
        flow.commit({"keyed": weighted(schema, *changes)})
        assert contents(flow.store, spec) == sorted(expected.values())
    flow.store.close()


def shown(row: Iterable[Any]) -> str:
    return repr([part.isoformat() if isinstance(part, datetime) else part for part in row])


def test_many_rows_come_in_pieces(store):
    spec = ViewSpec("many", "shop", "n bigint, text string", ("n",))
    flow = DerivedFlow(store, spec)
    count = 25_000
    rows = pa.table(
        {"n": range(count), "text": [f"row {n}" for n in range(count)], "_weight": pa.array([1] * count, pa.int8())}
    )
    flow.commit({"many": rows})
    assert store.count(spec) == count
    flow.commit({"many": rows.slice(0, 15_000).set_column(2, "_weight", pa.array([-1] * 15_000, pa.int8()))})
    assert store.count(spec) == 10_000
    assert store.scan(spec).column("n").to_pylist() == list(range(15_000, count))


def test_columns_that_a_delta_table_cannot_have(tmp_path):
    store = DERIVED["delta"](tmp_path).open()
    with pytest.raises(Invalid, match="a Delta table cannot have a column 'a b'"):
        store.declare(ViewSpec("v", "shop", "`a b` string", ()))
