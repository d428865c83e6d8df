"""What streams and tables have in common: the methods that look at one row, and grouping."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn, Self

from riverrun.calls import Misplaced, public_names
from riverrun.columns import WRITTEN
from riverrun.errors import Invalid, did_you_mean
from riverrun.flow import names
from riverrun.flow.aggregates import Aggregate, Measure, measure
from riverrun.flow.expressions import Expression, condition, expression, item, ordering
from riverrun.flow.graph import Graph
from riverrun.flow.matching import name_match
from riverrun.flow.names import Names
from riverrun.flow.operators.group import Group
from riverrun.flow.operators.match import Match
from riverrun.flow.operators.node import Node
from riverrun.flow.operators.rows import Drop, Select, Union, Where, WithColumns
from riverrun.flow.operators.top import Top
from riverrun.flow.operators.transform import Transform
from riverrun.flow.place import caller, declaration
from riverrun.flow.schema import Schema, comparable, is_key
from riverrun.habits import METHODS, TABLE_METHODS

if TYPE_CHECKING:
    from riverrun.flow.table import Table

_IN_QUOTES = 'Columns are named in SQL, in quotes: where("amount > 5"), select("user", "amount * 2 as twice")'


class Relation:
    """A stream or a table of a flow. It holds no rows: it is a node, and methods that declare the next one."""

    def __init__(self, graph: Graph, node: Node) -> None:
        self.graph = graph
        self.node = node

    @property
    def schema(self) -> Schema:
        """Its columns and their types."""
        return self.node.schema

    def __repr__(self) -> str:
        return f"<{type(self).__name__.lower()} {self.node.id} at {self.node.place}: {self.schema}>"

    @declaration
    def __getitem__(self, column: object) -> NoReturn:
        raise Invalid(f"{column!r} in brackets: this is no data frame, it holds no rows", hint=_IN_QUOTES)

    def _add(self, kind: Callable[..., Node], *inputs: Node, **fields: Any) -> Node:
        return self.graph.add(kind(inputs=inputs or (self.node,), place=caller(), **fields))

    def _row(self, kind: Callable[..., Node], *inputs: Node, **fields: Any) -> Self:
        return type(self)(self.graph, self._add(kind, *inputs, **fields))

    def _table(self, kind: Callable[..., Node], **fields: Any) -> Table:
        from riverrun.flow.table import Table

        return Table(self.graph, self._add(kind, **fields))

    def _value(self, sql: str) -> Expression:
        return expression(sql, self.schema, self.node.hidden)

    def _visible_key(self) -> tuple[str, ...]:
        return tuple(name for name in self.node.key if not name.startswith("_"))

    def _refuse_loss(self, what: str, lost: list[str]) -> None:
        if lost:
            raise Invalid(
                f"{what} loses {', '.join(map(repr, lost))}, part of the table's key",
                hint="Keep the key; leave columns out where the table is used",
            )

    @declaration
    def named(self, name: str) -> Self:
        """The same, under a name: pictures, plans, the ledger and metrics show it instead of the node's id."""
        match = next((node for node in self.node.inputs if isinstance(node, Match)), None)
        if match is None:
            self.graph.call(self.node, name)
        else:  # what follows a match only computes its measures
            name_match(self.graph, match, name)
        return self

    @declaration
    def where(self, sql: str) -> Self:
        """The rows for which `sql` is true."""
        return self._row(Where, condition=condition(sql, self.schema, self.node.hidden))

    @declaration
    def select(self, *sql: str) -> Self:
        """Exactly these columns: names, "expression as name", or "*"."""
        if not sql:
            raise Invalid("select needs at least one column")
        items = [part for text in sql for part in item(text, self.schema, self.node.hidden)]
        for name, made in items:
            if not (name in WRITTEN and made.plain == name):
                names.made(name)
        rest = self.schema.open and any(text.strip().startswith("*") for text in sql)
        Schema.of([(name, made.type) for name, made in items])
        kept = {made.plain for _, made in items}
        self._refuse_loss("select", [name for name in self._visible_key() if name not in kept and not rest])
        return self._row(Select, items=tuple(items), rest=rest)

    @declaration
    def with_columns(self, **sql: str) -> Self:
        """All columns, and these, each computed from the row as it was."""
        if not sql:
            raise Invalid("with_columns needs at least one column", hint='Write with_columns(total="price * quantity")')
        items = {}
        for name, text in sql.items():
            known = self.schema.resolve(name) if name in self.schema else names.made(name)
            items[known] = self._value(text)
        self._refuse_loss("with_columns", [name for name in self._visible_key() if name in items])
        return self._row(WithColumns, items=tuple(items.items()))

    @declaration
    def drop(self, *column: str) -> Self:
        """All columns but these."""
        dropped = [self.schema.resolve(name) for name in column]
        if not dropped:
            raise Invalid("drop needs at least one column")
        self._refuse_loss("drop", [name for name in self._visible_key() if name in dropped])
        if set(dropped) >= set(self.schema) and not self.schema.open:
            raise Invalid("drop leaves no column")
        return self._row(Drop, names=tuple(dict.fromkeys(dropped)))

    @declaration
    def union(self, *others: Self) -> Self:
        """The rows of all; columns are matched by name."""
        if not others:
            raise Invalid("union needs another stream or table", hint="Write a.union(b) or a.union(b, c)")
        known_columns("union", self.node)
        parts = list(_branches(self.node))
        for other in others:
            self._check_other("union", other)
            if type(other) is not type(self):
                raise Invalid(
                    "union takes streams or tables, not both", hint="t.changes() makes a stream, s.latest(key) a table"
                )
            known_columns("union", other.node)
            _check_union(self.schema, other.schema)
            parts += _branches(other.node)
        return self._row(Union, *parts)

    @declaration
    def transform(self, function: Callable[[Any], Any], schema: str | None = None) -> Self:
        """The DataFrame that `function` makes of the DataFrame, row by row: plain Spark.

        Without `schema` (DDL) nothing is known of its columns before Spark runs.
        """
        if not callable(function):
            raise Invalid(f"transform takes a function from DataFrame to DataFrame, not {function!r}")
        columns = Schema.parse(schema) if schema is not None else Schema((), open=True)
        lost = [name for name in self._visible_key() if name not in columns]
        self._refuse_loss("transform", [] if columns.open else lost)
        return self._row(Transform, function=function, columns=columns)

    @declaration
    def group(self, by: Names | None = None) -> Grouped:
        """Groups over all of history, to be followed by `.agg(…)`; without `by`, all rows are one group."""
        return Grouped(self, names.columns("by", by, self.schema))

    @declaration
    def top(self, n: int, by: str, per: Names | None = None, rank: str | None = None, ties: bool = False) -> Table:
        """The first `n` rows per group in the SQL ordering `by`."""
        if isinstance(n, bool) or not isinstance(n, int) or n < 1:
            raise Invalid(f"top needs a whole number of rows, 1 or more, not {n!r}")
        order = ordering(by, self.schema, self.node.hidden)
        if rank is not None and names.made(rank) in self.schema:
            raise Invalid(f"rank: there is a column {rank!r} already", hint="Give the rank another name")
        group = names.columns("per", per, self.schema)
        return self._table(Top, n=n, order=order, per=group, rank=rank, ties=bool(ties))

    def _measures(self, aggregates: dict[str, Aggregate], taken: tuple[str, ...]) -> tuple[Measure, ...]:
        if not aggregates:
            raise Invalid("agg needs at least one aggregate", hint="Write agg(n=rr.count())")
        for name in aggregates:
            if names.made(name).lower() in (other.lower() for other in taken):
                raise Invalid(f"agg: there is a column {name!r} already", hint="Give the aggregate another name")
        Schema.of([(name, None) for name in aggregates])
        measures = tuple(measure(name, made, self.schema, self.node.hidden) for name, made in aggregates.items())
        for made in measures:
            if made.kind.startswith("approx_") and self.node.retracts:
                raise Invalid(
                    f"{made.name}: {made.kind} cannot take rows back, and rows here may change",
                    hint=f"Use rr.{made.kind.removeprefix('approx_')}",
                )
            if made.kind in ("first", "last") and self.node.retracts and not is_key(made.type):
                raise Invalid(
                    f"{made.name}: rows here may change, so {made.kind} compares values, and {str(made.value)!r} is"
                    f" {made.type}",
                    hint="Use a part of it, or to_json of it",
                )
        return measures

    def _check_other(self, what: str, other: object) -> None:
        if not isinstance(other, Relation):
            raise Invalid(f"{what} takes a stream or a table, not {other!r}")
        if other.graph is not self.graph:
            raise Invalid(
                f"{what}: the other side belongs to flow {other.graph.name!r}, this one to {self.graph.name!r}",
                hint="Read its topic in this flow",
            )


class Grouped:
    """Rows by group, on their way to `.agg(…)`."""

    def __init__(self, rows: Relation, by: tuple[str, ...]) -> None:
        self._rows = rows
        self._by = by

    def __getattr__(self, name: str) -> NoReturn:
        raise unfinished("group(…)", name)

    @declaration
    def agg(self, **aggregates: Aggregate) -> Table:
        """One row per group: the columns `by`, then one per aggregate."""
        measures = self._rows._measures(aggregates, self._by)
        for made in measures:
            if made.kind == "rate":
                raise Invalid(f"{made.name}: rate needs a window of fixed length", hint="Use .window(…).agg(…)")
        return self._rows._table(Group, by=self._by, measures=measures)


def _branches(node: Node) -> tuple[Node, ...]:
    return node.inputs if isinstance(node, Union) else (node,)


def known_columns(what: str, node: Node) -> None:
    """Refuses nodes of which only Spark knows the columns."""
    if node.schema.open:
        raise Invalid(
            f"{what} needs to know the columns, and transform at {node.place} does not say them",
            hint='Write transform(fn, schema="…")',
        )


def _check_union(left: Schema, right: Schema) -> None:
    lacking = [f"the right has no {name!r}" for name in left if name not in right]
    lacking += [f"the left has no {name!r}" for name in right if name not in left]
    if lacking:
        raise Invalid(f"union needs the same columns: {', '.join(lacking)}", hint="Use select on one side")
    for name in left:
        if not comparable(left[name], right[name]):
            raise Invalid(
                f"union: {name!r} is {left[name]} on the left and {right[name]} on the right", hint="Cast one side"
            )


def unfinished(what: str, name: str) -> AttributeError:
    """The error for a method of something that `.agg(…)` has to follow."""
    if name.startswith("_"):
        return AttributeError(f"{what} has no {name!r}")
    return Misplaced(
        f"{caller()}: {what} has no {name!r}, it is finished by agg",
        hint='Write .agg(n=rr.count(), total=rr.sum("amount"))',
    )


def missing(here: str, there: str, name: str, rows: Relation, other: type[Relation], hint: str) -> AttributeError:
    """The error for something that this kind does not have, with the place and what is meant."""
    if name.startswith("_"):
        return AttributeError(f"a {here} has no {name!r}")
    place = caller()
    if callable(getattr(other, name, None)):
        return Misplaced(f"{place}: {name} is a method of a {there}, and this is a {here}", hint=hint)
    if name in rows.schema:
        return Misplaced(f"{place}: {name} is a column of this {here}", hint=_IN_QUOTES)
    known = public_names(type(rows))
    known_elsewhere = {**METHODS, **TABLE_METHODS} if here == "table" else METHODS
    return Misplaced(f"{place}: a {here} has no {name!r}", hint=known_elsewhere.get(name) or did_you_mean(name, known))
