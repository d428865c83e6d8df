"""Stateful nodes over one input, without windows: dedupe, latest, group, top, changes."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from riverrun.columns import ROW_ID, TIME
from riverrun.ddl import Column, Struct
from riverrun.flow.aggregates import Measure
from riverrun.flow.expressions import Order
from riverrun.flow.nodes.node import IDENTITY, Columns, Node
from riverrun.flow.schema import INT, STRING, Schema


@dataclass(frozen=True, eq=False, kw_only=True)
class Dedupe(Node):
    """The first row in log order of those with equal values at most `within` apart."""

    kind = "dedupe"
    stateful = True
    on: tuple[str, ...] = field(metadata=IDENTITY)
    within: int

    @property
    def routes(self) -> tuple[tuple[str, ...], ...]:
        return (self.on,)

    @property
    def label(self) -> str:
        return f"dedupe {', '.join(self.on)}"


@dataclass(frozen=True, eq=False, kw_only=True)
class Latest(Node):
    """The last row of each key by event time; of equal times, the later in the log."""

    kind = "latest"
    stateful = True
    by: tuple[str, ...] = field(metadata=IDENTITY)

    @property
    def is_table(self) -> bool:
        return True

    @property
    def key(self) -> tuple[str, ...]:
        return self.by

    @property
    def retracts(self) -> bool:
        return True

    @property
    def routes(self) -> tuple[tuple[str, ...], ...]:
        return (self.by,)

    @property
    def label(self) -> str:
        return f"latest by {', '.join(self.by)}"


@dataclass(frozen=True, eq=False, kw_only=True)
class Group(Node):
    """Aggregates over all of history, one row per group; retractions count."""

    kind = "group"
    stateful = True
    by: tuple[str, ...] = field(metadata=IDENTITY)
    measures: tuple[Measure, ...]

    @cached_property
    def schema(self) -> Schema:
        before = self.inputs[0].schema
        keys = [(name, before[name]) for name in self.by]
        return Schema((*keys, *((made.name, made.type) for made in self.measures)))

    @property
    def is_table(self) -> bool:
        return True

    @property
    def key(self) -> tuple[str, ...]:
        return self.by

    @property
    def time(self) -> str:
        return TIME

    @property
    def retracts(self) -> bool:
        return True

    @property
    def routes(self) -> tuple[tuple[str, ...], ...]:
        return (self.by,)

    @property
    def identity(self) -> str:
        return f"{super().identity}|{','.join(made.name for made in self.measures)}"

    @property
    def label(self) -> str:
        made = ", ".join(f"{part.name} = {part}" for part in self.measures)
        return f"group by {', '.join(self.by)}: {made}" if self.by else f"all: {made}"

    def needs(self, wanted: Columns) -> tuple[Columns, ...]:
        return (frozenset(self.by) | {column for made in self.measures for column in made.columns},)


@dataclass(frozen=True, eq=False, kw_only=True)
class Top(Node):
    """The first `n` rows of each group in an order; `ties` keeps rows equal to the last, `rank` names a rank column."""

    kind = "top"
    stateful = True
    n: int
    order: tuple[Order, ...] = field(metadata=IDENTITY)
    per: tuple[str, ...] = field(metadata=IDENTITY)
    rank: str | None = None
    ties: bool = False

    @cached_property
    def schema(self) -> Schema:
        before = self.inputs[0].schema
        added = ((self.rank, INT),) if self.rank else ()
        return Schema((*before.columns, *added), before.open)

    @property
    def is_table(self) -> bool:
        return True

    @property
    def key(self) -> tuple[str, ...]:
        inner = self.inputs[0].key if self.inputs[0].is_table else (ROW_ID,)
        return tuple(dict.fromkeys([*self.per, *inner]))

    @property
    def retracts(self) -> bool:
        return True

    @property
    def routes(self) -> tuple[tuple[str, ...], ...]:
        return (self.per,)

    @property
    def label(self) -> str:
        order = ", ".join(f"{part.expression}{' desc' if part.descending else ''}" for part in self.order)
        return f"top {self.n} by {order}" + (f" per {', '.join(self.per)}" if self.per else "")


@dataclass(frozen=True, eq=False, kw_only=True)
class Newest(Top):
    """The newest row per key by event time, of a stream that takes rows back."""

    kind = "newest"
    n: int = 1

    @property
    def key(self) -> tuple[str, ...]:
        return self.per


@dataclass(frozen=True, eq=False, kw_only=True)
class Changes(Node):
    """A table's changes as a stream of rows: what happened, the row before, the row after."""

    kind = "changes"
    stateful = True

    @cached_property
    def schema(self) -> Schema:
        before = self.inputs[0].schema
        fields = [Column(name, known) for name, known in before.columns if known is not None]
        whole = not before.open and len(fields) == len(before)
        row = Struct(tuple(fields)) if whole else None
        return Schema((("_op", STRING), ("_before", row), ("_after", row)))

    @property
    def is_table(self) -> bool:
        return False

    @property
    def key(self) -> tuple[str, ...]:
        return ()

    @property
    def time(self) -> str:
        return TIME

    @property
    def retracts(self) -> bool:
        return False

    @property
    def routes(self) -> tuple[tuple[str, ...], ...]:
        return (self.inputs[0].key,)
