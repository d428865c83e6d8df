"""A topic and its groups against a model of them that fits on a page, through rolls, crashes and upkeep."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from riverrun import failpoints
from riverrun.durations import to_micros
from riverrun.errors import DiskFull, Fenced, OutOfRange
from riverrun.log.catalogue import Catalogue
from riverrun.log.coordination import Coordination
from riverrun.log.groups import CoordinatedGroups
from riverrun.log.partitioner import partition_of
from riverrun.log.segment import segment_path
from riverrun.log.spec import TopicSpec
from riverrun.log.topic import Topic
from riverrun.position import Position
from riverrun.settings import Settings

SCHEMAS = [
    "k string, n bigint, at timestamp",
    "k string, n bigint, at timestamp, note string",
    "k string, n bigint, at timestamp, note string, tags array<int>",
]
START = datetime(2024, 1, 1, tzinfo=UTC)
REMEMBERED = 5
FAILURES = ["append.begin", "append.written", "roll.begin", "roll.created"]

keys = st.sampled_from("abcdefgh")
batches = st.lists(st.tuples(keys, st.integers(0, 50)), min_size=1, max_size=12)
producers = st.sampled_from(["p", "q"])
groups = st.sampled_from(["g", "h"])


@dataclass
class Known:
    """What the model remembers of a producer."""

    fence: int = 0
    recent: list[tuple[int, list[int]]] = field(default_factory=list)

    def fenced(self, fence: int) -> None:
        """Numbers from before the first fence are somebody else's."""
        if fence and not self.fence:
            self.recent = []
        self.fence = fence


class Model:
    """Rows by partition and offset, and nothing else that could go wrong."""

    def __init__(self, partitions: int) -> None:
        self.rows: dict[tuple[int, int], dict[str, Any]] = {}
        self.next = [0] * partitions
        self.first = [0] * partitions
        self.producers: dict[str, Known] = {}
        self.committed: dict[str, dict[int, int]] = {}

    def append(self, rows: Iterable[dict[str, Any]]) -> list[int]:
        for row in rows:
            partition = partition_of(row["k"].encode(), len(self.next))
            self.rows[partition, self.next[partition]] = row
            self.next[partition] += 1
        return list(self.next)

    def compact(self) -> None:
        newest = {row["k"]: place for place, row in sorted(self.rows.items())}
        self.rows = {place: row for place, row in self.rows.items() if newest[row["k"]] == place}

    def forget(self, first: list[int]) -> None:
        self.first = first
        self.rows = {(p, offset): row for (p, offset), row in self.rows.items() if offset >= first[p]}

    def after(self, offsets: dict[int, int]) -> list[tuple[int, int]]:
        return sorted((p, offset) for p, offset in self.rows if offset >= offsets[p])


class TopicMachine(RuleBasedStateMachine):
    @initialize(
        partitions=st.integers(1, 3),
        options=st.fixed_dictionaries(
            {
                "fsync": st.sampled_from(["os", "os", "batch", "1 ms"]),
                "compression": st.sampled_from([None, "lz4"]),
                "retention_bytes": st.sampled_from([None, None, 12_000]),
            }
        ),
    )
    def begin(self, partitions: int, options: dict[str, Any]) -> None:
        self.directory = tempfile.mkdtemp(prefix="riverrun-machine-")
        self.coordination = Coordination(f"{self.directory}/coordination.db", create=True)
        self.options = {"key": "k", "time": "at", "partitions": partitions, "retention": None, **options}
        self.version = 0
        self.abandoned: list[Topic] = []
        self.model = Model(partitions)
        self.topic = self.opened()

    def opened(self) -> Topic:
        settings = Settings(segment_bytes=3000, member_lease=2_000_000)
        catalogue = Catalogue(f"{self.directory}/topics", settings, self.coordination)
        return catalogue.open(TopicSpec("t", SCHEMAS[self.version], **self.options))

    def teardown(self) -> None:
        if hasattr(self, "topic"):
            failpoints.arm("")
            for topic in [self.topic, *self.abandoned]:
                topic.close()
            self.coordination.close()
            shutil.rmtree(self.directory)

    def row(self, key: str, n: int) -> dict[str, Any]:
        row: dict[str, Any] = {"k": key, "n": n, "at": START + timedelta(minutes=n)}
        if self.version:
            row["note"] = f"note {n}" if n % 2 else None
        if self.version > 1:
            row["tags"] = [n, None]
        return row

    def position(self, offsets: list[int]) -> Position:
        return Position({"t": dict(enumerate(offsets))})

    # Appending.

    @rule(batch=batches)
    def append(self, batch: list[tuple[str, int]]) -> None:
        rows = [self.row(*item) for item in batch]
        assert self.topic.append(rows) == self.position(self.model.append(rows))

    @rule(batch=batches)
    def send(self, batch: list[tuple[str, int]]) -> None:
        rows = [self.row(*item) for item in batch]
        with self.topic.producer() as producer:
            for row in rows:
                producer.send(row)
        self.model.append(rows)

    @rule(key=keys)
    def delete(self, key: str) -> None:
        assert self.topic.delete(key) == self.position(self.model.append([{"k": key, "_deleted": True}]))

    @rule(partition=st.integers(0, 2), minutes=st.integers(0, 50))
    def promise(self, partition: int, minutes: int) -> None:
        partition %= len(self.model.next)
        self.model.next[partition] += 1
        moment = START + timedelta(minutes=minutes)
        assert self.topic.advance(partition, moment) == self.position(self.model.next)

    @rule(batch=batches, name=producers, sequence=st.integers(0, 12), fence=st.integers(0, 3))
    def append_as(self, batch: list[tuple[str, int]], name: str, sequence: int, fence: int) -> None:
        rows = [self.row(*item) for item in batch]
        known = self.model.producers.setdefault(name, Known())
        if fence < known.fence:
            try:
                self.topic.append(rows, producer=name, sequence=sequence, fence=fence)
            except Fenced:
                return
            raise AssertionError("an older fence was let through")
        position = self.topic.append(rows, producer=name, sequence=sequence, fence=fence)
        if not known.fence:
            known.fenced(fence)
        if known.recent and sequence <= known.recent[-1][0]:
            expected = next(ends for remembered, ends in known.recent if remembered >= sequence)
            known.fenced(fence)
        else:
            known.fenced(fence)
            expected = self.model.append(rows)
            known.recent = [*known.recent, (sequence, expected)][-REMEMBERED:]
        assert position == self.position(expected)

    @rule(name=producers, fence=st.integers(0, 4))
    def raise_fence(self, name: str, fence: int) -> None:
        known = self.model.producers.setdefault(name, Known())
        if fence >= known.fence:
            self.topic.raise_fence(name, fence)
            known.fenced(fence)

    @rule(name=producers)
    def take_over(self, name: str) -> None:
        known = self.model.producers.setdefault(name, Known())
        claim = self.topic.backend.take_over(name)
        assert claim.fence == known.fence + 1
        known.fenced(claim.fence)
        assert claim.sequence == (known.recent[-1][0] if known.recent else -1)

    @rule(batch=batches, place=st.sampled_from(FAILURES))
    def append_without_room(self, batch: list[tuple[str, int]], place: str) -> None:
        rows = [self.row(*item) for item in batch]
        failpoints.arm(f"{place}:1=enospc")
        try:
            self.topic.append(rows)
        except DiskFull:
            return
        finally:
            failpoints.arm("")
        self.model.append(rows)

    @precondition(lambda self: self.version < len(SCHEMAS) - 1)
    @rule()
    def add_a_column(self) -> None:
        self.version += 1
        self.topic.close()
        self.topic = self.opened()

    # Ends and beginnings.

    @rule()
    def roll(self) -> None:
        self.topic.backend.journal.roll()

    @rule()
    def reopen(self) -> None:
        self.topic.close()
        self.topic = self.opened()

    @rule(torn=st.binary(max_size=200), dies_inside=st.booleans())
    def crash(self, torn: bytes, dies_inside: bool) -> None:
        """A process ends without closing anything, perhaps in the middle of an append."""
        self.topic.backend.upkeep.stop()
        self.abandoned.append(self.topic)
        if dies_inside:
            self.write_behind_the_end(torn)
            self.topic.backend.journal.board.holder = 1 << 22  # no such process
        self.topic = self.opened()

    @rule(batch=batches, reached=st.integers(0, 1500))
    def power_cut(self, batch: list[tuple[str, int]], reached: int) -> None:
        """During an append: of its bytes only the first ones reached the disk, and the board is in doubt."""
        rows = [self.row(*item) for item in batch]
        before = self.topic.backend.journal.board.written()
        self.topic.append(rows)
        self.topic.backend.upkeep.wait()
        after = self.topic.backend.journal.board.written()
        self.topic.close()
        begin = before.end if after.segment == before.segment else 0
        if begin + reached < after.end:
            os.truncate(segment_path(self.topic.backend.directory, after.segment), begin + reached)
        else:
            self.model.append(rows)
        os.unlink(f"{self.topic.backend.directory}/state")
        self.topic = self.opened()

    def write_behind_the_end(self, data: bytes) -> None:
        segments = sorted(name for name in os.listdir(self.topic.backend.directory) if name.endswith(".journal"))
        with open(f"{self.topic.backend.directory}/{segments[-1]}", "ab") as file:
            file.write(data)

    # Upkeep.

    @rule()
    def compact(self) -> None:
        self.topic.backend.upkeep.wait()
        self.see_retention()
        before = len(self.model.rows)
        result = self.topic.compact()
        self.model.compact()
        assert result["removed"] == before - len(self.model.rows)

    @rule()
    def enforce_retention(self) -> None:
        self.topic.backend.upkeep.wait()
        self.topic.enforce_retention()

    @rule()
    def seal(self) -> None:
        self.topic.backend.journal.roll()
        self.topic.backend.upkeep.start()
        self.topic.backend.upkeep.wait()

    def see_retention(self) -> None:
        first = [self.topic.begins()[p] for p in range(len(self.model.next))]
        assert all(old <= new <= end for old, new, end in zip(self.model.first, first, self.model.next, strict=True))
        if self.options["retention_bytes"] is None:
            assert first == self.model.first
        self.model.forget(first)

    # Reading.

    @rule(minutes=st.integers(0, 51))
    def offsets_at(self, minutes: int) -> None:
        self.topic.backend.upkeep.wait()
        self.see_retention()
        expected = list(self.model.next)
        for (partition, offset), row in sorted(self.model.rows.items(), reverse=True):
            if "n" in row and row["n"] >= minutes:
                expected[partition] = offset
        assert self.topic.offsets_at(START + timedelta(minutes=minutes)) == self.position(expected)

    @rule(data=st.data())
    def read_a_range(self, data: st.DataObject) -> None:
        self.topic.backend.upkeep.wait()
        self.see_retention()
        low = {p: data.draw(st.integers(self.model.first[p], n)) for p, n in enumerate(self.model.next)}
        high = {p: data.draw(st.integers(low[p], n)) for p, n in enumerate(self.model.next)}
        read = self.topic.read({"t": low}, {"t": high}, ["_partition", "_offset"]).to_pylist()
        found = sorted((r["_partition"], r["_offset"]) for r in read)
        assert found == [place for place in self.model.after(low) if place[1] < high[place[0]]]

    @rule(group=groups, commit=st.booleans(), members=st.integers(1, 2))
    def consume(self, group: str, commit: bool, members: int) -> None:
        """A group gets every row behind its commit once, however many members share the work and commit it."""
        self.topic.backend.upkeep.wait()
        self.see_retention()
        committed = self.model.committed.get(group, dict(enumerate(self.model.first)))
        commit = commit or members > 1  # what a member did not commit comes again when another one joins
        consumers = [self.topic.consumer(group) for _ in range(members)]
        try:
            if any(committed[p] < first for p, first in enumerate(self.model.first)):
                self.expect_out_of_range(group, consumers)
                return
            expected, found = self.model.after(committed), []
            deadline = time.monotonic() + 20
            while len(found) < len(expected) or len(consumers) < members:
                assert time.monotonic() < deadline, (expected, found)
                for consumer in consumers:
                    batch = consumer.poll(timeout=0)
                    if batch is not None:
                        places = batch.select(["_partition", "_offset"]).to_pylist()
                        found += [(place["_partition"], place["_offset"]) for place in places]
                    if commit:
                        consumer.commit()
            assert sorted(found) == expected
            for consumer in consumers:
                assert consumer.poll(timeout=0) is None
                if commit:
                    consumer.commit()
            if commit:
                self.model.committed[group] = dict(enumerate(self.model.next))
        finally:
            for consumer in consumers:
                consumer.close()

    def expect_out_of_range(self, group: str, consumers: list[Any]) -> None:
        for consumer in consumers:
            consumer.close()
        with self.topic.consumer(group, timeout=0) as consumer:
            try:
                for _ in consumer:
                    pass
            except OutOfRange:
                pass
            else:
                raise AssertionError("rows that retention removed were passed over in silence")
        CoordinatedGroups(self.coordination, lambda _: self.topic).reset(group, "t", "earliest")
        self.model.committed[group] = dict(enumerate(self.model.first))

    @rule(name=producers)
    def last_sequence(self, name: str) -> None:
        known = self.model.producers.get(name, Known())
        assert self.topic.last_sequence(name) == (known.recent[-1][0] if known.recent else None)

    @invariant()
    def everything_is_there(self) -> None:
        if not hasattr(self, "topic"):
            return
        assert self.topic.latest == self.position(self.model.next)
        if self.options["retention_bytes"] is not None:
            self.topic.backend.upkeep.wait()
        self.see_retention()
        found: dict[tuple[int, int], dict[str, Any]] = {}
        last = [-1] * len(self.model.next)
        for row in self.topic.read().to_pylist():
            partition, offset = row["_partition"], row["_offset"]
            assert offset > last[partition], "rows of a partition out of order"
            last[partition] = offset
            found[partition, offset] = row
        assert found.keys() == self.model.rows.keys()
        for place, row in self.model.rows.items():
            shown = found[place]
            assert shown["_deleted"] == row.get("_deleted", False)
            for name in ("k", "n", "note", "tags"):
                assert shown.get(name) == row.get(name), (place, name)
            if "at" in row:
                assert to_micros(shown["at"]) == to_micros(row["at"])


TestTopicMachine = TopicMachine.TestCase
TestTopicMachine.settings = settings(
    max_examples=40, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
