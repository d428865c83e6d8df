"""Sessions by definition: sort, cut at gaps, recompute everything in every epoch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from riverrun.durations import from_micros
from riverrun.kernels.kernel import MAX_TIME, MIN_TIME

Row = tuple[Any, ...]


def sessions(rows: Sequence[Row], gap: int) -> list[list[Row]]:
    """Rows (key, …, time) cut into sessions; rows of the same key and time keep their order."""
    by_key: dict[Any, list[Row]] = {}
    for row in rows:
        by_key.setdefault(row[0], []).append(row)
    cut: list[list[Row]] = []
    for of_key in by_key.values():
        for row in sorted(of_key, key=lambda row: row[-1]):
            if cut and cut[-1][0][0] == row[0] and row[-1] - cut[-1][-1][-1] < gap:
                cut[-1].append(row)
            else:
                cut.append([row])
    return cut


def after_each_epoch(
    epochs: Sequence[tuple[list[Row], int]],
    gap: int,
    horizon: int,
    update: bool,
    result: Callable[[list[Row]], Row],
) -> tuple[list[Counter[Row]], list[Row]]:
    """Views after each epoch and the end of input, and the late rows."""
    frozen: Counter[Row] = Counter()
    kept: list[Row] = []
    late: list[Row] = []
    views = []
    start = MIN_TIME
    for rows, end in [*epochs, ([], MAX_TIME)]:
        live = []
        for session in sessions([*kept, *rows], gap):
            if session[-1][-1] + gap <= start - horizon:
                late.extend(session)
            else:
                live.append(session)
        shown = [shape(s, gap, result) for s in live if update or s[-1][-1] + gap <= end]
        views.append(frozen + Counter(shown))
        frozen.update(shape(s, gap, result) for s in live if s[-1][-1] + gap <= end - horizon)
        kept = [row for s in live if s[-1][-1] + gap > end - horizon for row in s]
        start = end
    return views, late


def shape(session: list[Row], gap: int, result: Callable[[list[Row]], Row]) -> Row:
    end = session[-1][-1] + gap
    return (session[0][0], from_micros(session[0][-1]), from_micros(end), *result(session), end)
