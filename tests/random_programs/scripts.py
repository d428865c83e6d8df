"""Random input: rows that come late, twice or from the future, tombstones, promises, silence and crashes."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from random_programs.program import Program, TopicRead
from random_programs.values import DEEP, FEW, MANY, QUERIES, TEXTS, at, some
from riverrun.testing import Advance, Append, Crash, Delete, Process, Tick

FAILPOINTS = (
    "plan.begin",
    "plan.done",
    "host.stepped",
    "host.committed",
    "commit.begin",
    "commit.topics",
    "commit.aside",
    "views.begun",
    "views.applied",
    "views.committed",
    "commit.store",
)


def make_script(dice: random.Random, program: Program) -> list[Any]:
    """Steps of epochs, one after the other."""
    rows = RowMaker(dice, program)
    backlog = program.max_rows < 1000
    script: list[Any] = []
    for number in range(dice.randint(2, 6)):
        if number and dice.random() < 0.25:
            script.append(Crash(at=dice.choice([None, *FAILPOINTS])))
        script += _arrivals(dice, program, rows, backlog)
        script += _events(dice, program, rows)
    return script


def _arrivals(dice: random.Random, program: Program, rows: RowMaker, backlog: bool) -> list[Any]:
    """Rows that one epoch reads; of a backlog, several."""
    reads = [read for read in program.reads if dice.random() < 0.8] or [program.reads[0]]
    # Rows of one append that go to different partitions came at the same moment: nothing says which was first.
    if program.partitions == 1 and not backlog:
        return [{read.topic: rows.some(read) for read in reads}]
    single = [(read.topic, row) for read in reads for row in rows.some(read)]
    dice.shuffle(single)
    return [*(Append(topic, [row]) for topic, row in single), Process()]


def _events(dice: random.Random, program: Program, rows: RowMaker) -> Iterator[Any]:
    for read in program.reads:
        if read.table and dice.random() < 0.35:
            key = [dice.choice(rows.pool(read.columns[part])) for part in read.key]
            yield Delete(read.topic, key if len(key) > 1 else key[0])
        if read.time is not None and dice.random() < 0.1:
            producer = dice.choice(["a", "b"]) if read.producers else dice.randrange(program.partitions)
            yield Advance(read.topic, producer, at(rows.now + dice.randint(-5, 10)))
    if dice.random() < (0.4 if program.now or any(read.idle or not read.time for read in program.reads) else 0.05):
        yield Tick(dice.choice([1, 4, 10]))


class RowMaker:
    """Rows in about the order of their event time, which goes on from epoch to epoch."""

    def __init__(self, dice: random.Random, program: Program) -> None:
        self._dice, self._program = dice, program
        self.now = 0
        self._made = 0
        self._pools: dict[str, list[Any]] = {}
        # On the coarse one times are often exactly a window's end, a gap or a lateness apart.
        self._grid = dice.choice([1, 5])

    def pool(self, kind: str) -> list[Any]:
        """The values of columns that are compared: so few in one program that rows meet."""
        if kind not in self._pools:
            most = FEW[kind]
            self._pools[kind] = self._dice.sample(most, min(len(most), self._dice.randint(2, 4)))
        return self._pools[kind]

    def some(self, read: TopicRead) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = []
        for _ in range(self._dice.randint(1, 7)):
            if rows and not self._program.distinct_times and self._dice.random() < 0.1:
                rows.append(dict(rows[-1]))
            else:
                rows.append(self._row(read))
        return rows

    def _row(self, read: TopicRead) -> dict[str, Any]:
        dice, row = self._dice, {}
        for name, kind in read.columns.items():
            if name in ("k", "g"):
                row[name] = some(dice, self.pool(kind), 0.0 if name in read.key else 0.12)
            elif name == "p":
                row[name] = dice.choice(["a", "a", "b"])
            elif name == "t":
                row[name] = some(dice, TEXTS)
            elif name == "q":
                row[name] = dice.choice(QUERIES)
            elif name == "deep":
                row[name] = some(dice, DEEP)
            elif name == "sent":
                row[name] = some(dice, [at(self.now + error) for error in (-30, -5, 0, 0, 3, 40)])
            elif name == "at":
                row[name] = self._time()
            else:
                row[name] = some(dice, MANY[kind])
        return row

    def _time(self) -> Any:
        if self._grid == 1:
            pace, late = self._dice.choice([0, 0, 1, 1, 2, 4]), self._dice.choice([0, 0, 0, 0, 1, 2, 5, 12, 30])
        else:
            pace, late = self._dice.choice([0, 0, 0, 1, 1, 2]), self._dice.choice([0, 0, 0, 1, 1, 2, 4])
        self.now += pace * self._grid
        self._made += 1
        return at(self.now - late * self._grid) + timedelta(
            microseconds=self._made if self._program.distinct_times else 0
        )
