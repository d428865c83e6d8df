"""What every stateful operator is: `step(state, inputs, clock) -> Step`.

Rows are Polars frames with the node's value columns and hidden ones: `_time` (Int64, event time in µs), `_weight`
(+1 insert, -1 retract) and, only for order, `_partition` and `_offset`. The host hands every input over sorted by
(`_partition`, `_offset`); a kernel is a deterministic function of that sequence, of its state and of the clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import polars as pl

from riverrun.state.table import State, TableSpec

MIN_TIME = -(1 << 62)
"""The watermark before anything is known."""

MAX_TIME = 1 << 62
"""The watermark at the end of the input: every window closes."""


@dataclass(frozen=True)
class EpochClock:
    """The time of one epoch, as planned: the watermarks of this node at its start and its end.

    `received` is the moment up to which the epoch reads what the log has taken in.
    """

    epoch: int
    start: int
    end: int
    received: int = 0


@dataclass(frozen=True)
class Counts:
    """One ledger entry: where the rows of an input went. `read` is the sum of the others but for two that say something of
    the accepted ones: `corrected` came to a window that had been issued, and changed it; `deleted` are tombstones. And
    `given_up` are no rows, but attempts of a pattern that were open for too long."""

    read: int = 0
    accepted: int = 0
    late_dropped: int = 0
    late_aside: int = 0
    duplicates: int = 0
    quarantined: int = 0
    corrected: int = 0
    deleted: int = 0
    given_up: int = 0


@dataclass(frozen=True)
class Step:
    """What an epoch gives: the net changes of the node, the ledger of each input, late rows for a side topic, and rows
    that cannot be taken in.

    `changes` has the value columns, `_time` and `_weight`, old rows (-1) before new ones (+1), and no pairs that
    cancel. `late` has, by input, its columns and `_watermark`, the watermark the row missed; `quarantined` its columns
    and `_error`, what is wrong with the row. `figures` is what people are told about the node as it is now. `withheld` are
    results that go to a topic of their own, since they cannot be handed on. `watermark` is the time before which no result
    of a later epoch will be, of a kernel whose open work decides that.
    """

    changes: pl.DataFrame
    counts: Mapping[str, Counts]
    late: Mapping[str, pl.DataFrame] = field(default_factory=dict)
    quarantined: Mapping[str, pl.DataFrame] = field(default_factory=dict)
    figures: Mapping[str, int] = field(default_factory=dict)
    withheld: pl.DataFrame | None = None
    watermark: int | None = None


class Kernel(Protocol):
    """A stateful operator. The object is frozen configuration; all memory is in `state`."""

    @property
    def tables(self) -> Mapping[str, TableSpec]:
        """The state tables it needs."""

    def step(self, state: State, inputs: Mapping[str, pl.DataFrame], clock: EpochClock) -> Step:
        """One epoch: read and change the state, return the changes. Inputs are "in", or "left" and "right"."""


Buckets = tuple[int, int]
"""A half-open range of a table's buckets."""


@runtime_checkable
class TimedKernel(Kernel, Protocol):
    """One that has work to do when time passes, also if no row comes."""

    def due(self, clock: EpochClock) -> Mapping[str, Buckets]:
        """Where the rows are, by table, that such a step looks at. It decides how many tasks share an epoch, not what an
        epoch gives."""
