"""What a shard is told about an epoch, and what it tells the driver afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import polars as pl

from riverrun.kernels.kernel import MAX_TIME, MIN_TIME, EpochClock
from riverrun.kernels.watermark import HEARD, Said, combined, delayed, thinned
from riverrun.runtime.compile.job import Operator
from riverrun.state.directory import ALL_SHARDS


class Control(msgspec.Struct):
    """What a shard is told about the epoch: its clock, and the state it starts from."""

    epoch: int
    received: int
    final: bool
    watermarks: dict[
        str, tuple[int, int]
    ]  # id of one that is planned or held → what it is at the epoch's start and end
    positions: dict[str, dict[int, int]]  # where the epoch's input ends
    manifest: dict[str, dict[str, Any]]  # node id → shard → entry
    state: str  # where the state files are
    memory: str | None = None  # what the planner remembers after the epoch

    def clock(self, operator: Operator) -> EpochClock:
        """The node's own clock: the smallest of the watermarks it follows, each minus the delay on the way."""

        def at(which: int) -> int:
            return combined(delayed(self.watermark(source)[which], lag) for source, lag in operator.lags.items())

        return EpochClock(self.epoch, at(0), at(1), self.received)

    def watermark(self, node: str) -> tuple[int, int]:
        """A watermark at the epoch's start and end. Before its first epoch, a node that holds one back has said nothing."""
        return self.watermarks.get(node, (MIN_TIME, MAX_TIME if self.final else MIN_TIME))

    def of_shard(self, shard: int) -> Control:
        """The same with the shard's own part of the manifest."""
        names = (str(shard), ALL_SHARDS)
        mine = {
            node: {name: entries[name] for name in names if name in entries} for node, entries in self.manifest.items()
        }
        return msgspec.structs.replace(self, manifest=mine)


class Report(msgspec.Struct):
    """What a task did: new state by node and shard, where rows went by node and input, and the time it took."""

    manifest: dict[str, dict[str, Any]] = {}
    counts: dict[str, dict[str, dict[str, int]]] = {}
    work: dict[str, int] = {}  # topic or node → microseconds
    figures: dict[str, dict[str, int]] = {}  # node → what it says about itself
    watermarks: dict[str, int] = {}  # node that holds one back → what it passes on in the next epoch
    heard: dict[str, Said] = {}  # by watermark, of sources that are known by reading only
    clocks: dict[str, dict[str, int]] = {}  # node that corrects clocks → device → by how much, in microseconds

    def count(self, node: str, input: str, counts: dict[str, int]) -> None:
        """Add to the ledger of one input of a node."""
        total = self.counts.setdefault(node, {}).setdefault(input, {})
        for kind, number in counts.items():
            total[kind] = total.get(kind, 0) + number

    def spend(self, name: str, micros: int) -> None:
        """Add to the time that a topic or node took."""
        self.work[name] = self.work.get(name, 0) + micros

    def tell(self, node: str, figures: Mapping[str, int]) -> None:
        """Add what a node says about one of its shards."""
        said = self.figures.setdefault(node, {})
        for name, number in figures.items():
            said[name] = said.get(name, 0) + number

    def hold(self, node: str, watermark: int) -> None:
        """Take in what a node can pass on, seen from one of its shards."""
        self.watermarks[node] = min(self.watermarks.get(node, watermark), watermark)

    def hear(self, node: str, heard: pl.DataFrame, idle: int | None) -> None:
        """Take in what producers have said, as one watermark hears it, for which they are idle after so long."""
        said = pl.DataFrame(self.heard.get(node, []), schema=HEARD, orient="row")
        self.heard[node] = thinned(pl.concat([said, heard]), idle).rows()

    def add(self, other: Report) -> None:
        """Take in another task's report."""
        for node, entries in other.manifest.items():
            self.manifest.setdefault(node, {}).update(entries)
        for node, inputs in other.counts.items():
            for input, counts in inputs.items():
                self.count(node, input, counts)
        for name, micros in other.work.items():
            self.spend(name, micros)
        for node, figures in other.figures.items():
            self.tell(node, figures)
        for node, watermark in other.watermarks.items():
            self.hold(node, watermark)
        for node, heard in other.heard.items():
            self.heard.setdefault(node, []).extend(heard)
        for node, offsets in other.clocks.items():
            self.clocks.setdefault(node, {}).update(offsets)
