"""A member of a group whose offsets and leases are in the coordination database, as the embedded log has them.

A commit survives the death of the process; in a power cut the last ones may be lost, and then too their rows come again.
A handover between live members repeats nothing as long as they commit: a member that should give a partition away stops
reading it at once, and gives it away when what it yielded is committed (after one `member_lease` at the latest).
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from riverrun.calls import answering
from riverrun.durations import Duration, micros
from riverrun.errors import Closed, Fenced, Invalid, NotFound
from riverrun.habits import CONSUMER_METHODS
from riverrun.log.assignment import Slot
from riverrun.log.consumer import Consumer
from riverrun.log.coordination import Coordination
from riverrun.log.feed import Feed, warm_up
from riverrun.log.membership import Membership
from riverrun.log.topic import Start, Topic
from riverrun.log.wake import Bell
from riverrun.position import Position
from riverrun.settings import Settings


@dataclass(slots=True)
class Held:
    """A partition that is this member's."""

    epoch: int
    clean: int  # where reading began, or what was committed since: up to it nothing is in doubt
    saved: bool  # whether the group has that as its committed offset
    deadline: int | None  # when it is to be given away, at the latest


@answering("consumer", CONSUMER_METHODS)
class CoordinatedConsumer(Consumer):
    """A consumer of topics of one machine."""

    def __init__(
        self,
        coordination: Coordination,
        group: str,
        topics: Callable[[], dict[str, Topic]],
        start: Start = "committed",
        timeout: float | None = None,
        settings: Settings | None = None,
    ) -> None:
        super().__init__(group, topics(), timeout)
        self._settings = settings or Settings.load()
        self._coordination = coordination
        self._find_topics = topics
        self._feeds: dict[str, Feed] = {}  # the one that waited longest comes first
        self._held: dict[Slot, Held] = {}
        self._lost: set[Slot] = set()  # taken away with rows that were yielded and not committed
        self._commits = False  # whether this consumer is one that commits
        warm_up()
        starts = first_offsets(start, self._topics)
        self._bell = self._listen()
        self._membership = Membership(coordination, group, self._settings, self._bell)
        self._refresh_at = coordination.now() + self._membership.interval
        # The thread keeps the membership, not the consumer: one that is forgotten leaves the group.
        weakref.finalize(self, self._membership.stopped.set).atexit = False
        try:
            self._membership.join({name: topic.partitions for name, topic in self._topics.items()}, starts)
        except BaseException:
            self._bell.close()
            raise
        self._sync()

    @property
    def assignment(self) -> dict[str, list[int]]:
        return {name: sorted(feed.next) for name, feed in sorted(self._feeds.items()) if feed.next}

    @property
    def position(self) -> Position:
        return Position({name: feed.next for name, feed in self._feeds.items() if feed.next})

    def poll(self, timeout: Duration | None = None) -> pa.RecordBatch | None:
        self._check_usable()
        now = self._coordination.now
        deadline = None if timeout is None else now() + micros(timeout)
        self._membership.polling = True
        try:
            while not self._closed:
                self._bell.clear()
                self._attend()
                batch = self._take()
                if batch is not None:
                    return batch
                wake = min([self._refresh_at, *(held.deadline for held in self._held.values() if held.deadline)])
                if deadline is not None:
                    if now() >= deadline:
                        return None
                    wake = min(wake, deadline)
                self._bell.wait(max(0, wake - now()) / 1e6)
        except KeyboardInterrupt:
            self.close()
            raise
        except Closed:
            if not self._closed:
                raise
        finally:
            self._membership.polled = now()
            self._membership.polling = False
        return None  # another thread closed it

    def commit(self, position: Mapping[str, Mapping[int, int]] | None = None) -> None:
        self._check_usable()
        self._commits = True
        if position is None:
            reached = self._reached()
            offsets = {slot: reached[slot] for slot, held in self._held.items() if self._dirty(slot) or not held.saved}
            offsets |= dict.fromkeys(self._lost, 0)  # refused, naming the owner
        else:
            offsets = {(topic, p): offset for topic, partitions in position.items() for p, offset in partitions.items()}
            self._check_position(offsets)
        try:
            if offsets:
                self._membership.commit(offsets, {slot: held.epoch for slot, held in self._held.items()})
        except Fenced:
            self._sync()
            self._lost.clear()  # said once
            raise
        for slot, offset in offsets.items():
            self._held[slot].clean, self._held[slot].saved = offset, True

    def close(self) -> None:
        if not self._closed and self._pid == os.getpid():
            self._closed = True
            self._membership.leave()
            self._bell.ring()  # in case another thread polls

    def _take(self) -> pa.RecordBatch | None:
        for name, feed in list(self._feeds.items()):
            try:
                batch = feed.take()
            except (Closed, NotFound):
                self._find()  # was it dropped?
                if self._topics.get(name) is feed.topic:
                    raise
                return self._take()
            if batch is not None:
                self._feeds[name] = self._feeds.pop(name)
                self.topic = name
                return batch
        return None

    def _attend(self) -> None:
        """Notice new topics and changes in the group."""
        now = self._coordination.now()
        if now >= self._refresh_at:
            self._refresh_at = now + self._membership.interval
            self._find()
        # Learning that a partition should go and letting it go are two steps.
        while not self._membership.is_current() or any(self._may_go(slot, now) for slot in self._held):
            self._sync()

    def _find(self) -> None:
        topics = self._find_topics()
        if topics != self._topics:
            self._topics = topics
            bell, self._bell = self._bell, self._listen()
            self._membership.bell = self._bell
            bell.close()
            self._sync()

    def _sync(self) -> None:
        now = self._coordination.now()
        grants = self._membership.sync(
            {name: topic.partitions for name, topic in self._topics.items()},
            keep={slot for slot in self._held if not self._may_go(slot, now)},
        )
        reached = self._reached()
        kept = {slot for slot, grant in grants.items() if slot in self._held and self._held[slot].epoch == grant.epoch}
        self._lost |= {slot for slot in self._held if slot not in kept and self._dirty(slot)}
        # What comes back is read again from the last commit: then nothing of it is missing.
        self._lost -= grants.keys()
        held, offsets = {}, {}
        for slot, grant in grants.items():
            if slot in kept:
                held[slot], offsets[slot] = self._held[slot], reached[slot]
            elif slot[0] in self._topics:
                begin = self._topics[slot[0]].begins()[slot[1]] if grant.offset is None else grant.offset
                held[slot], offsets[slot] = Held(grant.epoch, begin, grant.committed, None), begin
            if slot in held and grant.leaving != (held[slot].deadline is not None):
                held[slot].deadline = now + self._settings.member_lease if grant.leaving else None
        self._held = held
        self._seek(offsets)

    def _seek(self, offsets: Mapping[Slot, int]) -> None:
        feeds = dict(self._feeds)
        for name, topic in self._topics.items():
            if name not in feeds or feeds[name].topic is not topic:
                feeds[name] = Feed(topic)
        self._feeds = {name: feed for name, feed in feeds.items() if any(slot[0] == name for slot in offsets)}
        for name, feed in self._feeds.items():
            feed.seek(
                {slot[1]: offset for slot, offset in offsets.items() if slot[0] == name},
                paused={slot[1] for slot, held in self._held.items() if slot[0] == name and held.deadline is not None},
            )

    def _reached(self) -> dict[Slot, int]:
        return {(name, p): offset for name, feed in self._feeds.items() for p, offset in feed.next.items()}

    def _dirty(self, slot: Slot) -> bool:
        """Whether rows were yielded that are not committed."""
        return self._feeds[slot[0]].next[slot[1]] != self._held[slot].clean

    def _may_go(self, slot: Slot, now: int) -> bool:
        deadline = self._held[slot].deadline
        return deadline is not None and (not self._commits or now >= deadline or not self._dirty(slot))

    def _listen(self) -> Bell:
        bell = Bell()
        self._coordination.attach(bell)
        for topic in self._topics.values():
            topic.attach(bell)
        return bell


def first_offsets(start: Start, topics: Mapping[str, Topic]) -> dict[Slot, int]:
    """Where every partition begins for an explicit start; none for "committed"."""
    if start is None or start == "committed":
        return {}
    if isinstance(start, str) and start not in ("earliest", "latest"):
        start = Position.parse(start)
    if isinstance(start, Mapping):
        named = {name: topic for name, topic in topics.items() if name in start}
        if not named:
            raise Invalid(f"the position {str(Position(start))!r} names none of the topics {', '.join(topics)}")
        topics = named
    offsets = {}
    for name, topic in topics.items():
        begin = topic.offsets(start)
        topic.check_range(begin)
        offsets.update({(name, partition): offset for partition, offset in begin.items()})
    return offsets
