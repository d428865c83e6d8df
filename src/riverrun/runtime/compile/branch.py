"""Laying branches: how rows get from origins to targets, with the columns they take along, their types and the engine."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

from riverrun import ddl
from riverrun.columns import BRANCH, DELETED, PARTITION, RECEIVED
from riverrun.errors import Invalid
from riverrun.expressions import Unverified, translate
from riverrun.expressions.typing import column_types
from riverrun.flow.composition import Composition, Item, Path, WrittenExpression
from riverrun.flow.expressions import Wanted
from riverrun.flow.operators.node import Node
from riverrun.runtime.compile.job import (
    RAW,
    Branch,
    Engine,
    carried_names,
    sql_fields,
    struct_name,
    with_carried,
)
from riverrun.runtime.compile.row_id import WAYS, partition_in_log


class Analyst(Protocol):
    """Knows what neither the flow nor the verified set of expressions can tell: Spark."""

    def types(self, origin: str, fields: pa.Schema, items: Sequence[Item]) -> Mapping[str, pa.DataType]:
        """Types of expressions over the struct of an origin with these fields."""

    def transformed(self, node: Node, columns: pa.Schema) -> pa.Schema:
        """The columns that a transform makes of these."""


@dataclass(frozen=True)
class Target:
    """Where rows go: an input of a stateful node, by the columns `route`; or an end, or a transform. `place` is the line in
    which it was declared."""

    id: str
    place: str
    input: str = ""
    route: tuple[str, ...] = ()


@dataclass(frozen=True)
class Request:
    """What a target wants of a node: columns, some in another type; hidden parts of the key; versions, as they came;
    absences: rows that do not meet a condition, too, and which they are.

    `united` says that rows come to the target in several ways.
    """

    node: Node
    wanted: Wanted
    types: Mapping[str, pa.DataType] = field(default_factory=dict)
    hidden: tuple[str, ...] = ()
    versions: bool = False
    absences: bool = False
    united: bool = False


class Branches:
    """Branches as they are laid, and the value columns of every origin so far.

    `engine="spark"` has Spark compute every expression. Without an analyst, what is not verified is refused.
    """

    def __init__(self, flow: str, analyst: Analyst | None, engine: Engine = "arrow") -> None:
        self._flow = flow
        self._analyst = analyst
        self._engine = engine
        self._keeps_ids: set[str] = set()  # origins that hand rows on under the ids they came with
        self.laid: list[Branch] = []
        self.outputs: dict[str, pa.Schema] = {}

    def add_origin(self, node: Node, columns: pa.Schema) -> None:
        """From now on rows may begin at this node, with these columns."""
        self.outputs[node.id] = columns
        if node.keeps_row_ids or node.by_spark:
            self._keeps_ids.add(node.id)

    def lay(self, path: Path, target: Target, request: Request, by_spark: bool = False) -> Branch:
        """A branch along a path; `by_spark`: to a transform."""
        origin = path.origin.id + (RAW if request.versions else "")
        is_source = request.versions or RECEIVED in path.origin.hidden
        columns = self.outputs[origin]
        composed = _begin(columns, is_source, origin).follow(path)
        composed.go_to(target.place)
        wanted = [*request.wanted, *((part, None) for part in request.hidden if part in columns.names)]
        items = [composed.item(name, source) for name, source in wanted]
        condition = composed.condition
        if request.absences:  # a version that does not meet the condition says that there is no row from now on
            if condition is not None:
                items = [_where(condition, item) for item in items]
            items.append(composed.absent(DELETED))
            condition = None
        fields = sql_fields(columns, is_source)
        items = [_in_type(item, request.types.get(item.name), fields) for item in items]
        in_spark = by_spark or path.origin.by_spark
        texts = _texts(items, condition, composed.time)
        written = composed.written_in(texts)
        engine, reason = ("spark", None) if in_spark else self._choose(texts, fields, written)
        types = self._types(origin, fields, items, request, engine)
        schema = with_carried(pa.schema([(item.name, types[item.name]) for item in items]))
        # The way a row came is told where branches come together, also if another union further up told one already.
        told = [name for name in request.hidden if name not in schema.names or (name == BRANCH and request.united)]
        branch = Branch(
            index=len(self.laid),
            origin=origin,
            target=target.id,
            input=target.input,
            items=tuple(items),
            condition=condition,
            time=composed.time,
            route=target.route,
            schema=schema,
            engine=engine,
            reason=reason,
            way=self._next_way(origin, target),
            hidden=request.hidden,
            added=tuple(told),
            by_position=path.origin.row_id_is_position,
            written=written,
        )
        self.laid.append(branch)
        return branch

    def pick(self, origin: str, target: Target, columns: pa.Schema) -> Branch:
        """A branch that takes all columns as they are."""
        items = tuple(Item(name, name, _column(origin, name)) for name in columns.names)
        branch = Branch(
            len(self.laid),
            origin,
            target.id,
            target.input,
            items,
            None,
            None,
            target.route,
            with_carried(columns),
            "arrow",
        )
        self.laid.append(branch)
        return branch

    def _choose(
        self, texts: Sequence[str], fields: pa.Schema, written: Sequence[WrittenExpression]
    ) -> tuple[Engine, str | None]:
        """Who computes the expressions, and why it has to be Spark."""
        if not texts:
            return "arrow", None
        if self._engine == "spark":
            return "spark", "the setting expressions = spark"
        for text in texts:
            try:
                translate(text, column_types(fields))
            except Unverified as error:
                reason = _as_written(error.message)
                if self._analyst is None:
                    place = next((f"{one.place}: " for one in written if one.sql in text), "")
                    raise Unverified(f"{place}{reason}", hint=error.hint) from None
                return "spark", reason
        return "arrow", None

    def _types(
        self, origin: str, fields: pa.Schema, items: Sequence[Item], request: Request, engine: Engine
    ) -> dict[str, pa.DataType]:
        """The types of a branch's columns, by name."""
        said = {name: source.type if source else request.node.schema.get(name) for name, source in request.wanted}
        types: dict[str, pa.DataType] = {}
        unknown = []
        for item in items:
            known = said.get(item.name)
            if item.name in request.types:
                types[item.name] = request.types[item.name]
            elif item.column is not None:
                types[item.name] = fields.field(item.column).type
            elif item.name == DELETED:
                types[item.name] = pa.bool_()
            elif known is not None:
                types[item.name] = ddl.to_arrow(known)
            elif engine == "arrow":
                types[item.name] = ddl.to_arrow(translate(item.sql, column_types(fields)).type)
            else:
                unknown.append(item)
        if unknown:
            assert self._analyst is not None
            types.update(self._analyst.types(origin, fields, unknown))
        return types

    def _next_way(self, origin: str, target: Target) -> int:
        way = self._ways(target.id, target.input)
        if way + self._told_apart(origin) > WAYS:
            raise Invalid(
                f"{self._flow}: rows come to {target.id} in more than {WAYS} ways", hint="Split the union in two flows"
            )
        return way

    def _ways(self, target: str, input: str) -> int:
        """In how many ways rows come to an input so far; they are numbered, and a row's id has the number."""
        into = [branch for branch in self.laid if branch.target == target and branch.input == input]
        return sum(self._told_apart(branch.origin) for branch in into)

    def _told_apart(self, origin: str) -> int:
        """How many ways the ids of an origin's rows tell apart already."""
        if origin not in self._keeps_ids:
            return 1
        first = next(branch.input for branch in self.laid if branch.target == origin)
        return self._ways(origin, first)


def _begin(columns: pa.Schema, is_source: bool, origin: str) -> Composition:
    """A composition in which nothing has happened to the rows of an origin yet."""
    names = [*columns.names, *carried_names(is_source)]
    values = {name: _column(origin, name) for name in names}
    plain = {name: name for name in names}
    # What people call a row's partition is the log's.
    values[PARTITION] = partition_in_log(values[PARTITION])
    del plain[PARTITION]
    return Composition(values, plain)


def _where(condition: str, item: Item) -> Item:
    """What is computed only for rows that meet a condition: for others it may fail."""
    return item if item.column is not None else Item(item.name, None, f"CASE WHEN {condition} THEN {item.sql} END")


def _in_type(item: Item, wanted: pa.DataType | None, fields: pa.Schema) -> Item:
    """The column as another type, where it has one: only an expression converts as Spark does."""
    if wanted is None or (item.column is not None and fields.field(item.column).type == wanted):
        return item
    return Item(item.name, None, f"CAST({item.sql} AS {ddl.from_arrow(wanted)})")


def _texts(items: Sequence[Item], condition: str | None, time: str | None) -> list[str]:
    """Every expression of a branch."""
    return [item.sql for item in items if item.column is None] + [text for text in (condition, time) if text]


def _as_written(text: str) -> str:
    """Without the struct that the columns of an origin are in, which nobody wrote."""
    return re.sub(r"`s_[0-9a-f]+`\.(?:`(\w+)`)?", r"\1", text)


def _column(origin: str, name: str) -> str:
    return f"{ddl.backquoted(struct_name(origin))}.{ddl.backquoted(name)}"
