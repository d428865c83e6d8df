"""`s.clock(occurred, sent, by)`: event time in the log's clock, for devices whose own clock is wrong.

A device says by its own clock when something occurred and when it sent that. The log knows when it received it. What
lies between sending and receiving is the error of the clock and the time on the wire; added to `occurred`, it gives the
time in the log's clock, whatever the device's clock says.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from riverrun.columns import RECEIVED, TIME
from riverrun.ddl import backquoted
from riverrun.flow.expressions import expression
from riverrun.flow.operators.node import IDENTITY, Columns, Node, Row

if TYPE_CHECKING:
    from riverrun.flow.composition import Composition


@dataclass(frozen=True, eq=False, kw_only=True)
class ClockCorrection(Row):
    """Event time becomes occurred + (received − sent) of the same row; without `sent`, occurred; without that, received.

    Its watermark follows the corrected times. The status shows the devices, by the columns `by`, that are furthest off.
    """

    kind = "clock"
    plans_watermark = True
    time = TIME
    occurred: str = field(metadata=IDENTITY)
    sent: str = field(metadata=IDENTITY)
    by: tuple[str, ...] = field(metadata=IDENTITY)

    @property
    def label(self) -> str:
        return f"clock {self.occurred}, {self.sent} by {', '.join(self.by)}"

    def needs(self, wanted: Columns) -> tuple[Columns, ...]:
        return (wanted | {self.occurred, self.sent, RECEIVED},)

    def compose(self, rows: Composition, below: Node) -> None:
        occurred, sent = (f"unix_micros({backquoted(name)})" for name in (self.occurred, self.sent))
        received = f"unix_micros({RECEIVED})"
        corrected = f"timestamp_micros(coalesce({occurred} + ({received} - {sent}), {occurred}, {received}))"
        rows.retime(expression(corrected, below.schema, below.hidden))
