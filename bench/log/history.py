"""Whether a long history slows a topic down: the same work on a topic with 100 times as much behind it.

A round takes milliseconds, so there are more rounds than elsewhere.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from bench.effort import Effort
from bench.figure import Figure, Stopwatch, Took, alternate, check, rates
from bench.log import events
from bench.log.events import ROWS
from riverrun.log.topic import Topic
from riverrun.position import Position
from riverrun.river import River

TARGET = 0.9
_APPENDS = 20  # of 1000 rows, in one round
_READS = 5

Work = Callable[[Topic, Position, Position], Took]


def run(directory: str, effort: Effort) -> Iterator[Figure]:
    short, long = f"{directory}/short", f"{directory}/long"
    rows = max(effort.history_bytes // 100, 2 * ROWS)
    newest = rows // 2
    ends = _fill(long, rows * effort.history_times, newest)

    def on_short(work: Work) -> Took:
        # A new one in every round: it must not grow into a long one.
        ends = _fill(short, rows, newest)
        try:
            return _on(short, work, ends)
        finally:
            shutil.rmtree(short)

    size = f"{_megabytes(rows * effort.history_times)} of history"
    works: tuple[tuple[str, int, Work, float | None], ...] = (
        ("append", _APPENDS * 1000, _append, TARGET),
        (f"read the newest {_megabytes(newest)}", _READS * newest, _read, TARGET),
        (f"open, and read the newest {_megabytes(newest)}", newest, _read_at_once, None),
    )
    for what, amount, work, target in works:
        times = alternate(partial(_on, long, work, ends), partial(on_short, work), 2 * effort.rounds + 1)
        yield rates(
            "history",
            f"{what}, {size}",
            amount,
            times,
            reference=_megabytes(rows),
            target=target,
            target_is_ratio=True,
        )
    shutil.rmtree(long)


def _megabytes(rows: int) -> str:
    return f"{rows * 100 / 1e6:g} MB"


def _fill(path: str, rows: int, newest: int) -> tuple[Position, Position]:
    """Make a topic; gives the ends of its newest rows."""
    with River(path) as river:
        topic = events.make(river, "events")
        events.fill(topic, 100, rows - newest)
        begin = topic.latest
        events.fill(topic, 100, newest)
        end = topic.latest
    for file in Path(path).glob("topics/events/*.journal"):
        fd = os.open(file, os.O_RDONLY)
        os.fdatasync(fd)  # or the disk is still busy with it while something else is measured
        os.close(fd)
    return begin, end


def _on(path: str, work: Work, ends: tuple[Position, Position]) -> Took:
    with River(path) as river:
        return work(river.topic("events"), *ends)


def _append(topic: Topic, begin: Position, end: Position) -> Took:
    pieces = events.pieces(100, 1000, "Arrow")
    before = _count(topic.latest, topic.earliest)
    topic.append(pieces[-1])
    watch = Stopwatch()
    for i in range(_APPENDS):
        topic.append(pieces[i % len(pieces)])
    took = watch.read()
    check(before + (_APPENDS + 1) * 1000, _count(topic.latest, topic.earliest), "rows after appending")
    return took


def _read(topic: Topic, begin: Position, end: Position) -> Took:
    """By a reader that has read before, as one that follows a topic has."""
    _read_at_once(topic, begin, end)
    several = [_read_at_once(topic, begin, end) for _ in range(_READS)]
    return Took(sum(took.seconds for took in several), sum(took.processor for took in several))


def _read_at_once(topic: Topic, begin: Position, end: Position) -> Took:
    """By a reader that comes anew, and has to look at the headers of the newest segment first."""
    watch = Stopwatch()
    table = topic.read(begin, end)
    took = watch.read()
    check(events.expected(100, _count(end, begin)), events.totals(table), "newest rows")
    return took


def _count(end: Position, begin: Position) -> int:
    return sum(end["events"].values()) - sum(begin["events"].values())
