"""`s.window(w, by).agg(…)`: aggregates per window of event time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from riverrun.ddl import Type
from riverrun.flow.aggregates import Measure, aggregated, resolve_aggregates
from riverrun.flow.expressions import Wanted
from riverrun.flow.operators.node import IDENTITY, Columns, InputTypes, Node
from riverrun.flow.schema import TIMESTAMP, Schema
from riverrun.flow.windows import Correct, Late, Session, Side, Sliding, WindowKind

START, END = "window_start", "window_end"


@dataclass(frozen=True, eq=False, kw_only=True)
class Window(Node):
    """Aggregates per window and group."""

    kind = "window"
    timed = True
    stateful = True
    is_table = True
    time = END
    window: WindowKind = field(metadata=IDENTITY)
    by: tuple[str, ...] = field(metadata=IDENTITY)
    measures: tuple[Measure, ...]
    late: Late
    emit: str = field(default="final", metadata=IDENTITY)

    @property
    def groups(self) -> tuple[str, ...]:
        """The columns that results have of rows: those of groups, and those that a sliding window keeps."""
        return (*self.by, *self.window.keep) if isinstance(self.window, Sliding) else self.by

    @cached_property
    def schema(self) -> Schema:
        before = self.inputs[0].schema
        keys = [(name, before[name]) for name in self.groups]
        made = [(part.name, part.type) for part in self.measures]
        return Schema((*keys, (START, TIMESTAMP), (END, TIMESTAMP), *made))

    @property
    def key(self) -> tuple[str, ...]:
        return (*self.groups, START, END)

    @property
    def retracts(self) -> bool:
        # A session can grow into another one that was issued.
        changing = isinstance(self.late, Correct) or isinstance(self.window, Session)
        return changing or self.emit == "update" or self.inputs[0].retracts

    @property
    def hold(self) -> int:
        return self.window.gap if isinstance(self.window, Session) else self.window.size

    @property
    def delay(self) -> int:
        return self.late.horizon

    @property
    def routes(self) -> tuple[tuple[str, ...], ...]:
        return (self.by,)

    @property
    def identity(self) -> str:
        return f"{super().identity}|{','.join(made.name for made in self.measures)}"

    @property
    def label(self) -> str:
        by = f" by {', '.join(self.by)}" if self.by else ""
        return f"{self.window}{by}: " + ", ".join(f"{part.name} = {part}" for part in self.measures)

    @property
    def late_topics(self) -> Mapping[str, str]:
        return {"in": self.late.topic} if isinstance(self.late, Side) else {}

    def needs(self, wanted: Columns) -> tuple[Columns, ...]:
        read = {column for measure in self.measures for column in measure.columns}
        # late rows are written as they came
        return (frozenset(read) | frozenset(self.inputs[0].schema if self.late_topics else self.groups),)

    def reads(self, number: int, columns: Sequence[str]) -> Wanted:
        wanted = aggregated(self.groups, self.measures)
        if self.late_topics:
            wanted += [(name, None) for name in self.inputs[0].schema if name not in self.groups]
        return wanted

    def passed_by(self, number: int) -> Columns:
        return frozenset(self.inputs[0].schema) - frozenset(self.groups) if self.late_topics else frozenset()

    def resolve(self, inputs: InputTypes) -> list[tuple[str, Type | None]]:
        return resolve_aggregates(super().resolve(inputs), self.measures, inputs["in"])
