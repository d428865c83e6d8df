"""How rows get from origins to targets: a branch for every way, with the columns it takes along and their types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import pyarrow as pa

from riverrun import ddl
from riverrun.columns import BRANCH, DELETED
from riverrun.errors import Invalid
from riverrun.flow.expressions import Expression
from riverrun.flow.nodes import Node, StreamSource, Transform
from riverrun.runtime.branch import PATHS, Composition, Item, Path
from riverrun.runtime.job import CARRIED_FIELDS, RAW, SQL_TYPES, Branch, hidden_names, sql_fields, struct_name


class Analyst(Protocol):
    """Knows what the flow could not infer."""

    def types(self, origin: str, fields: pa.Schema, items: Sequence[Item]) -> Mapping[str, pa.DataType]:
        """Types of expressions over the struct of an origin with these fields."""

    def transformed(self, node: Transform, columns: pa.Schema) -> pa.Schema:
        """The columns that a transform makes of these."""


Wanted = list[tuple[str, Expression | None]]
"""The columns a target reads: (name, expression over its input's columns; None: the column itself)."""


class Wiring:
    """Branches as they are laid, and the value columns of every origin so far."""

    def __init__(self, flow: str, analyst: Analyst | None) -> None:
        self._flow = flow
        self._analyst = analyst
        self.branches: list[Branch] = []
        self.outputs: dict[str, pa.Schema] = {}
        self.transforms: set[str] = set()
        self.passing: set[str] = set()  # stateful nodes that hand rows on under the ids they came with

    def compose(
        self,
        path: Path,
        wanted: Wanted,
        below: Node,
        kinds: Mapping[str, pa.DataType],
        versions: bool,
        hidden: Sequence[str],
    ) -> tuple[tuple[Item, ...], str | None, pa.Schema]:
        name = path.origin.id + (RAW if versions else "")
        is_source = versions or isinstance(path.origin, StreamSource)
        origin = self.outputs[name]
        known_here = {**dict.fromkeys(origin.names), **dict.fromkeys(hidden_names(is_source))}
        composed = Composition(known_here, struct_name(name)).follow(path)
        wanted = [*wanted, *((part, None) for part in hidden if part in origin.names)]
        items = [composed.item(column, source) for column, source in wanted]
        types: dict[str, pa.DataType] = dict(kinds)
        for item, (column, source) in zip(items, wanted, strict=True):
            known = source.type if source else below.schema.get(column)
            if column in kinds:
                continue
            if item.column is not None and item.column in origin.names:
                types[column] = origin.field(item.column).type
            elif item.column is not None:
                types[column] = SQL_TYPES[item.column]
            elif known is not None:
                types[column] = ddl.to_arrow(known)
        unknown = [item for item in items if item.name not in types]
        if unknown:
            if self._analyst is None:
                raise Invalid(f"{below.place}: the type of {unknown[0].sql} is not known without Spark", hint="Cast it")
            types.update(self._analyst.types(name, sql_fields(origin, is_source), unknown))
        condition = composed.condition
        if versions:  # a version that does not meet the condition says that there is no row from now on
            items.append(composed.absent(DELETED))
            types[DELETED] = pa.bool_()
            condition = None
        schema = pa.schema([*((item.name, types[item.name]) for item in items), *CARRIED_FIELDS])
        return tuple(items), condition, schema

    def add(
        self,
        origin: str,
        target: str,
        input: str,
        items: tuple[Item, ...],
        condition: str | None,
        route: tuple[str, ...],
        schema: pa.Schema,
        hidden: Sequence[str] = (),
        placed: bool = False,
        united: bool = False,
    ) -> Branch:
        path = self._ways(target, input)
        if path + self._told_apart(origin) > PATHS:
            raise Invalid(
                f"{self._flow}: rows come to {target} in more than {PATHS} ways", hint="Split the union in two flows"
            )
        # The way a row came is told where branches come together, also if another union further up told one already.
        added = tuple(name for name in hidden if name not in schema.names or (name == BRANCH and united))
        in_spark = origin in self.transforms or target in self.transforms
        number = len(self.branches)
        branch = Branch(number, origin, target, input, items, condition, route, schema, path, added, in_spark, placed)
        self.branches.append(branch)
        return branch

    def _ways(self, target: str, input: str) -> int:
        """In how many ways rows come to an input so far; they are numbered, and a row's id has the number."""
        into = [b for b in self.branches if b.target == target and b.input == input]
        return sum(self._told_apart(branch.origin) for branch in into)

    def _told_apart(self, origin: str) -> int:
        """How many ways the ids of an origin's rows tell apart already."""
        if origin not in self.passing and origin not in self.transforms:
            return 1
        first = next(branch.input for branch in self.branches if branch.target == origin)
        return self._ways(origin, first)
