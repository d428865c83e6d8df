"""`s.percolate(queries, text)`: a stream's rows with the stored searches that they meet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from riverrun.flow.operators.join import Join
from riverrun.flow.operators.node import IDENTITY, Node
from riverrun.flow.operators.table import topic_behind


@dataclass(frozen=True, eq=False, kw_only=True)
class Percolate(Join):
    """Each row of the stream with each query of the table that it meets, of those known when it is processed."""

    kind = "percolate"
    hands_on_receipt = True
    hands_on_wanted = True
    how: str = "inner"
    query: str = field(metadata=IDENTITY)
    text: tuple[str, ...] = field(metadata=IDENTITY)
    fold: bool
    language: str | None

    @property
    def label(self) -> str:
        return f"percolate {', '.join(self.text)} through {self.query}"

    @property
    def retracts(self) -> bool:
        return self.left.retracts

    @property
    def timed_by(self) -> tuple[Node, ...]:
        return (self.left,)

    @property
    def quarantines(self) -> Mapping[str, str]:
        """Queries that cannot be read are put aside beside the topic they came from, where they came from one."""
        return {"right": topic_behind(self.right)}

    def reads_receipt(self, number: int) -> bool:
        return number == 0
