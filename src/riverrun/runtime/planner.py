"""Planning epochs: what each reads, and what time it is.

An epoch takes from every partition of every topic all rows received up to one moment; of topics of a capture all
transactions that were whole by then. Which moment, the offsets, and the watermarks before and after are decided here, from
frame headers, and are the epoch's identity: repeated, it is the same.

A log without headers (Kafka) tells what time it is by being read: what an epoch has heard, its commit says, and counts from
the next epoch on. One without rows follows when that may change something.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import polars as pl

from riverrun.durations import wall_clock
from riverrun.failpoints import failpoint
from riverrun.kernels.kernel import MAX_TIME, MIN_TIME
from riverrun.kernels.watermark import HEARD, Said, Watermarks, combined, delayed
from riverrun.log.topic import Topic
from riverrun.log.topic_backend import Summary
from riverrun.position import Position
from riverrun.runtime.compile.job import Job, Reading, Waiting
from riverrun.runtime.heard import Hearing
from riverrun.runtime.plan import UNLIMITED, Limit, Plan, Positions
from riverrun.runtime.planner_memory import PlannerMemory
from riverrun.runtime.receipt_cut import ReceiptCut
from riverrun.runtime.transactions import WholeStep, WholeTransactions

_SHORTEST, _LONGEST = 1_000_000, 60_000_000  # microseconds between two looks whether a window of receive time closes


class Planner:
    """Plans epoch after epoch. Its memory is a value in a file that the plan names, so a restart goes on with it."""

    def __init__(
        self,
        job: Job,
        topics: Mapping[str, Topic],
        memory: str,
        limit: Limit,
        clock: Callable[[], int] = wall_clock,
        transactions: Mapping[str, Topic] | None = None,
        heard: Callable[[int], Heard] = lambda _: {},
    ) -> None:
        self._job = job
        self._topics = topics
        self._whole = WholeTransactions(topics, transactions or {})
        self._memory = PlannerMemory(job, memory)
        self._limit = limit
        self._clock = clock
        self._heard = heard
        self._read_first = {name: topic for name, topic in topics.items() if not topic.backend.has_headers}
        self._timed = any(operator.timed for stage in job.stages for operator in stage)
        self._hidden = 0  # for how long (µs) something may have been received that cannot be read yet

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
        rising = {name: topic for name, topic in self._read_first.items() if topic.backend.receipt_rises}
        settled = {name: topic.backend.settled() for name, topic in rising.items()}
        self._hidden = now - min([now, *settled.values()])
        log_ends = {name: topic.ends() for name, topic in self._topics.items()}
        if not Position(plan.positions) <= log_ends:
            for name, topic in self._topics.items():
                topic.check_range(plan.positions[name])
        readable = _bounded(plan, log_ends, self._whole.ends())
        at_once = together is not None and not Position(together) <= plan.positions
        ends = _bounded(plan, readable, until if not at_once else together)
        behind = not Position(ends) <= plan.positions
        known = self._known(plan)
        if not behind and until is not None:
            return None
        if not behind:
            due = self._due(plan, known)
            if not finish and (due is None or due > now):
                return None
            failpoint("plan.begin")
            if finish:
                return self._finished(plan, known)
            return self._advanced(plan, known, plan.positions, now, {}, settled)
        failpoint("plan.begin")
        limit = UNLIMITED if at_once else self._limit
        taken: Mapping[str, list[Summary]] = {}
        if self._read_first:
            positions, moment = ReceiptCut(self._topics, settled).find(plan.positions, ends, plan.received, limit)
            received = max(plan.received, moment or 0)
        else:
            positions, received, taken = self._cut(plan, ends, limit)
        if all(positions[name][p] >= end for name, parts in readable.items() for p, end in parts.items()):
            received = max(received, now)
        else:
            settled = dict.fromkeys(settled, received)
        return self._advanced(plan, known, positions, received, taken, settled)

    def empty(self, first: Plan) -> Plan:
        """A first epoch in which nothing happens, for who has to begin with one before there is anything to read."""
        return replace(first, epoch=1, begin=first.positions)

    def deadline(self, plan: Plan) -> int | None:
        """When an epoch is due without new rows, in wall-clock microseconds."""
        return self._due(plan, self._known(plan))

    def _due(self, plan: Plan, known: Mapping[str, Watermarks]) -> int | None:
        due = [value.deadline + self._hidden for value in known.values() if value.deadline is not None]
        # Receive time passes by itself: as long as that changes something, look now and then.
        steps = [waiting.hold // 10 for waiting in self._job.waiting if self._waits(waiting, known)]
        if steps:
            due.append(plan.received + min(max(min(steps), _SHORTEST), _LONGEST))
        if self._timed and any(one.watermark > _reached(plan, source, known) for source, one in known.items()):
            due.append(plan.received)  # what was heard by reading may close something
        return min(due, default=None)

    def _waits(self, waiting: Waiting, known: Mapping[str, Watermarks]) -> bool:
        """Whether a node has rows that wait, and receive time is what they wait for."""
        by_itself = {reading.id for reading in self._job.readings if reading.time is None}
        times = {root: one.newest if root in by_itself else one.furthest for root, one in known.items()}
        newest = [time + held for root, held in waiting.holds.items() if (time := times[root]) is not None]
        watermarks = {root: delayed(known[root].watermark, lag) for root, lag in waiting.lags.items()}
        passing = [watermarks.pop(reading.id) for reading in self._job.readings if _passes(reading, watermarks)]
        reached = combined(watermarks.values()) if watermarks else MAX_TIME  # by clocks that only rows move
        return bool(newest) and reached > MIN_TIME and combined(passing) <= min(reached, max(newest))

    def watermarks(self, plan: Plan) -> dict[str, Watermarks]:
        """What is remembered of each source's producers, for the status."""
        return self._known(plan)

    def _known(self, plan: Plan) -> dict[str, Watermarks]:
        """What is known of each source after an epoch, with what was heard by reading it."""
        known = self._memory.recall(plan.memory)
        if not self._read_first or not plan.epoch or plan.final:
            return known
        heard, nothing = self._heard(plan.epoch), pl.DataFrame(schema=HEARD)
        after = dict(known)
        for reading in self._job.readings:
            if reading.topic in self._read_first:
                for node in reading.watermarks:
                    lines = heard.get(node)
                    said = nothing if lines is None else pl.DataFrame(lines, schema=HEARD, orient="row")
                    after[node] = known[node].advance(said, plan.received if plan.settled is None else plan.settled)
                if reading.time is None and self._topics[reading.topic].backend.receipt_rises:
                    # It passes by itself, and not beyond what an open transaction may still bring.
                    after[reading.id] = replace(after[reading.id], watermark=known[reading.id].watermark)
        return after

    def _sources(self) -> Iterator[str]:
        for reading in self._job.readings:
            yield from reading.watermarks

    def _cut(
        self, plan: Plan, ends: Positions, limit: Limit
    ) -> tuple[dict[str, dict[int, int]], int, dict[str, list[Summary]]]:
        """Frames in the order they arrived, over all topics, until there are enough rows; of a capture, transactions."""
        captured = self._whole.captured
        streams = [
            self._arrived(name, plan.positions[name], ends[name]) for name in self._topics if name not in captured
        ]
        whole = [_transactions(steps) for steps in self._whole.steps(plan.positions, ends)]
        positions = {name: dict(parts) for name, parts in plan.positions.items()}
        taken: dict[str, list[Summary]] = {name: [] for name in self._topics}
        row_bytes = {name: self._topics[name].backend.row_bytes() for name in captured}
        rows, size, received = 0, 0, plan.received
        for moment, step in heapq.merge(*streams, *whole, key=lambda item: item[0]):
            if (rows >= limit.rows or size >= limit.size) and moment > received:
                break
            received = max(received, moment)
            if isinstance(step, WholeStep):
                for name, p, end in _beyond(positions, step.ends):
                    rows += end - positions[name][p]
                    size += (end - positions[name][p]) * row_bytes[name]
                    positions[name][p] = end
                continue
            name, part = step
            rows += part.rows
            size += part.size
            taken[name].append(part)
            end = min(part.offset + part.span, ends[name][part.partition])
            positions[name][part.partition] = max(positions[name][part.partition], end)
        else:
            # All of it; compaction may have removed the last offsets.
            positions = {name: dict(ends[name]) for name in positions}
        for name in captured:
            taken[name] = list(self._topics[name].summaries(plan.positions[name], positions[name]))
        return positions, received, taken

    def _arrived(self, name: str, start: Mapping[int, int], end: Mapping[int, int]) -> Iterator[tuple[int, _Step]]:
        moment = 0
        for part in self._topics[name].summaries(start, end):
            moment = max(moment, part.received)
            yield moment, (name, part)

    def _advanced(
        self,
        plan: Plan,
        known: dict[str, Watermarks],
        positions: Mapping[str, Mapping[int, int]],
        received: int,
        taken: Mapping[str, list[Summary]],
        settled: Mapping[str, int],
    ) -> Plan:
        after: dict[str, Watermarks] = {}
        for reading in self._job.readings:
            start, end = plan.positions[reading.topic], positions[reading.topic]
            if reading.topic in self._read_first:
                after |= self._waited(reading, known, start == end, received, settled.get(reading.topic))
                continue
            hearing = Hearing(reading, self._topics[reading.topic], taken.get(reading.topic, []), start, end)
            after[reading.id] = known[reading.id].advance(hearing.producers(), received)
            if reading.time is None:  # whatever comes later was received later, whoever sends it
                after[reading.id] = after[reading.id].raised(received)
            for clock in reading.clocks:
                after[clock.id] = known[clock.id].advance(hearing.corrected(clock), received)
        return Plan(
            epoch=plan.epoch + 1,
            received=received,
            positions=positions,
            watermarks={s: (_reached(plan, s, known), after[s].watermark) for s in self._sources()},
            memory=self._memory.remember(plan.epoch + 1, after),
            settled=min([received, *settled.values()]) if settled else None,
        )

    def _waited(
        self, reading: Reading, known: Mapping[str, Watermarks], silent: bool, received: int, settled: int | None
    ) -> dict[str, Watermarks]:
        """The watermarks of a source that is heard by reading: with silence, if the epoch has no rows of it; with receive
        time, which passes by itself, as far as nothing older can come: what an open transaction hides was said."""
        nothing, until = pl.DataFrame(schema=HEARD), received if settled is None else min(settled, received)
        after = {node: known[node].advance(nothing, until) if silent else known[node] for node in reading.watermarks}
        if reading.time is None and settled is not None:
            after[reading.id] = after[reading.id].raised(until)
        return after

    def _finished(self, plan: Plan, known: dict[str, Watermarks]) -> Plan:
        after = {source: value.finished() for source, value in known.items()}
        return Plan(
            epoch=plan.epoch + 1,
            received=plan.received,
            positions=plan.positions,
            watermarks={source: (_reached(plan, source, known), MAX_TIME) for source in self._sources()},
            memory=self._memory.remember(plan.epoch + 1, after),
            final=True,
        )


Heard = Mapping[str, Said]
"""What an epoch has heard by reading, by watermark: as a manifest has it."""

_Step = WholeStep | tuple[str, Summary]


def _transactions(steps: Iterator[WholeStep]) -> Iterator[tuple[int, _Step]]:
    return ((step.received, step) for step in steps)


def _beyond(positions: Positions, ends: Positions) -> list[tuple[str, int, int]]:
    """(topic, partition, end) of what a step adds."""
    return [(n, p, end) for n, parts in ends.items() for p, end in parts.items() if end > positions[n].get(p, 0)]


def _reached(plan: Plan, source: str, known: Mapping[str, Watermarks]) -> int:
    """The watermark that an epoch has left: what it was told by being read counts only now."""
    return plan.watermarks[source][1] if source in plan.watermarks else known[source].watermark


def _passes(reading: Reading, watermarks: Mapping[str, int]) -> bool:
    """Whether a reading is one of these, and its time passes by itself."""
    return reading.time is None and reading.id in watermarks


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
