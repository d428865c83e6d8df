"""Tables: rows by key, that change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NoReturn

from riverrun.columns import AFTER, BEFORE, OP
from riverrun.durations import Duration, show
from riverrun.errors import Invalid
from riverrun.flow import names
from riverrun.flow.join import joined
from riverrun.flow.names import Names
from riverrun.flow.operators.changes import Changes
from riverrun.flow.operators.join_tables import JoinTables
from riverrun.flow.operators.node import Node, Row
from riverrun.flow.operators.versus import Versus
from riverrun.flow.operators.window import END, START, Window
from riverrun.flow.place import declaration
from riverrun.flow.relation import Relation, known_columns, missing
from riverrun.flow.spans import positive
from riverrun.flow.windows import Session, Sliding

if TYPE_CHECKING:
    from riverrun.flow.stream import Stream


class Table(Relation):
    """A table of a flow; `key` names one row."""

    @property
    def key(self) -> tuple[str, ...]:
        """The columns that name one row; those with an underscore are hidden."""
        return self.node.key

    @declaration
    def join(
        self,
        other: Table,
        on: Names | Mapping[str, str],
        how: str = "inner",
        suffix: str = "_right",
        rename: Mapping[str, str] | None = None,
    ) -> Table:
        """The join of the two current tables, maintained: `how` is inner, left or full. Null keys match nothing.

        `rename` has new names for columns of the other table; else those that are on both sides get the `suffix`.
        """
        self._check_other("join", other)
        if not isinstance(other, Table):
            raise Invalid("a table joins a table", hint="stream.join(table, on=…) looks a stream's rows up in a table")
        names.choice("how", how, ("inner", "left", "full"))
        for node in (self.node, other.node):
            known_columns("join", node)
        made = joined(self.schema, other.schema, on, suffix, rename)
        node = self._add(JoinTables, self.node, other.node, on=made.on, how=how, outputs=made.outputs)
        return Table(self.graph, node)

    @declaration
    def versus(self, earlier: Duration) -> Table:
        """Each window beside the same window that much earlier, whose columns are named `<name>_before`."""
        distance = positive("versus", earlier)
        window = _window(self.node)
        if window is None or START not in self.key or END not in self.key:
            raise Invalid("versus compares windows, and this table has none", hint="Use it on s.window(…).agg(…)")
        if isinstance(window.window, Sliding | Session):
            raise Invalid(
                f"versus: {window.window} windows do not come at regular times", hint="Use rr.tumbling or rr.hopping"
            )
        if distance % window.window.every:
            raise Invalid(
                f"versus: there is no window {show(distance)} earlier, they come every {show(window.window.every)}",
                hint="Choose a multiple of that",
            )
        for name in self.schema:
            if name not in self.key and f"{name}_before" in self.schema:
                raise Invalid(f"versus: there is a column '{name}_before' already", hint="Rename it")
        return self._table(Versus, earlier=distance)

    @declaration
    def changes(self) -> Stream:
        """The table's changes as a stream: `_op` (insert, update, delete), `_before`, `_after`."""
        from riverrun.flow.stream import Stream

        taken = [name for name in self.node.key if name in (OP, BEFORE, AFTER)]
        if taken:
            raise Invalid(
                f"changes() makes a column {taken[0]}, and the table's key has one",
                hint="Give the key's column another name with select before",
            )
        return Stream(self.graph, self._add(Changes))

    def __getattr__(self, name: str) -> NoReturn:
        from riverrun.flow.stream import Stream

        raise missing("table", "stream", name, self, Stream, "t.changes() makes a stream of a table")


def _window(node: Node) -> Window | None:
    """The window a table is about, seen through nodes that look at one row."""
    while isinstance(node, Row) and len(node.inputs) == 1:
        node = node.inputs[0]
    return node if isinstance(node, Window) else None
