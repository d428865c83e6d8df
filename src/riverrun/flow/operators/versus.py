"""`windowed.versus(earlier)`: a window beside the same window earlier."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from riverrun.ddl import Type
from riverrun.durations import show
from riverrun.flow.operators.node import IDENTITY, InputTypes, Node
from riverrun.flow.operators.window import END, START
from riverrun.flow.schema import Schema


@dataclass(frozen=True, eq=False, kw_only=True)
class Versus(Node):
    """Every window beside the same window `earlier` before it; null where there was none."""

    kind = "versus"
    stateful = True
    earlier: int = field(metadata=IDENTITY)

    @cached_property
    def schema(self) -> Schema:
        before = self.inputs[0].schema
        added = [(f"{name}_before", known) for name, known in before.columns if name not in self.key]
        return Schema((*before.columns, *added), before.open)

    @property
    def routes(self) -> tuple[tuple[str, ...], ...]:
        return (tuple(name for name in self.key if name not in (START, END)),)

    @property
    def label(self) -> str:
        return f"versus {show(self.earlier)} before"

    def resolve(self, inputs: InputTypes) -> list[tuple[str, Type | None]]:
        came = inputs["in"]
        return [
            (name, known or came.get(name) or came.get(name.removesuffix("_before")))
            for name, known in self.schema.columns
        ]
