"""What each task reads of an epoch: together all of it, each offset once."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from riverrun.runtime.source import Range
from riverrun.spark.source import balance


def topic(grain: int, rows: float) -> Any:
    """Messages of so many offsets, with so many rows each, about."""

    def count(start: dict[int, int], end: dict[int, int]) -> int:
        return round(sum(end[p] - start[p] for p in start) // grain * rows)

    return SimpleNamespace(backend=SimpleNamespace(grain=grain, count=count))


@given(
    st.lists(st.integers(1, 300), min_size=1, max_size=4),
    st.sampled_from([(1, 1.0), (1 << 16, 1000.0), (1 << 16, 700.5), (1 << 16, 65536.0)]),
    st.integers(1, 5),
)
def test_every_offset_is_in_one_slice_and_a_slice_has_one_range_of_a_partition(
    messages: list[int], kind: tuple[int, float], slices: int
) -> None:
    grain, rows = kind
    ranges = [Range("t", p, 0, count * grain * (1 if grain > 1 else 1000)) for p, count in enumerate(messages)]
    parts = balance(ranges, slices, {"t": topic(grain, rows)})
    assert len(parts) <= max(slices, 1)
    assert all(len({part.partition for part in slice}) == len(slice) for slice in parts)
    for one in ranges:
        mine = sorted((part.start, part.end) for slice in parts for part in slice if part.partition == one.partition)
        assert [start for start, _ in mine] == [one.start, *(end for _, end in mine[:-1])]
        assert mine[-1][1] == one.end
