"""Sliding windows by definition: for every time of a key, the rows of the last `size`, recomputed in every epoch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from riverrun.durations import from_micros
from riverrun.kernels.kernel import MAX_TIME, MIN_TIME

Row = tuple[Any, ...]
Result = Callable[[list[Row]], Row]


def slides(rows: Sequence[Row], anchors: set[tuple[Any, int]], size: int, result: Result) -> dict[tuple[Any, int], Row]:
    """The result row of each anchor (key, time) over rows (key, …, time)."""
    shown = {}
    for key, at in anchors:
        window = sorted((r for r in rows if r[0] == key and at - size < r[-1] <= at), key=lambda r: r[-1])
        shown[key, at] = (key, from_micros(at - size), from_micros(at), *result(window), at)
    return shown


def after_each_epoch(
    epochs: Sequence[tuple[list[Row], int]], size: int, horizon: int, update: bool, result: Result
) -> tuple[list[Counter[Row]], list[Row]]:
    """Views after each epoch and the end of input, and the late rows."""
    frozen: dict[tuple[Any, int], Row] = {}
    kept: list[Row] = []
    anchors: set[tuple[Any, int]] = set()
    late: list[Row] = []
    views = []
    start = MIN_TIME
    for rows, end in [*epochs, ([], MAX_TIME)]:
        limit = start - horizon
        for row in rows:
            if row[-1] + size <= limit:
                late.append(row)
                continue
            kept.append(row)
            if row[-1] >= limit:
                anchors.add((row[0], row[-1]))
        current = {**slides(kept, anchors, size, result), **frozen}
        views.append(Counter(row for (_, at), row in current.items() if update or at < end))
        frozen = {anchor: row for anchor, row in current.items() if anchor[1] < end - horizon}
        start = end
    return views, late
