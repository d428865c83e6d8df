"""B3: reading a whole topic into Arrow, some columns or all; against reading the same files plainly."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa

from bench.effort import Effort
from bench.figure import Figure, Stopwatch, Took, alternate, check, rates
from bench.log import events, plain
from bench.log.events import NUMBERS, ROWS, SIZES
from riverrun.log.codec import HIDDEN
from riverrun.river import River

TARGET = 20_000_000.0


@dataclass(frozen=True, slots=True)
class ReadCase:
    """How a topic was written."""

    size: str = "100 B"
    batch: int = ROWS
    compression: str | None = None
    target: float | None = None

    def __str__(self) -> str:
        text = f"{self.size} in appends of {self.batch:,}".replace(",0", " 0")
        return f"{text}, {self.compression}" if self.compression else text


def cases(every: bool) -> Iterator[ReadCase]:
    yield ReadCase(target=TARGET)
    yield ReadCase(batch=100)
    yield ReadCase(size="1 kB")
    if every:
        yield ReadCase(compression="lz4")
        yield ReadCase(batch=1)


def run(directory: str, effort: Effort) -> Iterator[Figure]:
    for case in cases(effort.every_case):
        yield from _figures(f"{directory}/river", case, effort)


def _figures(path: str, case: ReadCase, effort: Effort) -> Iterator[Figure]:
    # Larger events make as many bytes, and tiny appends as many frames, with fewer rows.
    fewer = SIZES[case.size] // 100 * (20 if case.batch == 1 else 1)
    with River(path) as river:
        topic = events.make(river, "events", compression=case.compression)
        rows = events.fill(topic, SIZES[case.size], effort.read_rows // fewer, case.batch)
    files = sorted(map(str, Path(path).glob("topics/events/*.journal")))
    for what, columns in (("three numbers", NUMBERS), ("all columns", None)):
        times = alternate(partial(_read, path, case, columns, rows), lambda: plain.read(files), effort.rounds)
        target = case.target if columns else None
        yield rates("read", f"{case}: {what}", rows, times, reference="plain", target=target)
    shutil.rmtree(path)


def _read(path: str, case: ReadCase, columns: list[str] | None, rows: int) -> Took:
    """The whole topic, by a reader that has not seen it before."""
    with River(path) as river:
        topic = river.topic("events")
        watch = Stopwatch()
        table = topic.read(columns=columns)
        took = watch.read()
        check(events.expected(SIZES[case.size], rows), events.totals(table), f"rows read: {case}")
        _check_shape(table, columns)
        return took


def _check_shape(table: pa.Table, columns: list[str] | None) -> None:
    names = columns or [*events.block(100).schema.names, *HIDDEN]
    check(names, table.column_names, "columns read")
