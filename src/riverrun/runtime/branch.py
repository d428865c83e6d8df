"""Branches: how rows get from an origin (a topic, or a stateful node) to a target (a stateful node's input, or an end).

Everything between them keeps nothing: conditions and expressions over one row. A branch is their composition, as one
condition and one expression per column, all of them in terms of the origin's columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from riverrun.columns import OFFSET, PARTITION, RECEIVED, TIME, WEIGHT
from riverrun.ddl import backquoted
from riverrun.flow.expressions import Expression
from riverrun.flow.nodes import Drop, Node, Select, Source, Transform, Union, Where, WithColumns

# Rows of all topics have one order, and every row of a stream an id: `_partition` has the log's partition in its lowest
# bits, then the topic's number, then the way a row came when there are several (a union).
PARTITIONS = 1 << 10  # a topic has at most so many
TOPICS = 1 << 16
PATHS = 1 << 5
WAY = PARTITIONS * TOPICS  # what a way adds to the number of a row's partition


@dataclass(frozen=True, slots=True)
class Item:
    """One column of a branch: the origin's column as it is, or an expression in Spark SQL, as the user wrote it."""

    name: str
    column: str | None
    sql: str


@dataclass(frozen=True, slots=True)
class Path:
    """The nodes between an origin and a target, in the order rows pass them."""

    origin: Node
    steps: tuple[tuple[Node, Node], ...] = ()  # (from, to)


def paths(node: Node) -> Iterator[Path]:
    """Every way rows come to this node; a union has several. A transform's rows begin there: only Spark knows them."""
    if isinstance(node, Source | Transform) or node.stateful:
        yield Path(node)
        return
    for below in node.inputs:
        for path in paths(below):
            yield Path(path.origin, (*path.steps, (below, node)))


class Composition:
    """Columns of a node in terms of the origin's, and the condition for a row to get there."""

    def __init__(self, origin: Mapping[str, object], prefix: str) -> None:
        self._prefix = prefix
        self._made: dict[str, str] = {name.lower(): self._column(name) for name in origin}
        self._plain: dict[str, str | None] = {name.lower(): name for name in origin}
        self._conditions: list[str] = []
        if PARTITION in origin:
            self._made[PARTITION] = f"CAST({self._column(PARTITION)} % {PARTITIONS} AS INT)"
            self._plain[PARTITION] = None

    def follow(self, path: Path) -> Composition:
        """Take the steps of a path."""
        for below, node in path.steps:
            self._step(below, node)
        return self

    def item(self, name: str, source: Expression | None = None) -> Item:
        """The column `name`, or what an expression over the node's columns makes of them."""
        if source is None:
            made, plain = self._made[name.lower()], self._plain[name.lower()]
        else:
            made = self._substituted(source)
            plain = self._plain[source.plain.lower()] if source.plain else None
        return Item(name, plain, made)

    def absent(self, deleted: str) -> Item:
        """Whether a version says that there is no row: it deletes, or does not meet the condition."""
        item = self.item(deleted)
        if self.condition is None:
            return item
        return Item(deleted, None, f"({item.sql}) OR NOT COALESCE({self.condition}, FALSE)")

    @property
    def condition(self) -> str | None:
        if not self._conditions:
            return None
        return " AND ".join(f"({made})" for made in self._conditions)

    def _step(self, below: Node, node: Node) -> None:
        match node:
            case Where():
                self._conditions.append(self._substituted(node.condition))
            case Select() | WithColumns():
                kept = {} if isinstance(node, Select) else dict(self._made)
                plain = {} if isinstance(node, Select) else dict(self._plain)
                if isinstance(node, Select):  # what rows carry, and hidden parts of their key
                    for name in self._made:
                        if name.startswith("_"):
                            kept[name], plain[name] = self._made[name], self._plain[name]
                for name, source in node.items:
                    if any(column.lower() not in self._made for column in source.columns):
                        continue  # nobody needs it, or the origin would have these
                    kept[name.lower()] = self._substituted(source)
                    plain[name.lower()] = self._plain[source.plain.lower()] if source.plain else None
                self._made, self._plain = kept, plain
            case Drop():
                for name in node.names:
                    self._made.pop(name.lower(), None)
                    self._plain.pop(name.lower(), None)
            case Union():
                self._unite(below, node)

    def _unite(self, below: Node, node: Union) -> None:
        for name, wanted in node.schema.columns:
            if name.lower() in self._made and wanted is not None and below.schema[name] != wanted:
                self._made[name.lower()] = f"CAST({self._made[name.lower()]} AS {wanted})"
                self._plain[name.lower()] = None

    def _substituted(self, source: Expression) -> str:
        return self._made[source.plain.lower()] if source.plain else source.over(self._value)

    def _value(self, column: str) -> str:
        made = self._made[column.lower()]
        return f"({made})" if self._plain[column.lower()] is None else made

    def _column(self, name: str) -> str:
        return f"{backquoted(self._prefix)}.{backquoted(name)}"


HIDDEN_IN_SQL = (TIME, RECEIVED, "_key", PARTITION, OFFSET, WEIGHT)
