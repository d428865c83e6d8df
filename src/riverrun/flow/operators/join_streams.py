"""`s.join(s2, on, within)`: two streams within a bound of time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from riverrun.columns import own_column
from riverrun.durations import show
from riverrun.flow.expressions import Wanted, column
from riverrun.flow.operators.join import Join
from riverrun.flow.operators.node import Columns, Emergence, together
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

    def reads(self, number: int, columns: Sequence[str]) -> Wanted:
        schema = self.inputs[number].schema
        own: Wanted = [(own_column(name), column(name, schema)) for name in self._converted(number)]
        return [*super().reads(number, columns), *own]

    def passed_by(self, number: int) -> Columns:
        return frozenset(own_column(name) for name in self._converted(number))

    def _converted(self, number: int) -> list[str]:
        """Columns of an input that late rows are written with as they were, and pairs are found by as another type."""
        if self.input_names[number] not in self.late_topics:
            return []
        schema = self.inputs[number].schema
        return [name for name, kind in self.key_types(number).items() if kind != schema.get(name)]
