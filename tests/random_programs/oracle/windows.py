"""Windows by definition: which rows each has under the watermark, and which of them are shown."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from random_programs.oracle.aggregates import aggregate
from random_programs.oracle.facts import SECOND, Epoch, Fact, Node
from random_programs.oracle.stream_nodes import key_of
from random_programs.values import moment

Options = Mapping[str, Any]
Bounds = tuple[int, int]


class Window(Node):
    """What all kinds of windows have in common: lateness, closing, results."""

    def __init__(self, input: Node, options: Options, by_value: bool) -> None:
        super().__init__()
        self.inputs = (input,)
        self._options, self._by_value = options, by_value
        self.delay = int(options["late"][1] * SECOND) if options["late"][0] == "correct" else 0
        self.aside: list[Mapping[str, Any]] = []
        self._sizes = [int(size * SECOND) for size in options["window"][1:]]

    def after(self, epoch: Epoch) -> Iterable[Fact]:
        start, end = self.judged
        came, went = self.inputs[0].came, {row.id for row in self.inputs[0].went}
        late, corrected = self.take(came, went, start, start - self.delay)
        if self._options["late"][0] == "side":
            self.aside += [{**row.values, "_watermark": moment(start)} for row in late]
            self.count("in", len(came), late_aside=len(late))
        else:
            self.count("in", len(came), late_dropped=len(late))
        self.counts["in"]["corrected"] = corrected
        return list(self.shown(end, end - self.delay))

    @abstractmethod
    def take(self, came: list[Fact], went: set[Hashable], start: int, limit: int) -> tuple[list[Fact], int]:
        """Takes rows in; gives those that are late when what ended by `limit` is final, and how many of the others came
        to a window that had ended by `start`, and so had been issued."""

    @abstractmethod
    def shown(self, end: int, final: int) -> Iterable[Fact]:
        """The results at this watermark; what ended by `final` does not change any more."""

    def result(self, rows: list[Fact], bounds: Bounds, span: int | None) -> Fact:
        by = self._options["by"]
        results = {made.name: aggregate(made, rows, self._by_value, span) for made in self._options["aggregations"]}
        window = {"window_start": moment(bounds[0]), "window_end": moment(bounds[1])}
        values = {**{name: rows[0].values[name] for name in by}, **window, **results}
        return Fact((key_of(rows[0], by), bounds), values, bounds[1])


class Aligned(Window):
    """Tumbling and hopping windows: a row is in those of its windows that were open."""

    def __init__(self, input: Node, options: Options, by_value: bool) -> None:
        super().__init__(input, options, by_value)
        tumbling = options["window"][0] == "tumbling"
        self._size = self._sizes[0]
        self._every = self._size if tumbling else self._sizes[1]
        self._offset = self._sizes[1] if tumbling and len(self._sizes) > 1 else 0
        self._rows: dict[tuple[Hashable, int], dict[Hashable, Fact]] = {}

    def _starts(self, time: int) -> list[int]:
        last = (time - self._offset) // self._every * self._every + self._offset
        return list(range(last, time - self._size, -self._every))

    def take(self, came: list[Fact], went: set[Hashable], start: int, limit: int) -> tuple[list[Fact], int]:
        for rows in self._rows.values():
            for id in went & rows.keys():
                del rows[id]
        late, corrected = [], 0
        for row in came:
            first = [first for first in self._starts(row.time) if first + self._size > limit]
            for one in first:
                self._rows.setdefault((key_of(row, self._options["by"]), one), {})[row.id] = row
            late += [] if first else [row]
            corrected += any(one + self._size <= start for one in first)
        return late, corrected

    def shown(self, end: int, final: int) -> Iterable[Fact]:
        for (_, start), rows in self._rows.items():
            if rows and (self._options["update"] or start + self._size <= end):
                yield self.result(list(rows.values()), (start, start + self._size), self._size)


class Sliding(Window):
    """For every time of a key the window that ends with it, both rows of one time included."""

    def __init__(self, input: Node, options: Options, by_value: bool) -> None:
        super().__init__(input, options, by_value)
        self._size = self._sizes[0]
        self._rows: dict[Hashable, Fact] = {}
        self._anchored: set[Hashable] = set()
        self._frozen: dict[tuple[Hashable, int], Fact] = {}

    def take(self, came: list[Fact], went: set[Hashable], start: int, limit: int) -> tuple[list[Fact], int]:
        self._anchored -= went
        self._rows = {id: row for id, row in self._rows.items() if id not in went}
        late = []
        for row in came:
            if row.time + self._size <= limit:
                late.append(row)
                continue
            self._rows[row.id] = row
            if row.time >= limit:
                self._anchored.add(row.id)
        # A row is in the windows that end with it or later, of which those are taken up again that ended from `limit` on.
        return late, sum(row.time < start for row in came if row not in late) if limit < start else 0

    def shown(self, end: int, final: int) -> Iterable[Fact]:
        by = self._options["by"]
        current = dict(self._frozen)
        for id in self._anchored:
            key, time = key_of(self._rows[id], by), self._rows[id].time
            if (key, time) not in current:
                rows = [
                    row
                    for row in self._rows.values()
                    if key_of(row, by) == key and time - self._size < row.time <= time
                ]
                made = self.result(rows, (time - self._size, time), self._size)
                kept = {name: self._rows[id].values[name] for name in self._options["keep"]}
                current[key, time] = replace(made, values={**made.values, **kept})
        self._frozen = {anchor: row for anchor, row in current.items() if anchor[1] < final}
        return [row for (_, time), row in current.items() if self._options["update"] or time < end]


class Sessions(Window):
    """Rows of a key less than `gap` apart."""

    def __init__(self, input: Node, options: Options, by_value: bool) -> None:
        super().__init__(input, options, by_value)
        self._gap = self._sizes[0]
        self._rows: dict[Hashable, Fact] = {}
        self._frozen: list[Fact] = []

    def _sessions(self) -> list[list[Fact]]:
        cut: list[list[Fact]] = []
        by_key: dict[Hashable, list[Fact]] = {}
        for row in self._rows.values():
            by_key.setdefault(key_of(row, self._options["by"]), []).append(row)
        for rows in by_key.values():
            rows.sort(key=lambda row: row.time)
            cut.append([])
            for row in rows:
                if cut[-1] and row.time - cut[-1][-1].time >= self._gap:
                    cut.append([])
                cut[-1].append(row)
        return cut

    def take(self, came: list[Fact], went: set[Hashable], start: int, limit: int) -> tuple[list[Fact], int]:
        self._rows = {id: row for id, row in self._rows.items() if id not in went}
        issued = {row.id for rows in self._sessions() if rows[-1].time + self._gap <= start for row in rows}
        self._rows |= {row.id: row for row in came}
        late = [row for rows in self._sessions() if rows[-1].time + self._gap <= limit for row in rows]
        for row in late:
            del self._rows[row.id]
        fresh, corrected = {row.id for row in came}, 0
        for rows in self._sessions():
            ids = {row.id for row in rows}
            if rows[-1].time + self._gap <= start or ids & issued:
                corrected += len(ids & fresh)
        return late, corrected

    def shown(self, end: int, final: int) -> Iterable[Fact]:
        current = list(self._frozen)
        for rows in self._sessions():
            closes = rows[-1].time + self._gap
            result = self.result(rows, (rows[0].time, closes), None)
            if self._options["update"] or closes <= end:
                current.append(result)
            if closes <= final:
                self._frozen.append(result)
                for row in rows:
                    del self._rows[row.id]
        return current


KINDS: dict[str, type[Window]] = {"tumbling": Aligned, "hopping": Aligned, "sliding": Sliding, "session": Sessions}
