"""Nodes that look at one row at a time."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from random_programs.expressions import value
from random_programs.oracle.facts import Epoch, Fact, Node, Version

Values = Mapping[str, Any]


class RowNode(Node):
    """What a function makes of every row; None leaves it out."""

    def __init__(self, input: Node, function: Callable[[Values], Values | None]) -> None:
        super().__init__()
        self.inputs = (input,)
        self._function = function

    def after(self, epoch: Epoch) -> Iterable[Fact]:
        self.versions = [self._version(one) for one in self.inputs[0].versions]
        for row in self.inputs[0].rows.values():
            made = self._function(row.values)
            if made is not None:
                yield replace(row, values=made)

    def _version(self, version: Version) -> Version:
        """A row that is left out is a key without a row from then on."""
        made = None if version.values is None else self._function(version.values)
        return replace(version, values=made)


def row_node(input: Node, kind: str, options: Values) -> RowNode:
    """`where`, `select`, `with_columns` or `drop`."""

    def where(row: Values) -> Values | None:
        return row if value(options["condition"], row) else None

    def select(row: Values) -> Values:
        return {name: value(made, row) for name, made in options["items"].items()}

    def with_columns(row: Values) -> Values:
        return {**row, **{name: value(made, row) for name, made in options["items"].items()}}

    def drop(row: Values) -> Values:
        return {name: one for name, one in row.items() if name not in options["names"]}

    functions: dict[str, Callable[[Values], Values | None]] = {
        "where": where,
        "select": select,
        "with_columns": with_columns,
        "drop": drop,
    }
    return RowNode(input, functions[kind])


class Union(Node):
    """All rows of all inputs, with the columns of the first; `doubles` are those that become doubles."""

    def __init__(self, inputs: tuple[Node, ...], columns: Sequence[str], doubles: Collection[str]) -> None:
        super().__init__()
        self.inputs = inputs
        self._columns, self._doubles = columns, doubles

    def after(self, epoch: Epoch) -> Iterable[Fact]:
        for way, node in enumerate(self.inputs):
            for row in node.rows.values():
                values = {name: self._converted(name, row.values[name]) for name in self._columns}
                yield replace(row, id=(way, row.id), values=values, place=(way, row.place))

    def _converted(self, name: str, value: Any) -> Any:
        return float(value) if name in self._doubles and value is not None else value
