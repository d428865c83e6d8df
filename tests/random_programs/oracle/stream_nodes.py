"""Nodes that make streams of streams, and what is looked up in a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from random_programs.oracle.facts import SECOND, Epoch, Fact, Node, Version
from random_programs.oracle.joined import Joined
from random_programs.values import canonical, moment

Options = Mapping[str, Any]


def key_of(row: Fact, names: Iterable[str]) -> tuple[Hashable, ...]:
    return tuple(canonical(row.values[name]) for name in names)


class Dedupe(Node):
    """The first row in the order of the log; rows no further than `within` from a kept one are repeats."""

    def __init__(self, input: Node, options: Options) -> None:
        super().__init__()
        self.inputs = (input,)
        self._on, self._within = options["on"], int(options["within"] * SECOND)
        self._kept: dict[Hashable, list[int]] = {}

    def after(self, epoch: Epoch) -> Iterable[Fact]:
        fresh, late = [], 0
        came = sorted(self.inputs[0].came, key=lambda row: row.log_order)
        for row in came:
            kept = self._kept.setdefault(key_of(row, self._on), [])
            if row.time < self.judged[0] - self._within:
                late += 1
            elif all(abs(time - row.time) > self._within for time in kept):
                kept.append(row.time)
                fresh.append(row)
        self.count("in", len(came), late_dropped=late, duplicates=len(came) - late - len(fresh))
        return [*self.rows.values(), *fresh]


class Sample(Node):
    """The rows of some keys; which, a function says."""

    def __init__(self, input: Node, options: Options, chosen: Callable[[Hashable], bool]) -> None:
        super().__init__()
        self.inputs = (input,)
        self._by, self._chosen = options["by"], chosen

    def after(self, epoch: Epoch) -> Iterable[Fact]:
        self.count("in", len(self.inputs[0].came))
        return [row for row in self.inputs[0].rows.values() if self._chosen(key_of(row, self._by))]


class CountUp(Node):
    """The step of a user: each row of a key with its number."""

    def __init__(self, input: Node, options: Options) -> None:
        super().__init__()
        self.inputs = (input,)
        self._by = options["by"]
        self._so_far: Counter[Hashable] = Counter()

    def after(self, epoch: Epoch) -> Iterable[Fact]:
        made = []
        for row in sorted(self.inputs[0].came, key=lambda row: row.log_order):
            key = key_of(row, self._by)
            self._so_far[key] += 1
            number = self._so_far[key]
            values = {**{name: row.values[name] for name in self._by}, "n": number}
            made.append(replace(row, id=(key, number), values=values))
        self.count("in", len(made))
        return [*self.rows.values(), *made]


class Lookup(Node):
    """Each row with the table's row as it is after the epoch in which the row was read."""

    def __init__(self, left: Node, right: Node, options: Options, joined: Joined) -> None:
        super().__init__()
        self.inputs = (left, right)
        self._joined, self._how = joined, options["how"]

    @property
    def judged(self) -> tuple[int, int]:
        return self.inputs[0].watermarks

    def after(self, epoch: Epoch) -> Iterable[Fact]:
        left, table = self.inputs
        gone = {row.id for row in left.went}
        kept = [row for row in self.rows.values() if row.id not in gone]
        by_key = {self._joined.key("right", row.values): row for row in table.rows.values()}
        for row in left.came:
            key = self._joined.key("left", row.values)
            found = by_key.get(key) if key is not None else None
            if found or self._how == "left":
                kept.append(replace(row, values=self._joined.values(row.values, found and found.values)))
        self.count("left", len(left.came))
        return kept


class AsOf(Node):
    """Each row with the version of the table's row that was valid at the row's time."""

    def __init__(self, left: Node, right: Node, options: Options, joined: Joined) -> None:
        super().__init__()
        self.inputs = (left, right)
        self._joined, self._how = joined, options["how"]
        self._waits = options["late"][0] == "drop"
        self.delay = 0 if self._waits else int(options["late"][1] * SECOND)
        self._accepted: dict[Hashable, Fact] = {}
        self._versions: dict[Hashable, list[Version]] = {}

    def after(self, epoch: Epoch) -> Iterable[Fact]:
        (left, right), (start, end) = self.inputs, self.judged
        oldest = start - self.delay
        for row in left.went:
            self._accepted.pop(row.id, None)
        timely = [row for row in left.came if row.time >= oldest]
        self._accepted |= {row.id: row for row in timely}
        for version in right.versions:
            if version.time >= oldest:
                self._versions.setdefault(self._joined.compared(version.key), []).append(version)
        self.count("left", len(left.came), late_dropped=len(left.came) - len(timely))
        late = sum(version.time < oldest for version in right.versions)
        self.count("right", len(right.versions), late_dropped=late)
        for row in self._accepted.values():
            if self._waits and row.time >= end:
                continue
            found = self._valid(row)
            if found or self._how == "left":
                answer = {**found.values, "_version": f"{found.order[1]}:{found.order[2]}"} if found else None
                received = row.time if self._waits else row.received  # those that wait come in the order of event time
                yield replace(row, values=self._joined.values(row.values, answer), received=received)

    def _valid(self, row: Fact) -> Version | None:
        key = self._joined.key("left", row.values)
        known = [one for one in self._versions.get(key, []) if one.time <= row.time]
        newest = max(known, key=lambda one: (one.time, one.order), default=None)
        return newest if newest is not None and newest.values is not None else None


class JoinStreams(Node):
    """Pairs whose times lie within the bounds, and rows alone once no partner can come."""

    def __init__(self, left: Node, right: Node, options: Options, joined: Joined) -> None:
        super().__init__()
        self.inputs = (left, right)
        self._joined, self._how = joined, options["how"]
        self._lo, self._hi = (int(bound * SECOND) for bound in options["within"])
        self._late = options["late"]
        self._horizon = int(self._late[0][1] * SECOND) if self._late[0][0] == "correct" else 0
        self.delay = max(self._hi, -self._lo, 0) + self._horizon
        self.aside: dict[str, list[Mapping[str, Any]]] = {}
        self._accepted: tuple[dict[Hashable, Fact], dict[Hashable, Fact]] = ({}, {})

    def after(self, epoch: Epoch) -> Iterable[Fact]:
        start, end = self.judged
        for name, node, accepted, late in zip(("left", "right"), self.inputs, self._accepted, self._late, strict=True):
            for row in node.went:
                accepted.pop(row.id, None)
            timely = [row for row in node.came if row.time >= start - self._horizon]
            accepted |= {row.id: row for row in timely}
            place = "late_aside" if late[0] == "side" else "late_dropped"
            self.count(name, len(node.came), **{place: len(node.came) - len(timely)})
            if late[0] == "side":
                missed = [{**row.values, "_watermark": moment(start)} for row in node.came if row.time < start]
                self.aside.setdefault(late[1], []).extend(missed)
        lefts, rights = (list(accepted.values()) for accepted in self._accepted)
        paired: set[tuple[str, Hashable]] = set()
        for left in lefts:
            for right in rights:
                key = self._joined.key("left", left.values)
                if (
                    key is not None
                    and key == self._joined.key("right", right.values)
                    and self._lo <= right.time - left.time <= self._hi
                ):
                    paired |= {("left", left.id), ("right", right.id)}
                    values = self._joined.values(left.values, right.values)
                    received = max(left.received, right.received)
                    yield Fact((left.id, right.id), values, left.time, (), received)
        if self._how in ("left", "full"):
            for row in lefts:
                if ("left", row.id) not in paired and row.time + self._hi < end:
                    yield Fact((row.id, None), self._joined.values(row.values, None), row.time, (), row.received)
        if self._how in ("right", "full"):
            for row in rights:
                if ("right", row.id) not in paired and row.time - self._lo < end:
                    yield Fact((None, row.id), self._joined.values(None, row.values), row.time, (), row.received)
