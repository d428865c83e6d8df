"""Nodes about windows of event time: aggregates per window, and a window beside an earlier one."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from riverrun.durations import show
from riverrun.flow.aggregates import Measure
from riverrun.flow.nodes.node import IDENTITY, Columns, Node
from riverrun.flow.schema import TIMESTAMP, Schema
from riverrun.flow.windows import Correct, Late, Session, Side, WindowKind

START, END = "window_start", "window_end"


@dataclass(frozen=True, eq=False, kw_only=True)
class Window(Node):
    """Aggregates per window and group."""

    kind = "window"
    stateful = True
    window: WindowKind = field(metadata=IDENTITY)
    by: tuple[str, ...] = field(metadata=IDENTITY)
    measures: tuple[Measure, ...]
    late: Late
    emit: str = field(default="final", metadata=IDENTITY)

    @cached_property
    def schema(self) -> Schema:
        before = self.inputs[0].schema
        keys = [(name, before[name]) for name in self.by]
        made = [(part.name, part.type) for part in self.measures]
        return Schema((*keys, (START, TIMESTAMP), (END, TIMESTAMP), *made))

    @property
    def is_table(self) -> bool:
        return True

    @property
    def key(self) -> tuple[str, ...]:
        return (*self.by, START, END)

    @property
    def time(self) -> str:
        return END

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

    def needs(self, wanted: Columns) -> tuple[Columns, ...]:
        if isinstance(self.late, Side):  # late rows are written as they came
            return (frozenset(self.inputs[0].schema) | {column for made in self.measures for column in made.columns},)
        return (frozenset(self.by) | {column for made in self.measures for column in made.columns},)


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
