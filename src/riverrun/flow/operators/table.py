"""A changelog topic read as a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from riverrun.flow.operators.node import Columns, Node, Row
from riverrun.flow.operators.source import Source


@dataclass(frozen=True, eq=False, kw_only=True)
class TableSource(Source):
    """The last row of each key in log order; tombstones delete. Stateful: an update takes the old row back."""

    kind = "table"
    stateful = True
    is_table = True
    retracts = True
    has_versions = True

    @property
    def key(self) -> tuple[str, ...]:
        return self.topic_key

    @property
    def routes(self) -> tuple[tuple[str, ...], ...]:
        return (self.topic_key,)

    def settings(self, wanted: Columns) -> dict[str, Any]:
        return super().settings(frozenset(self.columns))


def topic_behind(table: Node) -> str:
    """The topic that a table's rows are from, "" where they are computed."""
    node = table
    while isinstance(node, Row) and len(node.inputs) == 1:
        node = node.inputs[0]
    return node.topic if isinstance(node, TableSource) else ""
