"""Nodes that make tables, and streams of what changes in them."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from random_programs.expressions import value
from random_programs.oracle.aggregates import aggregate
from random_programs.oracle.facts import Epoch, Fact, Node
from random_programs.oracle.joined import Joined
from random_programs.oracle.stream_nodes import key_of
from random_programs.values import canonical, rank

Options = Mapping[str, Any]


class Group(Node):
    """Aggregates of all rows there are, by group."""

    def __init__(self, input: Node, options: Options, by_value: bool) -> None:
        super().__init__()
        self.inputs = (input,)
        self._by, self._aggregations, self._by_value = options["by"], options["aggregations"], by_value

    def after(self, epoch: Epoch) -> Iterable[Fact]:
        self.count("in", len(self.inputs[0].came))
        groups: dict[Hashable, list[Fact]] = {}
        for row in self.inputs[0].rows.values():
            groups.setdefault(key_of(row, self._by), []).append(row)
        for key, rows in groups.items():
            results = {made.name: aggregate(made, rows, self._by_value) for made in self._aggregations}
            values = {**{name: rows[0].values[name] for name in self._by}, **results}
            yield Fact(key, values, max(row.time for row in rows))


class Latest(Node):
    """The last row of each key by event time; of equal times, the later in the log."""

    def __init__(self, input: Node, options: Options) -> None:
        super().__init__()
        self.inputs = (input,)
        self._key = options["key"]

    def after(self, epoch: Epoch) -> Iterable[Fact]:
        self.count("in", len(self.inputs[0].came))
        last: dict[Hashable, Fact] = {}
        for row in sorted(self.inputs[0].rows.values(), key=lambda row: (row.time, row.place)):
            last[key_of(row, self._key)] = row
        return [replace(row, id=key) for key, row in last.items()]


class Top(Node):
    """The first rows of each group in an order; rows that are equal in it follow by their key, or as in the log."""

    def __init__(self, input: Node, options: Options, key: tuple[str, ...] | None) -> None:
        super().__init__()
        self.inputs = (input,)
        self._options, self._key = options, key

    def after(self, epoch: Epoch) -> Iterable[Fact]:
        self.count("in", len(self.inputs[0].came))
        groups: dict[Hashable, list[Fact]] = {}
        for row in self.inputs[0].rows.values():
            groups.setdefault(key_of(row, self._options["per"]), []).append(row)
        for key, rows in groups.items():
            yield from self._first(key, rows)

    def _first(self, group: Hashable, rows: list[Fact]) -> Iterable[Fact]:
        rows.sort(key=lambda row: row.place if self._key is None else [rank(row.values[name]) for name in self._key])
        for made, descending, nulls_first in reversed(self._options["order"]):
            rows.sort(key=lambda row: rank(value(made, row.values)), reverse=descending)
            rows.sort(key=lambda row: (value(made, row.values) is None) != nulls_first)
        place, before = 0, None
        for number, row in enumerate(rows, 1):
            ordered_by = [rank(value(made, row.values)) for made, _, _ in self._options["order"]]
            place = place if self._options["ties"] and ordered_by == before else number
            before = ordered_by
            if place <= self._options["n"]:
                shown = {self._options["rank"]: place} if self._options["rank"] else {}
                yield replace(row, id=(group, row.id), values={**row.values, **shown})


class JoinTables(Node):
    """The join of the two tables as they are. Its key is those of both: `right_key` are the right's columns in the
    result, and `hidden` says that those are not all."""

    def __init__(
        self, left: Node, right: Node, options: Options, joined: Joined, right_key: Sequence[str], hidden: bool
    ) -> None:
        super().__init__()
        self.inputs = (left, right)
        self._joined, self._how = joined, options["how"]
        self._right_key, self._hidden = right_key, hidden

    def after(self, epoch: Epoch) -> Iterable[Fact]:
        lefts, rights = (list(node.rows.values()) for node in self.inputs)
        paired: set[Hashable] = set()
        for left in lefts:
            key = self._joined.key("left", left.values)
            found = [row for row in rights if key is not None and self._joined.key("right", row.values) == key]
            paired |= {row.id for row in found}
            for right in found:
                yield self._made(left, right)
            if not found and self._how in ("left", "full"):
                yield self._made(left, None)
        if self._how == "full":
            for right in rights:
                if right.id not in paired:
                    yield self._made(None, right)

    def _made(self, left: Fact | None, right: Fact | None) -> Fact:
        values = self._joined.values(left and left.values, right and right.values)
        parts = tuple(canonical(values[name]) for name in self._right_key)
        unseen = right.id if right is not None and (self._hidden or left is None) else None
        return Fact((left and left.id, parts, unseen), values, 0)


class Changes(Node):
    """One row for each key that is another one after the epoch."""

    def __init__(self, input: Node) -> None:
        super().__init__()
        self.inputs = (input,)

    def after(self, epoch: Epoch) -> Iterable[Fact]:
        table = self.inputs[0]
        before, now = ({row.id: row for row in rows} for rows in (table.went, table.came))
        made = []
        for key in before.keys() | now.keys():
            old, new = before.get(key), now.get(key)
            if old and new and old.content == new.content:
                continue
            op = "update" if old and new else "insert" if new else "delete"
            values = {"_op": op, "_before": old and dict(old.values), "_after": new and dict(new.values)}
            time = new.time if new else max(old.time, self.judged[0]) if old else 0
            made.append(Fact((epoch.number, key), values, time))
        return [*self.rows.values(), *made]


class Versus(Node):
    """Every window beside the same one earlier."""

    def __init__(self, input: Node, options: Options, key: tuple[str, ...]) -> None:
        super().__init__()
        self.inputs = (input,)
        self._earlier, self._key = timedelta(seconds=options["earlier"]), key

    def after(self, epoch: Epoch) -> Iterable[Fact]:
        by = [name for name in self._key if not name.startswith("window_")]
        known = {(key_of(row, by), row.values["window_start"]): row for row in self.inputs[0].rows.values()}
        for (key, start), row in known.items():
            earlier = known.get((key, start - self._earlier))
            before = {
                f"{name}_before": None if earlier is None else earlier.values[name]
                for name in row.values
                if name not in self._key
            }
            yield replace(row, values={**row.values, **before})
