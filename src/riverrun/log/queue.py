"""A topic as a queue: messages one by one, each acknowledged by itself.

    with topic.queue("emails") as queue:
        while message := queue.receive(timeout=60):
            send(message.row)
            message.ack()

A message is with one worker at a time, in whatever thread or process. It comes again when it is given back (`nack`),
when its lease runs out, or when its worker dies; so delivery is at least once. After `attempts` deliveries without an
`ack` it goes to the topic "<topic>.dead.<group>", once. Messages come about in order; one that comes again is after
others of its key. Tombstones are no messages.
"""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from riverrun.columns import check_name
from riverrun.durations import Duration, micros
from riverrun.errors import Closed, Fenced, Invalid, NotFound, OutOfRange, RiverrunError
from riverrun.log.coordination import Coordination
from riverrun.log.dead_letters import DeadLetters
from riverrun.log.deliveries import Deliveries, Delivery, Dying, Unread
from riverrun.log.feed import warm_up
from riverrun.log.lookahead import Lookahead
from riverrun.log.queue_workers import EVERY, QueueWorkers
from riverrun.log.spec import TopicSpec
from riverrun.log.topic import Topic
from riverrun.log.wake import Bell
from riverrun.position import Position

_UPKEEP = 1_000_000  # how often to look for dead workers, and for what they left half done
_REASON = 2000  # characters kept of a reason


@dataclass(slots=True, eq=False)
class Message:
    """A row of the topic, leased to this worker. Deal with it, then `ack`; or `nack`, and it comes again."""

    row: dict[str, Any]
    key: str | None
    attempt: int  # 1 for the first delivery
    position: Position  # where it is in the topic
    _queue: Queue = field(repr=False)
    _delivery: Delivery = field(repr=False)
    _settled: str | None = field(default=None, repr=False)

    def ack(self) -> None:
        """It is done, and will not come again. Fenced if another worker has it meanwhile."""
        if self._settled != "acknowledged":
            self._check("acknowledged")
            self._queue.deliveries.finish(self._delivery)
            self._settled = "acknowledged"

    def nack(self, reason: str | None = None, delay: Duration | None = None) -> None:
        """It could not be dealt with: it comes again (after `delay`), or is a dead letter if this was the last try."""
        self._check("given back")
        # What names a file may have half a character in it, which cannot be written.
        text = (reason or "given back without a reason")[:_REASON].encode(errors="backslashreplace").decode()
        self._queue.give_back(self._delivery, text, 0 if delay is None else micros(delay))
        self._settled = "given back"

    def extend(self, lease: Duration | None = None) -> None:
        """Keep it for another lease (of this length) from now on."""
        self._check("kept")
        self._queue.deliveries.extend(self._delivery, self._queue.lease if lease is None else micros(lease))

    def _check(self, what: str) -> None:
        if self._settled:
            raise Fenced(f"message {self.position} was {self._settled} already; it cannot be {what}")


class Queue:
    """A worker of a group. Threads may share it; a forked process may go on using it."""

    def __init__(
        self,
        topic: Topic,
        group: str,
        coordination: Coordination,
        open_topic: Callable[[TopicSpec], Topic],
        lease: Duration = "30 s",
        attempts: int = 5,
    ) -> None:
        if isinstance(attempts, bool) or not isinstance(attempts, int) or attempts < 1:
            raise Invalid(f"queue {group}: attempts must be a whole number from 1, not {attempts!r}")
        self.topic = topic
        self.group = check_name(group, "group")
        self.lease = micros(lease)
        self.attempts = attempts
        if not self.lease:
            raise Invalid(f"queue {group}: a lease of no time cannot be kept")
        self._now = coordination.now
        self._closed = threading.Event()
        self._lock = threading.Lock()
        self._ahead = Lookahead(topic)
        self._dead = DeadLetters(coordination, topic, group, open_topic)
        self._workers = QueueWorkers(coordination, self.group, topic.name)
        self._worker = ""
        self._upkeep_at = 0
        self.deliveries = Deliveries(coordination, topic, group, self.lease, attempts)
        warm_up()
        self.deliveries.open()
        coordination.dependents.add(self)

    def __repr__(self) -> str:
        return f"<queue {self.group} of topic {self.topic.name}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def dead_letters(self) -> str:
        """The name of the topic for messages that failed too often."""
        return self._dead.name

    def receive(self, timeout: Duration | None = None) -> Message | None:
        """The next message, waiting for one if need be; None when the time is up. No time waits for ever."""
        if self._closed.is_set():
            raise Closed(f"{self!r} is closed")
        deadline = None if timeout is None else self._now() + micros(timeout)
        message = self._take()
        if message is not None:
            return message
        with Bell() as bell:
            self.topic.attach(bell)
            while not self._closed.is_set():
                bell.clear()
                self._look_after_the_dead()
                outlook = self.deliveries.outlook()
                if outlook.ready:
                    message = self._take()
                    if message is not None:
                        return message
                    continue
                now = self._now()
                if deadline is not None and now >= deadline:
                    return None
                # While messages are out, their workers may die; and this one tells that it has not.
                wakes = [deadline, outlook.due, now + (_UPKEEP if outlook.unfinished else EVERY)]
                bell.wait(max(0, min(w for w in wakes if w is not None) - now) / 1e6)
        return None

    def give_back(self, delivery: Delivery, reason: str, delay: int) -> None:
        """For a message: return it, and wake whoever waits for one."""
        if self.deliveries.give_back(delivery, reason, delay):
            self._dead.bury()
        else:
            self.topic.backend.ring()

    def close(self) -> None:
        """Give back at once what was received and not acknowledged. A second close does nothing."""
        if not self._closed.is_set():
            self._closed.set()
            if self._worker and self._pid() == os.getpid():
                self.deliveries.give_back_all(self._worker)
                self._workers.leave(self._worker)
            with suppress(NotFound):  # a dropped topic has nobody who waits
                self.topic.backend.ring()

    def leave(self) -> None:
        """Close, because the river is closed."""
        try:
            self.close()
        except RiverrunError:
            pass  # then the leases run out

    def tell(self) -> None:
        """For who does not call `receive` for a while: this worker is there, with a message or without."""
        if not self._closed.is_set():
            with suppress(RiverrunError):  # messages matter more than who is seen: it is told the next time
                self._workers.hear(self._name())

    def _take(self) -> Message | None:
        self._look_after_the_dead()
        while True:
            with self._lock:
                claimed = self.deliveries.claim(self._name(), self._ahead)
                match claimed:
                    case None:
                        return None
                    case Unread(partition, offset):
                        self._ahead.read(partition, offset)
                    case Delivery():
                        message = self._message(claimed)
                        if message is not None:
                            return message
            if isinstance(claimed, Dying):
                self._dead.bury()

    def _look_after_the_dead(self) -> None:
        """Now and then: take messages from workers that died, and finish what they began."""
        now = self._now()
        if now >= self._upkeep_at:
            self._upkeep_at = now + _UPKEEP
            self.tell()
            self.deliveries.reclaim()
            self._dead.bury()

    def _message(self, delivery: Delivery) -> Message | None:
        partition, offset, attempt, _ = delivery
        position = Position({self.topic.name: {partition: offset}})
        try:
            record = self._ahead.record(partition, offset)
        except OutOfRange as error:
            self.deliveries.drop(partition, offset)
            raise OutOfRange(
                f"queue {self.group}: message {position} was to be delivered again, but retention removed it",
                hint="The queue goes on after it. Keep the topic's rows longer than its messages take",
            ) from error
        if record is None:
            # Compaction removed it: a newer row of its key took its place.
            self.deliveries.drop(partition, offset)
            return None
        return Message(record.row, record.key, attempt, position, self, delivery)

    def _name(self) -> str:
        """This worker; another one after a fork, since the parent goes on with its own messages."""
        if not self._worker or self._pid() != os.getpid():
            self._worker = f"{os.getpid()}-{uuid.uuid4().hex[:8]}"
        return self._worker

    def _pid(self) -> int:
        return int(self._worker.partition("-")[0])
