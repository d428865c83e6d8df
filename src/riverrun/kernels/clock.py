"""`s.clock(occurred, sent, by)`: event time in the log's clock, for devices whose own clock is wrong.

A device stamps a row when it occurs and again when it sends it, both by its own clock; the log stamps it when it comes
in. Event time becomes occurred + (received - sent) of the same row, so a wrong clock cancels out and only the time on
the wire remains. It depends on that row alone: no order, no batching and no other row changes it.

A row without `sent` keeps `occurred` as it is; one without `occurred` happened, as far as anybody knows, when it was
received.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from riverrun.columns import OFFSET, PARTITION, RECEIVED, TIME
from riverrun.kernels.kernel import Counts, EpochClock, Step
from riverrun.state.table import State, TableSpec


def corrected(occurred: pl.Expr, sent: pl.Expr, received: pl.Expr) -> pl.Expr:
    """Event time in µs. The arguments are timestamps in µs, or Int64.

    >>> row = pl.DataFrame({"occurred": [100], "sent": [130], "received": [1_000_030]})
    >>> row.select(corrected(pl.col("occurred"), pl.col("sent"), pl.col("received"))).item()
    1000000
    """
    occurred, received = occurred.to_physical(), received.to_physical()
    return pl.coalesce(occurred + clock_offset(sent, received), occurred, received).cast(pl.Int64)


def clock_offset(sent: pl.Expr, received: pl.Expr) -> pl.Expr:
    """How far the sender's clock is behind the log's, in µs; the time on the wire included. Null without `sent`."""
    return received.to_physical() - sent.to_physical()


@dataclass(frozen=True)
class ClockCorrection:
    """Sets `_time` of every row and remembers each device's newest offset, for the status.

    The input has the columns `occurred`, `sent`, `by` and `_received`. `schema` has at least the columns `by`.
    """

    occurred: str
    sent: str
    by: tuple[str, ...]
    schema: Mapping[str, pl.DataType]

    @property
    def tables(self) -> Mapping[str, TableSpec]:
        device = {name: self.schema[name] for name in self.by}
        seen = {"_lag": pl.Int64(), RECEIVED: pl.Int64(), PARTITION: pl.Int32(), OFFSET: pl.Int64()}
        return {"offsets": TableSpec({**device, **seen}, identity=self.by, probe=self.by)}

    def step(self, state: State, inputs: Mapping[str, pl.DataFrame], clock: EpochClock) -> Step:
        arrived = inputs["in"]
        sent, received = pl.col(self.sent), pl.col(RECEIVED)
        rows = arrived.with_columns(corrected(pl.col(self.occurred), sent, received).alias(TIME))
        order = [RECEIVED, PARTITION, OFFSET]
        newest = (
            arrived.filter(sent.is_not_null())
            .with_columns(clock_offset(sent, received).cast(pl.Int64).alias("_lag"), received.to_physical())
            .select(*self.by, "_lag", *order)
            .sort(order)
            .unique(self.by, keep="last", maintain_order=True)
        )
        state["offsets"].put(newest)
        return Step(rows, {"in": Counts(read=len(arrived), accepted=len(arrived))})

    def offsets(self, state: State) -> pl.DataFrame:
        """Each device's newest clock offset in µs (`_lag`) and when it was seen (`_received`), the worst first."""
        seen = state["offsets"].scan().select(*self.by, "_lag", RECEIVED)
        return seen.sort(pl.col("_lag").abs(), *self.by, descending=[True, *(False for _ in self.by)])
