"""The plan of an epoch: what it reads, and what time it is.

An epoch takes from every partition of every topic all rows received up to one moment. Which moment, the offsets, and
the watermarks before and after are decided here, from frame headers, and are the epoch's identity: repeated, it is the
same.
"""

from __future__ import annotations

import heapq
import os
import sys
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import polars as pl

from riverrun import durable
from riverrun.columns import TIME
from riverrun.durations import wall_clock
from riverrun.failpoints import failpoint
from riverrun.kernels.clock import corrected
from riverrun.kernels.kernel import MAX_TIME, MIN_TIME
from riverrun.kernels.watermark import HEARD, Watermarks, ahead
from riverrun.log.frame import NO_TIME
from riverrun.log.topic import Topic
from riverrun.log.topic_backend import Summary
from riverrun.position import Position
from riverrun.runtime.job import Job, Reading

Positions = Mapping[str, Mapping[int, int]]


@dataclass(frozen=True)
class Plan:
    """One epoch, as it is kept in Spark's offset log."""

    epoch: int
    received: int
    positions: Mapping[str, Mapping[int, int]]
    watermarks: Mapping[str, tuple[int, int]]
    memory: str | None
    final: bool = False
    begin: Mapping[str, Mapping[int, int]] | None = None  # of the first epoch: where it starts to read

    def to_json(self) -> dict[str, Any]:
        return {
            "epoch": self.epoch,
            "received": self.received,
            "positions": _plain(self.positions),
            "watermarks": {source: list(pair) for source, pair in self.watermarks.items()},
            "memory": self.memory,
            "final": self.final,
            **({} if self.begin is None else {"begin": _plain(self.begin)}),
        }

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Plan:
        return cls(
            epoch=plain["epoch"],
            received=plain["received"],
            positions=_numbered(plain["positions"]),
            watermarks={source: (pair[0], pair[1]) for source, pair in plain["watermarks"].items()},
            memory=plain["memory"],
            final=plain["final"],
            begin=_numbered(plain["begin"]) if "begin" in plain else None,
        )


def _plain(positions: Mapping[str, Mapping[int, int]]) -> dict[str, dict[str, int]]:
    return {topic: {str(p): offset for p, offset in parts.items()} for topic, parts in positions.items()}


def _numbered(plain: Mapping[str, Mapping[str, int]]) -> dict[str, dict[int, int]]:
    return {topic: {int(p): offset for p, offset in parts.items()} for topic, parts in plain.items()}


@dataclass(frozen=True)
class Limit:
    """What an epoch takes of a backlog, about: it ends behind the frame that reaches one of them."""

    rows: int = 500_000
    size: int = 256 << 20  # bytes


_SHORTEST, _LONGEST = 1_000_000, 60_000_000  # microseconds between two looks whether a window of receive time closes
_UNLIMITED = Limit(sys.maxsize, sys.maxsize)


class Planner:
    """Plans epoch after epoch. Its memory is a value in a file that the plan names, so a restart goes on with it."""

    def __init__(
        self, job: Job, topics: Mapping[str, Topic], memory: str, limit: Limit, clock: Callable[[], int] = wall_clock
    ) -> None:
        self._job = job
        self._topics = topics
        self._memory = memory
        self._limit = limit
        self._clock = clock
        self._remembered: tuple[str | None, dict[str, Watermarks]] = (None, {})

    def first(self, start: Mapping[str, Mapping[int, int]] | None = None) -> Plan:
        """Before the first epoch: nothing is read. Without `start`, topics are read from their beginning."""
        positions = {name: dict((start or {}).get(name) or topic.begins()) for name, topic in self._topics.items()}
        return Plan(0, 0, positions, dict.fromkeys(self._sources(), (MIN_TIME, MIN_TIME)), None)

    def next(
        self, plan: Plan, finish: bool = False, until: Positions | None = None, together: Positions | None = None
    ) -> Plan | None:
        """The epoch after `plan`, or None when there is nothing to do yet. `finish` ends the input once all is read.

        Nothing is read beyond `until`, and no time passes there: what comes next is for another to plan. What is left up
        to `together` is read as one epoch.
        """
        if plan.final:
            return None
        following = self._following(plan, finish, until, together)
        if following is None:
            return None
        failpoint("plan.done")
        # Where topics begin may have moved by the time the first epoch is repeated.
        return replace(following, begin=plan.positions) if plan.epoch == 0 else following

    def _following(self, plan: Plan, finish: bool, until: Positions | None, together: Positions | None) -> Plan | None:
        # Taken before the ends are read, so that nothing received up to it can be missed later.
        now = self._clock()
        log_ends = {name: topic.ends() for name, topic in self._topics.items()}
        at_once = together is not None and not Position(together) <= plan.positions
        ends = _bounded(plan, log_ends, until if not at_once else together)
        if not Position(plan.positions) <= log_ends:
            for name, topic in self._topics.items():
                topic.check_range(plan.positions[name])
        behind = not Position(ends) <= plan.positions
        known = self._recall(plan)
        if not behind and until is not None:
            return None
        if not behind:
            due = self._due(plan, known)
            if not finish and (due is None or due > now):
                return None
            failpoint("plan.begin")
            return self._finished(plan, known) if finish else self._advanced(plan, known, plan.positions, now, {})
        failpoint("plan.begin")
        positions, received, taken = self._cut(plan, ends, _UNLIMITED if at_once else self._limit)
        read_all = all(positions[name][p] >= end for name, parts in log_ends.items() for p, end in parts.items())
        return self._advanced(plan, known, positions, max(received, now) if read_all else received, taken)

    def empty(self, first: Plan) -> Plan:
        """A first epoch in which nothing happens, for who has to begin with one before there is anything to read."""
        return replace(first, epoch=1, begin=first.positions)

    def deadline(self, plan: Plan) -> int | None:
        """When an epoch is due without new rows, in wall-clock microseconds."""
        return self._due(plan, self._recall(plan))

    def _due(self, plan: Plan, known: Mapping[str, Watermarks]) -> int | None:
        due = [value.deadline for value in known.values() if value.deadline is not None]
        for reading in self._job.readings:
            if reading.time is None and reading.holds:
                # Receive time passes by itself: as long as that changes something, look now and then.
                heard = known[reading.id].producers["time"].to_list()
                if heard and known[reading.id].watermark <= max(heard) + max(reading.holds):
                    due.append(plan.received + min(max(min(reading.holds) // 10, _SHORTEST), _LONGEST))
        return min(due, default=None)

    def watermarks(self, plan: Plan) -> dict[str, Watermarks]:
        """What is remembered of each source's producers, for the status."""
        return self._recall(plan)

    def _sources(self) -> Iterator[str]:
        for reading in self._job.readings:
            yield reading.id
            yield from (clock for clock, _, _ in reading.clocks)

    def _cut(
        self, plan: Plan, ends: Positions, limit: Limit
    ) -> tuple[dict[str, dict[int, int]], int, dict[str, list[Summary]]]:
        """Frames in the order they arrived, over all topics, until there are enough rows."""
        streams = [self._arrived(name, plan.positions[name], ends[name]) for name in self._topics]
        positions = {name: dict(parts) for name, parts in plan.positions.items()}
        taken: dict[str, list[Summary]] = {name: [] for name in self._topics}
        rows, size, received = 0, 0, plan.received
        for moment, name, part in heapq.merge(*streams, key=lambda item: item[0]):
            if (rows >= limit.rows or size >= limit.size) and moment > received:
                break
            rows += part.rows
            size += part.size
            received = max(received, moment)
            taken[name].append(part)
            end = min(part.offset + part.span, ends[name][part.partition])
            positions[name][part.partition] = max(positions[name][part.partition], end)
        else:
            # All of it; compaction may have removed the last offsets.
            positions = {name: dict(ends[name]) for name in positions}
        return positions, received, taken

    def _arrived(
        self, name: str, start: Mapping[int, int], end: Mapping[int, int]
    ) -> Iterator[tuple[int, str, Summary]]:
        moment = 0
        for part in self._topics[name].summaries(start, end):
            moment = max(moment, part.received)
            yield moment, name, part

    def _advanced(
        self,
        plan: Plan,
        known: dict[str, Watermarks],
        positions: Mapping[str, Mapping[int, int]],
        received: int,
        taken: Mapping[str, list[Summary]],
    ) -> Plan:
        after: dict[str, Watermarks] = {}
        for reading in self._job.readings:
            parts = taken.get(reading.topic, [])
            start, end = plan.positions[reading.topic], positions[reading.topic]
            after[reading.id] = known[reading.id].advance(self._heard(reading, parts, start, end), received)
            if reading.time is None:  # whatever comes later was received later, whoever sends it
                after[reading.id] = after[reading.id].raised(received)
            for clock, occurred, sent in reading.clocks:
                heard = self._heard_corrected(reading, occurred, sent, parts, start, end)
                after[clock] = known[clock].advance(heard, received)
        return Plan(
            epoch=plan.epoch + 1,
            received=received,
            positions=positions,
            watermarks={s: (known[s].watermark, after[s].watermark) for s in self._sources()},
            memory=self._remember(plan.epoch + 1, after),
        )

    def _finished(self, plan: Plan, known: dict[str, Watermarks]) -> Plan:
        after = {source: value.finished() for source, value in known.items()}
        return Plan(
            epoch=plan.epoch + 1,
            received=plan.received,
            positions=plan.positions,
            watermarks={source: (known[source].watermark, MAX_TIME) for source in self._sources()},
            memory=self._remember(plan.epoch + 1, after),
            final=True,
        )

    # Who was heard, and what time they said it was.

    def _heard(
        self, reading: Reading, parts: Iterable[Summary], start: Mapping[int, int], end: Mapping[int, int]
    ) -> pl.DataFrame:
        spec = self._topics[reading.topic].spec
        from_headers = reading.time in (None, TIME, spec.time) and reading.producers in (None, spec.producers)
        lines: list[tuple[str, int, int]] = []
        frames: list[pl.DataFrame] = []
        for part in parts:
            whole = part.offset >= start[part.partition] and part.offset + part.span <= end[part.partition]
            skewed = reading.max_skew is not None and part.max_time > part.first_received + reading.max_skew
            if part.rows and (not from_headers or not whole or (skewed and reading.time is not None)):
                frames.append(self._heard_in(reading, part, start, end))
                continue
            if part.rows and reading.producers is None:
                moment = part.received if reading.time is None else part.max_time
                lines.append((str(part.partition), moment, part.received))
            elif part.rows or (reading.producers == spec.producers and reading.time is not None):
                for producer, moment in part.maxima.items():
                    said = part.received if reading.time is None or moment == NO_TIME else moment
                    if part.rows or not _ahead(said, part.received, reading.max_skew):
                        lines.append((producer, said, part.received))
        return pl.concat([pl.DataFrame(lines, schema=HEARD, orient="row"), *frames])

    def _heard_in(
        self, reading: Reading, part: Summary, start: Mapping[int, int], end: Mapping[int, int]
    ) -> pl.DataFrame:
        """The same from the rows themselves, where headers do not say enough."""
        own = self._topics[reading.topic].spec.time
        time = own if reading.time == TIME and isinstance(own, str) else reading.time or "_received"
        rows = self._rows(reading, part, start, end, [time])
        return self._grouped(reading, rows.with_columns(pl.col(time).to_physical().alias("time")))

    def _heard_corrected(
        self,
        reading: Reading,
        occurred: str,
        sent: str,
        parts: Iterable[Summary],
        start: Mapping[int, int],
        end: Mapping[int, int],
    ) -> pl.DataFrame:
        """Corrected times are in no header: the columns they follow from are read."""
        found = [pl.DataFrame(schema=HEARD)]
        for part in parts:
            if part.rows:
                rows = self._rows(reading, part, start, end, [occurred, sent])
                moment = corrected(pl.col(occurred), pl.col(sent), pl.col("_received"))
                found.append(self._grouped(reading, rows.with_columns(moment.alias("time"))))
        return pl.concat(found)

    def _rows(
        self, reading: Reading, part: Summary, start: Mapping[int, int], end: Mapping[int, int], columns: list[str]
    ) -> pl.DataFrame:
        p = part.partition
        low, high = max(part.offset, start[p]), min(part.offset + part.span, end[p])
        named = [reading.producers] if reading.producers else []
        wanted = list(dict.fromkeys([*columns, *named, "_received", "_deleted"]))
        topic = self._topics[reading.topic]
        found = topic.read_offsets({p: low}, {p: high}, wanted)
        frame = pl.from_arrow(found)
        assert isinstance(frame, pl.DataFrame)
        producer = pl.col(reading.producers).cast(pl.String).fill_null("") if reading.producers else pl.lit(str(p))
        # Tombstones have the topic's own time where no column holds it, and headers count it.
        timed = pl.lit(TIME in columns)
        return frame.filter(timed | ~pl.col("_deleted")).with_columns(
            producer.alias("producer"), pl.col("_received").to_physical().alias("received")
        )

    def _grouped(self, reading: Reading, rows: pl.DataFrame) -> pl.DataFrame:
        rows = rows.filter(pl.col("time").is_not_null())
        skewed = ahead(rows["time"].to_numpy(), rows["received"].to_numpy(), reading.max_skew)
        return (
            rows.filter(~pl.Series(skewed))
            .group_by("producer", "received")
            .agg(pl.col("time").max())
            .select("producer", pl.col("time").cast(pl.Int64), pl.col("received").cast(pl.Int64))
            .sort("received", "producer")
        )

    # What is remembered from epoch to epoch.

    def _recall(self, plan: Plan) -> dict[str, Watermarks]:
        if self._remembered[0] == plan.memory and self._remembered[1]:
            return self._remembered[1]
        stored: dict[str, bytes] = {}
        if plan.memory:
            with open(f"{self._memory}/{plan.memory}", "rb") as file:
                stored = msgspec.msgpack.decode(file.read(), type=dict[str, bytes])
        known: dict[str, Watermarks] = {}
        for reading in self._job.readings:
            for source in (reading.id, *(clock for clock, _, _ in reading.clocks)):
                if source in stored:
                    known[source] = Watermarks.from_bytes(stored[source], reading.lateness, reading.idle)
                else:
                    known[source] = Watermarks(reading.lateness, reading.idle)
        self._remembered = (plan.memory, known)
        return known

    def _remember(self, epoch: int, known: dict[str, Watermarks]) -> str:
        """Written before the plan that names it is returned; never changed, so a repeated epoch finds the same."""
        durable.make_directory(self._memory)
        name = f"{epoch:012d}-{uuid.uuid4().hex[:8]}"
        with durable.new_file(f"{self._memory}/{name}") as file:
            file.write(msgspec.msgpack.encode({source: value.to_bytes() for source, value in known.items()}))
        self._remembered = (name, known)
        self._forget(epoch)
        return name

    def _forget(self, epoch: int) -> None:
        """Spark repeats at most the last epoch; older memories are of no use."""
        if epoch % 16 == 0:
            for name in os.listdir(self._memory):
                if name[:12].isdigit() and int(name[:12]) < epoch - 8:
                    os.unlink(f"{self._memory}/{name}")


def _bounded(plan: Plan, ends: Positions, bound: Positions | None) -> Positions:
    """Where reading ends: where the log does, or before it; never behind the plan."""
    if bound is None:
        return ends
    return {
        name: {
            p: max(min(end, bound.get(name, {}).get(p, 0)), plan.positions[name].get(p, 0)) for p, end in parts.items()
        }
        for name, parts in ends.items()
    }


def _ahead(moment: int, received: int, max_skew: int | None) -> bool:
    """Whether a promise is about a time that no row of it would be taken in for."""
    return max_skew is not None and moment > received + max_skew
