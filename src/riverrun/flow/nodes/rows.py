"""Stateless nodes: one row in, at most one out."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, reduce
from typing import Any

from riverrun.columns import BRANCH, TIME
from riverrun.flow.expressions import Expression
from riverrun.flow.nodes.node import IDENTITY, Columns, ColumnsOnly, Row
from riverrun.flow.schema import Schema, common

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


@dataclass(frozen=True, eq=False, kw_only=True)
class Select(ColumnsOnly):
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


@dataclass(frozen=True, eq=False, kw_only=True)
class WithColumns(ColumnsOnly):
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


@dataclass(frozen=True, eq=False, kw_only=True)
class Drop(ColumnsOnly):
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


@dataclass(frozen=True, eq=False, kw_only=True)
class Transform(Row):
    """A function from DataFrame to DataFrame, row by row: the way out to plain Spark."""

    kind = "transform"
    function: Callable[[Any], Any]
    columns: Schema

    @property
    def schema(self) -> Schema:
        return self.columns

    @property
    def time(self) -> str:
        return TIME

    @property
    def identity(self) -> str:
        return f"{super().identity}|{self.label}"

    @property
    def label(self) -> str:
        return f"transform {getattr(self.function, '__qualname__', type(self.function).__qualname__)}"

    def settings(self, wanted: Columns) -> dict[str, Any]:
        return {"code": code(self.function), "columns": self.columns}


def code(function: Callable[[Any], Any]) -> str:
    """A hash of the function's text, or of its bytecode where there is no text, and of plain values it encloses."""
    try:
        text = inspect.getsource(function)
    except (OSError, TypeError):
        compiled = getattr(function, "__code__", None)
        text = f"{compiled.co_code!r}{compiled.co_names!r}{compiled.co_consts!r}" if compiled else repr(type(function))
    enclosed = [cell.cell_contents for cell in getattr(function, "__closure__", None) or ()]
    plain = [repr(value) for value in enclosed if isinstance(value, str | int | float | bool | tuple | None)]
    return hashlib.sha256("|".join([text, *plain]).encode()).hexdigest()
