"""Changes as blobs."""

from __future__ import annotations

import pyarrow as pa
import pytest

from riverrun.views import ViewSpec, changelog, settle
from riverrun.views.changelog import changes_of, count, pack, unpack

SPEC = ViewSpec("v", "flow", "k bigint, s string", ("k",))


def inserts(start: int, end: int) -> pa.RecordBatch:
    keys = range(start, end)
    return settle(SPEC, pa.table({"k": keys, "s": [f"row {k}" for k in keys], "_weight": [1] * len(keys)})).batch


def updates(start: int, end: int) -> pa.RecordBatch:
    keys = [k for k in range(start, end) for _ in (-1, 1)]
    weights = [-1, 1] * (end - start)
    rows = {"k": keys, "s": [f"{k}, {weight}" for k, weight in zip(keys, weights, strict=True)], "_weight": weights}
    return settle(SPEC, pa.table(rows)).batch


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(changelog, "PART_ROWS", 5)


def read(blobs: list[tuple[int, bytes]]) -> list:
    total, before = sum(number for number, _ in blobs), 0
    changes = []
    for number, blob in blobs:
        changes += changes_of(blob, SPEC, 7, before, total)
        before += number
    return changes


@pytest.mark.usefixtures("small")
def test_parts_are_packed_in_their_order_and_an_update_is_never_split():
    parts = [inserts(0, 1), updates(1, 8), inserts(8, 20)]
    blobs = list(pack(parts))
    assert all(unpack(blob, SPEC).num_rows <= 6 for _, blob in blobs)
    assert sum(number for number, _ in blobs) == sum(map(count, parts)) == 20
    changes = read(blobs)
    assert [change.op for change in changes] == ["insert", *["update"] * 7, *["insert"] * 12]
    assert [(change.after or {})["k"] for change in changes] == list(range(20))
    assert changes[3].before == {"k": 3, "s": "3, -1"}
    assert [changes[0].cursor, changes[-1].cursor] == ["7:1", "7"]


@pytest.mark.usefixtures("small")
def test_small_parts_are_packed_together():
    numbers = [number for number, _ in pack([inserts(0, 2), inserts(2, 4), inserts(4, 5), inserts(5, 6)])]
    assert numbers == [5, 1]


def test_blobs_of_large_rows_have_few_of_them(monkeypatch):
    """Everybody who follows has one in memory."""
    monkeypatch.setattr(changelog, "PART_BYTES", 100_000)
    large = pa.table({"k": range(40), "s": ["x" * 20_000] * 40, "_weight": [1] * 40})
    blobs = list(pack([settle(SPEC, large).batch]))
    assert {number for number, _ in blobs} == {4}
    assert [(change.after or {})["k"] for change in read(blobs)] == list(range(40))


def test_what_is_passed_over_is_not_read(monkeypatch):
    monkeypatch.setattr(changelog, "_ROWS", 3)
    ((number, blob),) = pack([inserts(0, 1), updates(1, 8), inserts(8, 20)])
    every = list(changes_of(blob, SPEC, 7, 0, number))
    assert len(every) == number == 20
    for skip in range(22):
        assert list(changes_of(blob, SPEC, 7, 0, number, skip)) == every[skip:]


def test_nothing_is_packed_of_nothing():
    assert list(pack([])) == list(pack([inserts(0, 0)])) == []
