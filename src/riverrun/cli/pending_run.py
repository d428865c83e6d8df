"""A run on its way: the river is served before Spark is there, and whoever asks is told so."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from riverrun.flow import Flow
from riverrun.river import River
from riverrun.runtime.lag import measure_lag
from riverrun.runtime.manifest import home_of
from riverrun.runtime.opening import open_inputs
from riverrun.runtime.status import EpochTimes, FlowStatus
from riverrun.runtime.stored_status import read_status

if TYPE_CHECKING:
    from riverrun.spark.run import Run


class PendingRun:
    """What a server asks, before and after the run is there. The topics that the flow reads are made at once, so that they
    accept events from then on."""

    def __init__(self, river: River, flow: Flow) -> None:
        self.flow = flow
        self.name = flow.name
        self.run: Run | None = None
        self._river = river
        self._inputs = open_inputs(river, flow)

    def observe(self) -> FlowStatus:
        """Where it is; until it is there, what its last run left."""
        if self.run is not None:
            return self.run.observe()
        last = self._river.store.last(self.name)
        lag = measure_lag(self._inputs, last.positions)
        stored = read_status(self.name, last, lag, home_of(self._river.checkpoints, self.name, last))
        return FlowStatus(**msgspec.structs.asdict(stored), state="starting", reason="Spark is being started")

    def epochs(self) -> list[EpochTimes]:
        """Its last epochs, oldest first."""
        return [] if self.run is None else self.run.epochs()
