"""A run that says what a test wants it to say."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec

import riverrun as rr
from riverrun.errors import RiverrunError
from riverrun.runtime.ledger import LedgerEntry
from riverrun.runtime.status import EpochTimes, FlowStatus, Lag, StateSize, TimeSplit
from serve.conftest import ORDERS

LEDGER = (
    LedgerEntry("stream-orders", "topic", read=10, accepted=9, quarantined=1),
    LedgerEntry("window-1", "in", read=9, accepted=5, late_dropped=3, duplicates=1),
)


def declare_shop() -> rr.Flow:
    flow = rr.Flow("shop")
    orders = flow.stream("orders", ORDERS, time="at", key="user")
    flow.view("totals", orders.group("user").agg(n=rr.count(), total=rr.sum("amount")))
    return flow


class TellingRun:
    """Runs well, and has just committed its third epoch; `said` is what it says otherwise."""

    name = "shop"

    def __init__(self, **said: Any) -> None:
        self.flow = declare_shop()
        self.fails: RiverrunError | None = None
        self._status = FlowStatus(
            flow=self.name,
            epoch=3,
            positions="orders@0:10",
            committed=datetime.now(UTC),
            lag=Lag(topics={"orders": 0}),
            late=3,
            state_size=StateSize(2048, 1),
            fence=1,
            ledger=LEDGER,
            state="running",
            rows_per_second=12_400.0,
            times=TimeSplit(0.1, 0.2, 0.3, 0.4),
        )
        self.say(**said)

    def say(self, **said: Any) -> None:
        """From now on."""
        self._status = msgspec.structs.replace(self._status, **said)

    def observe(self) -> FlowStatus:
        if self.fails:
            raise self.fails
        return self._status

    def epochs(self) -> list[EpochTimes]:
        return []
