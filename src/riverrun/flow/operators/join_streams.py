"""`s.join(s2, on, within)`: two streams within a bound of time."""

from __future__ import annotations

from dataclasses import dataclass

from riverrun.durations import show
from riverrun.flow.operators.join import Join
from riverrun.flow.operators.node import Emergence, together


@dataclass(frozen=True, eq=False, kw_only=True)
class JoinStreams(Join):
    """Pairs with `lo ≤ right.time − left.time ≤ hi`, each once; rows without a partner when none can come any more."""

    kind = "join_streams"
    timed = True
    hands_on_receipt = True
    lo: int
    hi: int

    @property
    def emergence(self) -> Emergence:
        return together(self.inputs) if self.how == "inner" else "mixed"

    @property
    def hold(self) -> int:
        return self.delay

    @property
    def delay(self) -> int:
        return max(self.hi, -self.lo, 0)

    @property
    def label(self) -> str:
        return f"{super().label} within {show(self.lo)} … {show(self.hi)}"

    def reads_receipt(self, number: int) -> bool:
        return True
