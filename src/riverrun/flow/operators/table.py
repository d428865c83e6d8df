"""A changelog topic read as a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from riverrun import ddl
from riverrun.envelopes.envelope import Envelope, MessageForm
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

    form: MessageForm | None = None

    @property
    def key(self) -> tuple[str, ...]:
        return self.topic_key

    @property
    def routes(self) -> tuple[tuple[str, ...], ...]:
        return (self.topic_key,)

    @property
    def label(self) -> str:
        return f"{self.topic} ({self.form.name})" if self.form else self.topic

    @property
    def quarantines(self) -> Mapping[str, str]:
        """A row may be sent without values that did not change, and what they were may not be known."""
        return {"in": self.topic} if self.partial else {}

    @property
    def envelope(self) -> Envelope | None:
        """How rows stand in the topic's messages; None where they are rows."""
        if self.form is None:
            return None
        columns = tuple(ddl.Column(name, kind) for name, kind in self.columns.columns if kind is not None)
        return Envelope(self.form, columns, self.topic_key)

    @property
    def partial(self) -> bool:
        """Whether rows may come without values that did not change."""
        return self.form is not None and self.form.name == "debezium"

    def settings(self, wanted: Columns) -> dict[str, Any]:
        found = super().settings(frozenset(self.columns))
        # So that a table without one has the fingerprint that it had before there were any.
        return {name: value for name, value in found.items() if name != "form" or value is not None}


def topic_behind(table: Node) -> str:
    """The topic that a table's rows are from, "" where they are computed."""
    node = table
    while isinstance(node, Row) and len(node.inputs) == 1:
        node = node.inputs[0]
    return node.topic if isinstance(node, TableSource) else ""
