"""Windows in plain Python: which rows each window has, under a watermark and a late policy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from oracles.aggregates import Row, aggregate
from oracles.playing import shown
from riverrun.kernels.aggregates import Agg


class Windows:
    """All windows of a stream, as lists of rows. A row goes to those of its windows that are still kept."""

    def __init__(self, size: int, every: int, offset: int = 0, horizon: int = 0) -> None:
        self.size, self.every, self.offset, self.horizon = size, every, offset, horizon
        self.rows: dict[tuple[Any, int], list[Row]] = {}
        self.late: list[Row] = []
        self.read = 0
        self.corrected = 0

    def starts(self, time: int) -> Iterable[int]:
        last = (time - self.offset) // self.every * self.every + self.offset
        while last + self.size > time:
            yield last
            last -= self.every

    def take(self, rows: Sequence[Row], watermark: int) -> None:
        for row in rows:
            self.read += 1
            starts = list(self.starts(row["_time"]))
            kept = [start for start in starts if start + self.size + self.horizon > watermark]
            if starts and not kept and row["_weight"] > 0:
                self.late.append(row)
            self.corrected += any(start + self.size <= watermark for start in kept)
            for start in kept:
                window = self.rows.setdefault((row["key"], start), [])
                if row["_weight"] > 0:
                    window.append(row)
                else:
                    window.remove(next(held for held in window if same(held, row)))

    def view(self, aggs: Sequence[Agg], watermark: int | None, retracts: bool = False) -> list[str]:
        """The results of windows that have closed by `watermark`; of all where it is None."""
        return sorted(
            shown({"key": key, **bounds(start, self.size)} | results(aggs, rows, self.size, retracts))
            for (key, start), rows in self.rows.items()
            if rows and (watermark is None or start + self.size <= watermark)
        )


def same(held: Row, row: Row) -> bool:
    return all(repr(held[name]) == repr(row[name]) for name in row if name not in ("_weight", "_partition", "_offset"))


def results(aggs: Sequence[Agg], rows: Sequence[Row], span: int | None, retracts: bool) -> Row:
    return {agg.name: aggregate(agg, rows, span, retracts) for agg in aggs}


def bounds(start: int, size: int) -> Row:
    origin = datetime(1970, 1, 1, tzinfo=UTC)
    return {
        "window_start": origin + timedelta(microseconds=start),
        "window_end": origin + timedelta(microseconds=start + size),
    }
