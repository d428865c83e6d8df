"""`s.dedupe(on, within)`: a stream without repeats."""

from __future__ import annotations

from dataclasses import dataclass, field

from riverrun.flow.operators.node import IDENTITY, Node


@dataclass(frozen=True, eq=False, kw_only=True)
class Dedupe(Node):
    """The first row in log order of those with equal values at most `within` apart."""

    kind = "dedupe"
    stateful = True
    hands_on_receipt = True
    keeps_row_ids = True
    passes_rows = True
    on: tuple[str, ...] = field(metadata=IDENTITY)
    within: int

    @property
    def routes(self) -> tuple[tuple[str, ...], ...]:
        return (self.on,)

    @property
    def label(self) -> str:
        return f"dedupe {', '.join(self.on)}"

    def reads_receipt(self, number: int) -> bool:
        return True
