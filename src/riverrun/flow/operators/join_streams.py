"""`s.join(s2, on, within)`: two streams within a bound of time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from riverrun.durations import show
from riverrun.flow.operators.join import Join
from riverrun.flow.operators.node import Emergence, together
from riverrun.flow.windows import DropLate, Late, Side


@dataclass(frozen=True, eq=False, kw_only=True)
class JoinStreams(Join):
    """Pairs with `lo ≤ right.time − left.time ≤ hi`, each once; rows without a partner when none can come any more."""

    kind = "join_streams"
    word = "join"
    timed = True
    hands_on_receipt = True
    lo: int
    hi: int
    late: tuple[Late, Late] = (DropLate(), DropLate())

    @property
    def emergence(self) -> Emergence:
        return together(self.inputs) if self.how == "inner" else "mixed"

    @property
    def hold(self) -> int:
        return max(self.hi, -self.lo, 0)

    @property
    def delay(self) -> int:
        return max(self.hi, -self.lo, 0) + self.late[0].horizon

    @property
    def label(self) -> str:
        return f"{super().label} within {show(self.lo)} … {show(self.hi)}"

    @property
    def late_topics(self) -> Mapping[str, str]:
        sides = zip(self.input_names, self.late, strict=True)
        return {name: policy.topic for name, policy in sides if isinstance(policy, Side)}

    def reads_receipt(self, number: int) -> bool:
        return True
