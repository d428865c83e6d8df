"""Nodes that look at one row: it passes or not, with these columns or others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any

from riverrun.columns import BRANCH, TIME
from riverrun.flow.expressions import Expression
from riverrun.flow.operators.node import IDENTITY, Columns, ColumnsNode, Node, Row
from riverrun.flow.schema import Schema, common

if TYPE_CHECKING:
    from riverrun.flow.composition import Composition

Items = tuple[tuple[str, Expression], ...]


@dataclass(frozen=True, eq=False, kw_only=True)
class Where(Row):
    """The rows for which the condition is true."""

    kind = "where"
    condition: Expression = field(metadata=IDENTITY)

    @property
    def label(self) -> str:
        return f"where {self.condition}"

    def needs(self, wanted: Columns) -> tuple[Columns, ...]:
        return (wanted | frozenset(self.condition.columns),)

    def compose(self, rows: Composition, below: Node) -> None:
        rows.keep(self.condition)


@dataclass(frozen=True, eq=False, kw_only=True)
class Select(ColumnsNode):
    """Exactly these columns. In an open schema, `rest` brings along the columns only Spark knows."""

    kind = "select"
    items: Items = field(metadata=IDENTITY)
    rest: bool = False

    @cached_property
    def schema(self) -> Schema:
        return Schema(tuple((name, made.type) for name, made in self.items), open=self.rest)

    @cached_property
    def names(self) -> dict[str, str]:
        """Input column to its new name, for columns that pass unchanged."""
        kept: dict[str, str] = {}
        for name, made in self.items:
            if made.plain:
                kept.setdefault(made.plain, name)
        return kept

    @property
    def key(self) -> tuple[str, ...]:
        return tuple(self.names.get(name, name) for name in self.inputs[0].key)

    @property
    def time(self) -> str:
        return self.names.get(self.inputs[0].time, TIME)

    @property
    def label(self) -> str:
        return "select " + ", ".join(name if made.sql == name else f"{made} as {name}" for name, made in self.items)

    def needs(self, wanted: Columns) -> tuple[Columns, ...]:
        if self.rest:
            return super().needs(wanted)
        return (frozenset(column for name, made in self.items if name in wanted for column in made.columns),)

    def settings(self, wanted: Columns) -> dict[str, Any]:
        return {"items": tuple(part for part in self.items if part[0] in wanted), "rest": self.rest}

    def compose(self, rows: Composition, below: Node) -> None:
        rows.add(self.items) if self.rest else rows.choose(self.items)


@dataclass(frozen=True, eq=False, kw_only=True)
class WithColumns(ColumnsNode):
    """All columns, and these; one of the same name is replaced in its place."""

    kind = "with_columns"
    items: Items = field(metadata=IDENTITY)

    @cached_property
    def schema(self) -> Schema:
        before = self.inputs[0].schema
        made = {name: item.type for name, item in self.items}
        return Schema(tuple({**dict(before.columns), **made}.items()), before.open)

    @property
    def time(self) -> str:
        return TIME if self.inputs[0].time in dict(self.items) else self.inputs[0].time

    @property
    def label(self) -> str:
        return "with " + ", ".join(f"{made} as {name}" for name, made in self.items)

    def needs(self, wanted: Columns) -> tuple[Columns, ...]:
        made = dict(self.items)
        read = (column for name, item in self.items if name in wanted for column in item.columns)
        return (frozenset(name for name in wanted if name not in made) | frozenset(read),)

    def settings(self, wanted: Columns) -> dict[str, Any]:
        return {"items": tuple(part for part in self.items if part[0] in wanted)}

    def compose(self, rows: Composition, below: Node) -> None:
        rows.add(self.items)


@dataclass(frozen=True, eq=False, kw_only=True)
class Drop(ColumnsNode):
    """All columns but these."""

    kind = "drop"
    names: tuple[str, ...] = field(metadata=IDENTITY)

    @cached_property
    def schema(self) -> Schema:
        before = self.inputs[0].schema
        return Schema(tuple(part for part in before.columns if part[0] not in self.names), before.open)

    @property
    def time(self) -> str:
        return TIME if self.inputs[0].time in self.names else self.inputs[0].time

    @property
    def label(self) -> str:
        return f"drop {', '.join(self.names)}"

    def needs(self, wanted: Columns) -> tuple[Columns, ...]:
        return (wanted,)

    def settings(self, wanted: Columns) -> dict[str, Any]:
        return {}

    def compose(self, rows: Composition, below: Node) -> None:
        rows.drop(self.names)

    def widen(self, below: Sequence[str]) -> list[str]:
        return super().widen([name for name in below if name not in self.names])


@dataclass(frozen=True, eq=False, kw_only=True)
class Union(Row):
    """All rows of all inputs, columns matched by name. Rows of tables stay apart: the branch is part of their key."""

    kind = "union"

    @cached_property
    def schema(self) -> Schema:
        first, *others = (node.schema for node in self.inputs)
        columns = []
        for name, known in first.columns:
            columns.append((name, reduce(common, (other[name] for other in others), known)))
        return Schema(tuple(columns), any(node.schema.open for node in self.inputs))

    @property
    def key(self) -> tuple[str, ...]:
        if not self.is_table:
            return ()
        parts = [name for node in self.inputs for name in node.key]
        return tuple(dict.fromkeys([BRANCH, *parts]))

    @property
    def time(self) -> str:
        times = {node.time for node in self.inputs}
        return times.pop() if len(times) == 1 else TIME

    def needs(self, wanted: Columns) -> tuple[Columns, ...]:
        known = [{name.lower(): name for name in node.schema} for node in self.inputs]
        return tuple(frozenset(names.get(name.lower(), name) for name in wanted) for names in known)

    def compose(self, rows: Composition, below: Node) -> None:
        for name, known in self.schema.columns:
            if known is not None and below.schema[name] != known:
                rows.cast(name, known)
