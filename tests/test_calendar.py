"""Times beyond the years 1 to 9999: recognised, and shown as the first or last there is, wherever they stand."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pytest

from riverrun.calendar import clamp, clamp_table, first_unfit, fits, has_times
from riverrun.durations import FIRST, LAST, from_micros, to_micros
from riverrun.errors import Invalid

MOMENT = pa.timestamp("us", "UTC")
EARLIEST = datetime(1, 1, 1, tzinfo=UTC)
LATEST = datetime(9999, 12, 31, 23, 59, 59, 999_999, UTC)


def moments(*values: int | None) -> pa.Array:
    return pa.array(values, pa.int64()).cast(MOMENT)


NESTED = {
    "list": (pa.list_(MOMENT), pa.list_(pa.int64()), [[0, FIRST - 1], None, [], [LAST + 1]]),
    "struct": (
        pa.struct([("at", MOMENT), ("n", pa.int64())]),
        pa.struct([("at", pa.int64()), ("n", pa.int64())]),
        [{"at": FIRST - 1, "n": 1}, None, {"at": None, "n": 2}, {"at": LAST + 1, "n": 3}],
    ),
    "map": (
        pa.map_(pa.string(), MOMENT),
        pa.map_(pa.string(), pa.int64()),
        [[("a", FIRST - 1)], None, [], [("b", LAST + 1), ("c", None)]],
    ),
    "deep": (
        pa.list_(pa.struct([("at", pa.list_(MOMENT))])),
        pa.list_(pa.struct([("at", pa.list_(pa.int64()))])),
        [[{"at": [FIRST - 1]}], None, [None, {"at": None}], [{"at": [0]}, {"at": [LAST + 1, 0]}]],
    ),
}


def test_the_bounds_are_those_of_datetime() -> None:
    assert fits(moments(FIRST, None, LAST))
    assert not fits(moments(FIRST - 1))
    assert not fits(moments(0, LAST + 1))
    assert clamp(moments(FIRST - 1, None, LAST + 1, 0)).to_pylist() == [EARLIEST, None, LATEST, from_micros(0)]
    days = pa.array([-719_163, None, 2_932_897, 0], pa.int32()).cast(pa.date32())  # one beyond each end
    assert not fits(days)
    assert clamp(days).to_pylist() == [date(1, 1, 1), None, date(9999, 12, 31), date(1970, 1, 1)]
    assert fits(clamp(days))


def test_what_fits_is_not_copied() -> None:
    values = moments(0, 1, None)
    assert clamp(values) is values
    table = pa.table({"at": values, "n": [1, 2, 3]})
    assert clamp_table(table) is table
    for kind in (MOMENT, pa.date32(), *(kind for kind, *_ in NESTED.values())):
        assert fits(pa.array([], kind))
        assert fits(pa.nulls(3, kind))
        assert fits(pa.chunked_array([], kind))


@pytest.mark.parametrize("name", NESTED)
def test_nested_times_are_found_and_clamped(name: str) -> None:
    kind, whole, given = NESTED[name]
    assert has_times(kind)
    assert not has_times(whole)
    values = pa.array(given, whole).cast(kind)
    for begin in range(len(values)):
        part = values.slice(begin)
        clamped = clamp(part)
        assert fits(clamped)
        assert clamped.type == kind
        clamped.validate(full=True)
        assert clamped.cast(whole).to_pylist() == [
            _bounded(value) for value in pa.array(given, whole).slice(begin).to_pylist()
        ]
    assert first_unfit(values.slice(1)) == 2
    assert first_unfit(values) == 0


def _bounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _bounded(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_bounded(inner) for inner in value)
    return min(max(value, FIRST), LAST) if isinstance(value, int) else value


def test_a_table_of_many_chunks() -> None:
    column = pa.chunked_array([moments(0), moments(LAST + 7), moments()])
    table = clamp_table(pa.table({"n": [1, 2], "at": column}))
    assert table.column("at").to_pylist() == [from_micros(0), LATEST]


def test_moments_as_datetimes() -> None:
    assert from_micros(FIRST - 1) == EARLIEST
    assert from_micros(1 << 62) == LATEST
    assert to_micros(EARLIEST) == FIRST
    assert to_micros(LATEST) == LAST
    for text in ("0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-01:00"):
        with pytest.raises(Invalid, match="outside the years 1 to 9999"):
            to_micros(datetime.fromisoformat(text))
