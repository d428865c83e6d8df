"""`.group(by).agg(…)`: aggregates over all of history."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from riverrun.columns import TIME
from riverrun.ddl import Type
from riverrun.flow.aggregates import Measure, aggregated, resolve_aggregates
from riverrun.flow.expressions import Wanted
from riverrun.flow.operators.node import IDENTITY, Columns, InputTypes, Node
from riverrun.flow.schema import Schema


@dataclass(frozen=True, eq=False, kw_only=True)
class Group(Node):
    """Aggregates over all of history, one row per group; retractions count."""

    kind = "group"
    stateful = True
    is_table = True
    time = TIME
    retracts = True
    by: tuple[str, ...] = field(metadata=IDENTITY)
    measures: tuple[Measure, ...]

    @cached_property
    def schema(self) -> Schema:
        before = self.inputs[0].schema
        keys = [(name, before[name]) for name in self.by]
        return Schema((*keys, *((made.name, made.type) for made in self.measures)))

    @property
    def key(self) -> tuple[str, ...]:
        return self.by

    @property
    def routes(self) -> tuple[tuple[str, ...], ...]:
        return (self.by,)

    @property
    def identity(self) -> str:
        return f"{super().identity}|{','.join(made.name for made in self.measures)}"

    @property
    def label(self) -> str:
        made = ", ".join(f"{part.name} = {part}" for part in self.measures)
        return f"group by {', '.join(self.by)}: {made}" if self.by else f"all: {made}"

    def needs(self, wanted: Columns) -> tuple[Columns, ...]:
        return (frozenset(self.by) | {column for made in self.measures for column in made.columns},)

    def reads(self, number: int, columns: Sequence[str]) -> Wanted:
        return aggregated(self.by, self.measures)

    def resolve(self, inputs: InputTypes) -> list[tuple[str, Type | None]]:
        return resolve_aggregates(super().resolve(inputs), self.measures, inputs["in"])
