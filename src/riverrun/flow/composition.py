"""What looks at one row, put together: the way of rows through nodes that keep nothing, as one condition and one
expression for each column, all of them in terms of the columns that the rows began with.

Texts are Spark SQL, as the user wrote them, with columns replaced in their places.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from riverrun.columns import TIME
from riverrun.ddl import Type
from riverrun.flow.expressions import Expression
from riverrun.flow.operators.node import Node, Row


@dataclass(frozen=True, slots=True)
class Path:
    """The nodes between an origin (a source, a stateful node, a transform) and a node, in the order rows pass them."""

    origin: Node
    steps: tuple[tuple[Node, Row], ...] = ()  # (from, to)


def paths(node: Node) -> Iterator[Path]:
    """Every way that rows take to this node; a union has several."""
    if not isinstance(node, Row) or node.by_spark:
        yield Path(node)
        return
    for below in node.inputs:
        for path in paths(below):
            yield Path(path.origin, (*path.steps, (below, node)))


@dataclass(frozen=True, slots=True)
class Item:
    """One column of the result: the origin's column as it is, or an expression of Spark SQL."""

    name: str
    column: str | None
    sql: str


@dataclass(frozen=True, slots=True)
class WrittenExpression:
    """An expression as somebody wrote it, and in which line; and what it is in terms of the origin's columns, for rows that
    meet `condition`."""

    place: str
    text: str
    sql: str
    condition: str | None


class Composition:
    """Columns of a node in terms of its origin's, and the condition for a row to get there. Nodes add to it, step by step.

    `columns` are the origin's, each with the SQL that gives its value; those in `plain` are columns as they are.
    """

    def __init__(self, columns: Mapping[str, str], plain: Mapping[str, str]) -> None:
        self._values = {name.lower(): sql for name, sql in columns.items()}
        self._plain = {name.lower(): column for name, column in plain.items()}
        self._conditions: list[str] = []
        self._written: list[WrittenExpression] = []
        self._place = ""

    def follow(self, path: Path) -> Composition:
        """Take the steps of a path."""
        for below, node in path.steps:
            self.go_to(str(node.place))
            node.compose(self, below)
        return self

    def go_to(self, place: str) -> None:
        """What comes next was written in this line."""
        self._place = place

    def written_in(self, texts: Sequence[str]) -> tuple[WrittenExpression, ...]:
        """What the user wrote of these texts, in the order in which rows pass it."""
        return tuple(one for one in self._written if any(one.sql in text for text in texts))

    def keep(self, condition: Expression) -> None:
        """Only rows for which it is true."""
        self._conditions.append(self._substitute(condition))

    def choose(self, items: Sequence[tuple[str, Expression]]) -> None:
        """These columns, and those every row carries."""
        self._replace({name for name in self._values if name.startswith("_")}, items)

    def add(self, items: Sequence[tuple[str, Expression]]) -> None:
        """These columns beside the others."""
        self._replace(set(self._values), items)

    def drop(self, names: Sequence[str]) -> None:
        """All but these columns."""
        for name in names:
            self._values.pop(name.lower(), None)
            self._plain.pop(name.lower(), None)

    def cast(self, name: str, to: Type) -> None:
        """A column in another type, where it is there."""
        if name.lower() in self._values:
            self._set(name.lower(), f"CAST({self._values[name.lower()]} AS {to})")

    def retime(self, sql: Expression) -> None:
        """Another event time."""
        self._set(TIME, self._substitute(sql))

    def item(self, name: str, source: Expression | None = None) -> Item:
        """The column `name`, or what an expression over the node's columns makes of them."""
        if source is None:
            return Item(name, self._plain.get(name.lower()), self._values[name.lower()])
        return Item(name, self._plain.get(source.plain.lower()) if source.plain else None, self._substitute(source))

    def absent(self, deleted: str) -> Item:
        """Whether a version says that there is no row: it deletes, or does not meet the condition."""
        before = self.item(deleted) if deleted in self._values else Item(deleted, None, "FALSE")
        if self.condition is None:
            return before
        return Item(deleted, None, f"({before.sql}) OR NOT COALESCE({self.condition}, FALSE)")

    @property
    def condition(self) -> str | None:
        """What a row has to meet; None: every row gets there."""
        return " AND ".join(f"({part})" for part in self._conditions) or None

    @property
    def time(self) -> str | None:
        """The event time, as a timestamp, where it is not the one that rows began with."""
        return None if TIME in self._plain else self._values[TIME]

    def _set(self, name: str, sql: str) -> None:
        self._values[name] = sql
        self._plain.pop(name, None)

    def _replace(self, kept: set[str], items: Sequence[tuple[str, Expression]]) -> None:
        values = {name: sql for name, sql in self._values.items() if name in kept}
        plain = {name: column for name, column in self._plain.items() if name in kept}
        for name, source in items:
            if any(column.lower() not in self._values for column in source.columns):
                continue  # nobody needs it, or the origin would have these
            values[name.lower()] = self._substitute(source)
            plain.pop(name.lower(), None)
            if source.plain and source.plain.lower() in self._plain:
                plain[name.lower()] = self._plain[source.plain.lower()]
        self._values, self._plain = values, plain

    def _substitute(self, source: Expression) -> str:
        if source.plain:
            return self._values[source.plain.lower()]
        sql = source.over(self._value)
        self._written.append(WrittenExpression(self._place, str(source), sql, self.condition))
        return sql

    def _value(self, column: str) -> str:
        sql = self._values[column.lower()]
        return sql if column.lower() in self._plain else f"({sql})"
