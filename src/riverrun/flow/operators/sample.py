"""`s.sample(fraction, by)`: all rows of a share of the keys."""

from __future__ import annotations

from dataclasses import dataclass, field

from riverrun.flow.operators.node import IDENTITY, Node


@dataclass(frozen=True, eq=False, kw_only=True)
class Sample(Node):
    """The rows of those keys whose hash is in the first `fraction` of all hashes: the same keys on every day."""

    kind = "sample"
    stateful = True
    hands_on_receipt = True
    keeps_row_ids = True
    passes_rows = True
    fraction: float
    by: tuple[str, ...] = field(metadata=IDENTITY)

    @property
    def routes(self) -> tuple[tuple[str, ...], ...]:
        return (self.by,)

    @property
    def label(self) -> str:
        return f"sample {self.fraction:g} of {', '.join(self.by)}"

    def reads_receipt(self, number: int) -> bool:
        return True
