"""`s.join(t, on)`: a stream's rows with a table's newest."""

from __future__ import annotations

from dataclasses import dataclass

from riverrun.flow.operators.join import Join
from riverrun.flow.operators.node import Node


@dataclass(frozen=True, eq=False, kw_only=True)
class Lookup(Join):
    """Each row of the stream with the table's row of that key, in the newest version known when it is processed."""

    kind = "lookup"
    word = "join"
    hands_on_receipt = True
    keeps_row_ids = True

    @property
    def label(self) -> str:
        return f"{super().label} with the table"

    @property
    def retracts(self) -> bool:
        return self.left.retracts

    @property
    def timed_by(self) -> tuple[Node, ...]:
        # The table does not hold the stream's time back: results have the time of the stream's rows.
        return (self.left,)

    def reads_receipt(self, number: int) -> bool:
        return number == 0
