"""A stream in the order of event time, for operators to which the order of rows matters."""

from __future__ import annotations

from dataclasses import dataclass, field

from riverrun.flow.operators.node import IDENTITY, Node


@dataclass(frozen=True, eq=False, kw_only=True)
class Ordered(Node):
    """Every row when the watermark has passed it, in the order of event time. `by` brings rows to a shard."""

    kind = "ordered"
    stateful = True
    timed = True
    hands_on_receipt = True
    keeps_row_ids = True
    passes_rows = True
    emergence = "time"
    hold = 1
    by: tuple[str, ...] = field(metadata=IDENTITY)

    @property
    def routes(self) -> tuple[tuple[str, ...], ...]:
        return (self.by,)

    @property
    def label(self) -> str:
        return "by event time"
