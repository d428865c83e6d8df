"""The picture of time: event time across, processing time up. Geometry only; `time_picture` says what is in it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from riverrun.durations import from_micros
from riverrun.serve.pages.arrival_sample import SECOND, Arrived, Integers
from riverrun.serve.pages.markup import Html, tag

LEFT, RIGHT, TOP, WIDTH, HEIGHT, FOOT = 104, 160, 16, 944, 400, 32
CELL = 8
LEVELS = 5
_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400, 604800)


@dataclass(frozen=True)
class TimeSpan:
    """Which times are shown, in microseconds: event time from `low` to `high`, processing time from `begin` to `end`."""

    low: int
    high: int
    begin: int
    end: int

    def x(self, time: float) -> float:
        return round(LEFT + WIDTH * (time - self.low) / (self.high - self.low), 1)

    def y(self, received: float) -> float:
        return round(TOP + HEIGHT * (self.end - received) / (self.end - self.begin), 1)

    def across(self, time: float) -> float:
        """The same as `x`, but never outside."""
        return min(max(self.x(time), LEFT), LEFT + WIDTH)

    def up(self, received: float) -> float:
        """The same as `y`, but never outside."""
        return min(max(self.y(received), TOP), TOP + HEIGHT)


def choose_span(arrived: Arrived, marks: Iterable[int], now: int, span: int) -> TimeSpan:
    """A frame of `span` up that has most of the rows, and the watermark, in it."""
    begin = now - span
    recent = arrived.received * SECOND >= begin
    high, low = now, now - span * 5 // 4
    if recent.any():
        times, counts = arrived.times[recent], arrived.counts[recent]
        newest = _quantile(times, counts, 0.995) * SECOND
        if abs(newest - now) > span:
            high = newest + span // 20  # a replay, or clocks that are far off
            low = min(_quantile(times, counts, 0.02) * SECOND, high - span // 4)
    for mark in marks:
        if low - 9 * (high - low) < mark < low:
            low = mark - (high - mark) // 20
    return TimeSpan(low, high, begin, now)


def _quantile(times: Integers, counts: Integers, share: float) -> int:
    reached = np.cumsum(counts)
    return int(times[np.searchsorted(reached, reached[-1] * share)])


def density(arrived: Arrived, frame: TimeSpan) -> tuple[Html, int, int]:
    """Rows as cells, darker where there are more; how many rows are shown, and how many lie left or right of it."""
    across, up = WIDTH // CELL, HEIGHT // CELL
    half = SECOND // 2
    rows = (arrived.received * SECOND + half - frame.begin) * up // (frame.end - frame.begin)
    columns = (arrived.times * SECOND + half - frame.low) * across // (frame.high - frame.low)
    # The second in progress is half beyond the edge; what is up to a second ahead belongs to the last column.
    columns = np.where((columns >= across) & (arrived.times * SECOND < frame.high + SECOND), across - 1, columns)
    recent = (rows >= 0) & (rows < up)
    inside = recent & (columns >= 0) & (columns < across)
    grid = np.zeros((up, across), np.int64)
    np.add.at(grid, (rows[inside], columns[inside]), arrived.counts[inside])
    outside = int(arrived.counts[recent & ~inside].sum())
    most = int(grid.max())
    if not most:
        return Html(""), 0, outside
    levels = np.ceil(np.log1p(grid) / np.log1p(most) * LEVELS).astype(int)
    paths = []
    for level in range(1, LEVELS + 1):
        cells = np.argwhere(levels == level)
        if len(cells):
            steps = (
                f"M{LEFT + c * CELL} {TOP + HEIGHT - (r + 1) * CELL}h{CELL}v{CELL}h-{CELL}z" for r, c in cells.tolist()
            )
            paths.append(tag("path", d="".join(steps), class_=f"heat-{level}"))
    return tag("g", tag("title", f"Darkest: {most} rows"), *paths), int(grid.sum()), outside


def line(points: Iterable[tuple[float, float]], **attributes: object) -> Html:
    """A line through points."""
    path = "L".join(f"{x:g} {y:g}" for x, y in points)
    return tag("path", d=f"M{path}", **attributes) if path else Html("")


def axes(frame: TimeSpan, below: float) -> Html:
    """Labels and thin lines; `below` is where the lines of event time end."""
    parts = []
    for moment in ticks(frame.low, frame.high, WIDTH // 110):
        x = frame.x(moment)
        parts.append(tag("line", x1=x, x2=x, y1=TOP, y2=below, class_="grid"))
        if LEFT + 40 < x < LEFT + WIDTH - 32:
            parts.append(
                tag("text", label(moment, frame), x=x, y=TOP + HEIGHT + 16, text_anchor="middle", class_="tick")
            )
    for moment in ticks(frame.begin, frame.end, HEIGHT // 64):
        y = frame.y(moment)
        parts.append(tag("line", x1=LEFT, x2=LEFT + WIDTH, y1=y, y2=y, class_="grid"))
        parts.append(tag("text", label(moment, frame), x=LEFT - 8, y=y + 4, text_anchor="end", class_="tick"))
    return tag("g", *parts)


def ticks(low: int, high: int, most: int) -> list[int]:
    """Round times between two, at most so many."""
    wanted = (high - low) / SECOND / max(most, 1)
    step = next((step for step in _STEPS if step >= wanted), _STEPS[-1]) * SECOND
    first = -(-low // step) * step
    return list(range(first, high, step))[: 2 * most]


def label(moment: int, frame: TimeSpan) -> str:
    at: datetime = from_micros(moment)
    return f"{at:%H:%M:%S}" if frame.high - frame.low < 86400 * SECOND else f"{at:%m-%d %H:%M}"
