"""Whether a long history slows a topic down: the same work on a topic with 100 times as much behind it."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from bench.effort import Effort
from bench.figure import Figure, alternate, check, rates
from bench.log import events
from bench.log.events import ROWS
from riverrun.log.topic import Topic
from riverrun.position import Position
from riverrun.river import River

TIMES = 100
TARGET = 0.9
_APPENDS = 20  # of 1000 rows, in one round
_NEWEST = 10 * ROWS  # rows that are read in one round


def run(directory: str, effort: Effort) -> Iterator[Figure]:
    short, long = f"{directory}/short", f"{directory}/long"
    rows = max(effort.history_bytes // 100, ROWS)
    _fill(long, rows * TIMES)

    def on_short(work: Callable[[Topic], float]) -> float:
        # A new one in every round: it must not grow into a long one.
        _fill(short, rows)
        try:
            return _on(short, work)
        finally:
            shutil.rmtree(short)

    newest = min(_NEWEST, rows)
    works = (
        ("append 1 000 rows", "rows/s", _APPENDS * 1000, _append),
        (f"read the newest {newest:,}".replace(",", " "), "rows/s", newest, lambda topic: _read_newest(topic, newest)),
    )
    sizes = f"{_megabytes(rows * TIMES)} of history"
    for what, unit, amount, work in works:
        times = alternate(partial(_on, long, work), partial(on_short, work), 2 * effort.rounds + 1)
        yield rates(
            "history",
            f"{what}, {sizes}",
            amount,
            times,
            unit=unit,
            reference=_megabytes(rows),
            target=TARGET,
            target_is_ratio=True,
        )
    shutil.rmtree(long)


def _megabytes(rows: int) -> str:
    return f"{rows * 100 / 1e6:,.0f} MB"


def _fill(path: str, rows: int) -> None:
    with River(path) as river:
        events.fill(events.make(river, "events"), 100, rows)
    for file in Path(path).glob("topics/events/*.journal"):
        fd = os.open(file, os.O_RDONLY)
        os.fdatasync(fd)  # or the disk is still busy with it while something else is measured
        os.close(fd)


def _on(path: str, work: Callable[[Topic], float]) -> float:
    with River(path) as river:
        return work(river.topic("events"))


def _append(topic: Topic) -> float:
    pieces = events.pieces(100, 1000, "Arrow")
    before = _rows(topic)
    topic.append(pieces[-1])
    begin = time.perf_counter()
    for i in range(_APPENDS):
        topic.append(pieces[i % len(pieces)])
    took = time.perf_counter() - begin
    check(before + (_APPENDS + 1) * 1000, _rows(topic), "rows after appending")
    return took


def _read_newest(topic: Topic, rows: int) -> float:
    """The newest rows, by a reader that comes anew."""
    end = topic.latest
    each = rows // topic.partitions
    start = Position({topic.name: {p: max(0, offset - each) for p, offset in end[topic.name].items()}})
    want = sum(offset - start[topic.name][p] for p, offset in end[topic.name].items())
    begin = time.perf_counter()
    table = topic.read(start, end)
    took = time.perf_counter() - begin
    check(want, table.num_rows, "newest rows")
    return took


def _rows(topic: Topic) -> int:
    return sum(topic.latest[topic.name].values())
