"""`s.match_rules(rules, by)`: patterns that are rows of a table, over the rows of each key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from riverrun.columns import TIME
from riverrun.ddl import Type
from riverrun.errors import Invalid
from riverrun.flow.operators.node import IDENTITY, Columns, Emergence, InputTypes, Node
from riverrun.flow.operators.table import topic_behind
from riverrun.flow.schema import STRING, TIMESTAMP, Schema
from riverrun.flow.windows import Late, Side

RULE_COLUMNS: Mapping[str, str] = {
    "rule_id": "string",
    "pattern": "string",
    "define": "string",
    "within": "string",
    "measures": "string",
    "after": "string",
    "enabled": "boolean",
}
"""What a table of rules has. Only the first two must be there; a rule is on unless it says otherwise."""

_DDL = ", ".join(f"{name} {kind}" for name, kind in RULE_COLUMNS.items())

RULE_ID, MADE = "rule_id", ("match_start", "match_end", "match_id", "measures")


def check_rules(node: Node) -> None:
    """Refuse a table that has no rules."""
    if tuple(name.lower() for name in node.key) != (RULE_ID,):
        raise Invalid(
            f"match_rules needs a table whose key is {RULE_ID}, not {', '.join(node.key)}",
            hint=f'flow.table("rules", "{_DDL}", key="{RULE_ID}")',
        )
    for name, kind in RULE_COLUMNS.items():
        if name not in node.schema:
            if name in (RULE_ID, "pattern"):
                raise Invalid(f"match_rules: the table of rules has no column {name!r}", hint=f"Declare it: {_DDL}")
        elif node.schema.resolve(name) != name or str(node.schema[name]) != kind:
            raise Invalid(f"match_rules: {name} of the table of rules is {node.schema[name]}, not {kind}")


@dataclass(frozen=True, eq=False, kw_only=True)
class RuleMatch(Node):
    """The matches of all rules in force, in the rows of each key that the watermark has passed."""

    kind = "match_rules"
    stateful = True
    timed = True
    hands_on_receipt = True
    input_names = ("left", "right")
    time = TIME
    is_table = False
    retracts = False
    key = ()
    by: tuple[str, ...] = field(metadata=IDENTITY)
    within: int
    late: Late
    open_attempts: int
    steps: int

    @property
    def left(self) -> Node:
        """The stream."""
        return self.inputs[0]

    @property
    def right(self) -> Node:
        """The table of rules."""
        return self.inputs[1]

    @cached_property
    def schema(self) -> Schema:
        rows = self.left.schema
        start, end, match_id, measures = MADE
        made = ((start, TIMESTAMP), (end, TIMESTAMP), (match_id, STRING), (measures, STRING))
        return Schema(((RULE_ID, STRING), *((name, rows[name]) for name in self.by), *made))

    @property
    def routes(self) -> tuple[tuple[str, ...], ...]:
        return ((), ())  # every row meets every rule

    @property
    def emergence(self) -> Emergence:
        return "mixed"

    @property
    def timed_by(self) -> tuple[Node, ...]:
        return (self.left,)

    @property
    def hold(self) -> int:
        return self.within

    @property
    def delay(self) -> int:
        return self.within

    @property
    def label(self) -> str:
        by = f" by {', '.join(self.by)}" if self.by else ""
        return f"match rules{by}"

    @property
    def late_topics(self) -> Mapping[str, str]:
        return {"left": self.late.topic} if isinstance(self.late, Side) else {}

    @property
    def quarantines(self) -> Mapping[str, str]:
        """Rules that cannot be read are put aside beside the topic they came from, where they came from one."""
        return {"right": topic_behind(self.right)}

    def needs(self, wanted: Columns) -> tuple[Columns, ...]:
        return (frozenset(self.left.schema), frozenset(self.right.schema))

    def resolve(self, inputs: InputTypes) -> list[tuple[str, Type | None]]:
        came = inputs["left"]
        return [(name, came.get(name) if known is None else known) for name, known in self.schema.columns]
