"""`t.changes()`: a table's changes as a stream of rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from riverrun.columns import AFTER, BEFORE, OP, TIME
from riverrun.ddl import Column, Struct, Type
from riverrun.flow.operators.node import InputTypes, Node
from riverrun.flow.schema import STRING, Schema


@dataclass(frozen=True, eq=False, kw_only=True)
class Changes(Node):
    """A table's changes as a stream of rows: what happened, the row before, the row after."""

    kind = "changes"
    stateful = True
    hands_on_receipt = True
    emergence = "mixed"  # changes stand where their event time is, and are told at once
    key_travels = True
    is_table = False
    key = ()
    time = TIME
    retracts = False

    @cached_property
    def schema(self) -> Schema:
        before = self.inputs[0].schema
        fields = [Column(name, known) for name, known in before.columns if known is not None]
        whole = not before.open and len(fields) == len(before)
        row = Struct(tuple(fields)) if whole else None
        return Schema(((OP, STRING), (BEFORE, row), (AFTER, row)))

    @property
    def routes(self) -> tuple[tuple[str, ...], ...]:
        return (self.inputs[0].key,)

    def resolve(self, inputs: InputTypes) -> list[tuple[str, Type | None]]:
        visible = self.inputs[0].schema
        row = Struct(tuple(Column(name, known) for name, known in inputs["in"].items() if name in visible))
        return [(name, known or row) for name, known in self.schema.columns]
