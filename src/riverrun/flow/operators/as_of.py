"""`s.as_of(t, on)`: a stream's rows with a table's as it was at their time."""

from __future__ import annotations

from dataclasses import dataclass

from riverrun.flow.operators.join import Join
from riverrun.flow.operators.node import Emergence
from riverrun.flow.windows import Correct, Late


@dataclass(frozen=True, eq=False, kw_only=True)
class AsOf(Join):
    """Each row of the stream with the version of the table's row that was valid at the row's time."""

    kind = "as_of"
    timed = True
    hands_on_receipt = True
    keeps_row_ids = True
    late: Late

    @property
    def retracts(self) -> bool:
        return self.left.retracts or not self.waits

    @property
    def waits(self) -> bool:
        """Whether a row is answered when the watermark has passed it, and not before."""
        return not isinstance(self.late, Correct)

    @property
    def emergence(self) -> Emergence:
        return "time" if self.waits else self.left.emergence

    @property
    def hold(self) -> int:
        return 1 if self.waits else 0

    @property
    def delay(self) -> int:
        return self.late.horizon

    def reads_receipt(self, number: int) -> bool:
        return number == 0 or self.reads_versions(number)

    def reads_absences(self, number: int) -> bool:
        return number == 1

    def reads_versions(self, number: int) -> bool:
        return number == 1 and self.right.has_versions
