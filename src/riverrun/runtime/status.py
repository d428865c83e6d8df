"""How a flow is, as one value: what its store says of it, and what only the process that runs it knows.

Times are datetimes in UTC. `plain` gives all of it as JSON has it, times as strings; that is for the edge.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

import msgspec

from riverrun.durations import show
from riverrun.runtime.ledger import LedgerEntry

FlowState = Literal[
    "starting", "running", "rebuilding", "waiting", "failing", "drained", "stopped", "failed", "unknown"
]


class Lag(msgspec.Struct, frozen=True):
    """Rows (counted by offsets) that are not processed yet, by topic and in all; seconds since the oldest of them was
    received."""

    rows: int = 0
    seconds: float = 0.0
    topics: dict[str, int] = {}


class SlowProducer(msgspec.Struct, frozen=True):
    """A producer that a watermark waits for: its newest event time, and when it was last heard."""

    producer: str | None
    time: datetime | None
    heard: datetime | None


class SourceStatus(msgspec.Struct, frozen=True):
    """A source's watermark, its distance in seconds from the wall clock, and the producers that hold it back. None before
    the first row with a time, and after the end of the input. `silent` says for how many seconds the first of those
    producers has said nothing while others went on; None where it is not so. Without names, producers are partitions."""

    source: str
    topic: str
    watermark: datetime | None = None
    behind: float | None = None
    held_by: tuple[SlowProducer, ...] = ()
    silent: float | None = None
    named: bool = False

    @property
    def waits_for(self) -> str | None:
        """Who holds time back by saying nothing, as people read it."""
        if self.silent is None:
            return None
        who = (self.held_by[0].producer or "(no name)") if self.named else f"partition {self.held_by[0].producer}"
        return f"{who} of {self.topic}, silent for {show(round(self.silent) * 1_000_000)}"


class NodeSize(msgspec.Struct, frozen=True):
    """What the state of one node takes."""

    bytes: int = 0
    files: int = 0


class StateSize(msgspec.Struct, frozen=True):
    """What the state of all nodes takes: files, and bytes in them and in the manifest itself."""

    bytes: int = 0
    files: int = 0
    nodes: dict[str, NodeSize] = {}


class TimeSplit(msgspec.Struct, frozen=True):
    """An epoch in seconds: planned by Spark, read from the log, computed, committed."""

    plan: float
    read: float
    compute: float
    commit: float

    @property
    def total(self) -> float:
        """The whole epoch."""
        return self.plan + self.read + self.compute + self.commit


class EpochTimes(msgspec.Struct, frozen=True):
    """An epoch: when it was committed, its rows, what its time went to. Only the process that ran it knows the last two."""

    epoch: int
    at: datetime | None
    rows: int | None = None
    times: TimeSplit | None = None


class RebuildProgress(msgspec.Struct, frozen=True):
    """Rows that a rebuild has read, of those it has to read."""

    rows: int
    of: int


class AlertStatus(msgspec.Struct, frozen=True):
    """An alert since the run began: messages sent, rows that all addresses have, rows that wait, attempts that failed. `dead`
    are the dead letters that were not sent again, whenever they became ones."""

    alert: str
    sent: int = 0
    rows: int = 0
    waiting: int = 0
    failed: int = 0
    dead: int = 0
    last_error: str | None = None
    last_sent: datetime | None = None


@dataclass(frozen=True)
class ComputedBy:
    """The expressions on the way from a topic or node to a node or end: what computes them, the tasks (`arrow`) or
    `spark`, and why not the tasks."""

    origin: str
    target: str
    engine: str
    reason: str | None


class StoredStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What the home store and the directory of a flow say: the same for every process. `run` names the one that holds the
    fence; `rules_off` has the rules of `s.match_rules` that were switched off, with the reason."""

    flow: str
    epoch: int = 0
    positions: str = ""
    committed: datetime | None = None
    finished: bool = False
    lag: Lag = Lag()
    sources: tuple[SourceStatus, ...] = ()
    late: int = 0
    state_size: StateSize = StateSize()
    fence: int = 0
    run: str = ""
    ledger: tuple[LedgerEntry, ...] = ()
    rules_off: dict[str, str] = {}

    @property
    def rows_read(self) -> int:
        """Rows that were read from topics, in total."""
        return sum(entry.read for entry in self.ledger if entry.input == "topic")

    @property
    def watermark_lag(self) -> float | None:
        """Seconds from the slowest watermark to the wall clock; None where there is no watermark."""
        return max((source.behind for source in self.sources if source.behind is not None), default=None)


class FlowStatus(StoredStatus, frozen=True, kw_only=True):
    """A flow, as the process that runs it sees it. `state` is None where that is another process, and "unknown" where the
    run was asked and could not answer: then nothing but the `reason` is known."""

    state: FlowState | None = None
    reason: str | None = None
    next_try: datetime | None = None
    rebuild: RebuildProgress | None = None
    rows_per_second: float | None = None
    times: TimeSplit | None = None  # of the last epoch
    exchange_bytes: int = 0  # of it, rows that went from task to task through shared memory or the flow's directory
    nodes: dict[str, float] = {}  # seconds that it spent in each stateful node
    figures: dict[str, dict[str, int]] = {}  # what nodes say about themselves, by node
    clocks: dict[str, dict[str, float]] = {}  # by node: devices whose clocks are furthest off, and by how many seconds
    alerts: tuple[AlertStatus, ...] = ()
    expressions: tuple[ComputedBy, ...] = ()

    def plain(self) -> dict[str, Any]:
        """As JSON has it. Before the first epoch of a run, `times` is empty."""
        document: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(self))
        document["times"] = document["times"] or {}
        return document
