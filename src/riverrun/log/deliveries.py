"""Which message of a queue is with whom. One row for each message that was handed out and is not done; the others are
before or after the cursor of their partition, so the table stays as small as what is in flight.

A message is leased to one worker at a time. `attempt` rises with every delivery, so (worker, attempt) is one delivery.
"""

from __future__ import annotations

from dataclasses import dataclass
from sqlite3 import Connection
from typing import NamedTuple

from riverrun.durations import show, wall_clock
from riverrun.errors import Conflict, Fenced
from riverrun.failpoints import failpoint
from riverrun.log import process
from riverrun.log.coordination import Coordination
from riverrun.log.lookahead import Lookahead
from riverrun.log.topic import Topic
from riverrun.position import Position

_DUE = (
    "select partition, offset, attempt, worker, reason from messages"
    " where grp = ? and topic = ? and dead is null and expires <= ? order by expires limit 1"
)
_MINE = "where grp = ? and topic = ? and partition = ? and offset = ? and worker = ? and attempt = ? and dead is null"
_PLACE = "where grp = ? and topic = ? and partition = ? and offset = ?"


class Delivery(NamedTuple):
    """A message in the hands of a worker."""

    partition: int
    offset: int
    attempt: int
    worker: str


class Unread(NamedTuple):
    """What has to be read before the next message can be handed out."""

    partition: int
    offset: int


class Dying(NamedTuple):
    """A message on its way to the dead letters, with the number that makes it arrive once."""

    partition: int
    offset: int
    attempt: int
    number: int
    reason: str


@dataclass(frozen=True, slots=True)
class Outlook:
    """When to look again: now, at a time, or (None) when somebody rings."""

    ready: bool
    due: int | None
    unfinished: bool


class Deliveries:
    """The deliveries of one group and topic."""

    def __init__(self, coordination: Coordination, topic: Topic, group: str, lease: int, attempts: int) -> None:
        self._coordination = coordination
        self._topic = topic
        self._place = (group, topic.name)
        self._lease = lease
        self._attempts = attempts
        self._turn = 0

    def open(self) -> None:
        """Let a new group begin at the earliest message."""
        group, topic = self._place
        begins = self._topic.begins()
        with self._coordination.transaction() as db:
            if db.execute("select 1 from cursors where grp = ? and topic = ?", self._place).fetchone():
                return
            for table in ("owners", "offsets"):
                if db.execute(f"select 1 from {table} where grp = ? and topic = ?", self._place).fetchone():
                    raise Conflict(
                        f"group {group} has consumers of topic {topic}, so it cannot take it as a queue",
                        hint="Use another group name for the queue",
                    )
            db.execute("insert or ignore into groups values (?, 0)", (group,))
            rows = [(group, topic, partition, offset) for partition, offset in begins.items()]
            db.executemany("insert into cursors values (?, ?, ?, ?)", rows)

    def claim(self, worker: str, ahead: Lookahead) -> Delivery | Unread | Dying | None:
        """Lease the next message: one that came back, or else a fresh one. Dying: that one has to be buried first."""
        ends = self._topic.ends()
        now = self._coordination.now()
        with self._coordination.transaction() as db:
            due = db.execute(_DUE, (*self._place, now)).fetchone()
            if due is not None:
                return self._claim_again(db, now, worker, *due)
            found = db.execute("select partition, next from cursors where grp = ? and topic = ?", self._place)
            cursors = [(p, offset) for p, offset in found if offset != ends[p]]
            self._turn += 1
            for i in range(len(cursors)):
                partition, offset = cursors[(self._turn + i) % len(cursors)]
                claimed = self._claim_fresh(db, now, worker, partition, offset, ahead)
                if claimed is not None:
                    return claimed
        return None

    def _claim_again(
        self,
        db: Connection,
        now: int,
        worker: str,
        partition: int,
        offset: int,
        attempt: int,
        last: str | None,
        why: str,
    ) -> Delivery | Dying:
        if last is not None:
            why = f"not acknowledged within {show(self._lease)}"
        if attempt >= self._attempts:
            return self._condemn(db, partition, offset, attempt, why)
        db.execute(
            f"update messages set attempt = ?, worker = ?, process = ?, expires = ?, reason = ? {_PLACE}",
            (attempt + 1, worker, process.identity(), now + self._lease, why, *self._place, partition, offset),
        )
        return Delivery(partition, offset, attempt + 1, worker)

    def _claim_fresh(
        self, db: Connection, now: int, worker: str, partition: int, offset: int, ahead: Lookahead
    ) -> Delivery | Unread | None:
        following = ahead.following(partition, offset)
        if following is None:
            return Unread(partition, offset)
        fresh, after = following
        db.execute(
            "update cursors set next = ? where grp = ? and topic = ? and partition = ?",
            (after, *self._place, partition),
        )
        if fresh is None:
            return None
        db.execute(
            "insert into messages values (?, ?, ?, ?, 1, ?, ?, ?, null, null)",
            (*self._place, partition, fresh, worker, process.identity(), now + self._lease),
        )
        return Delivery(partition, fresh, 1, worker)

    def finish(self, delivery: Delivery) -> None:
        """The message is done. Fenced if it is not this worker's any more."""
        failpoint("queue.ack.begin")
        with self._coordination.transaction() as db:
            if not db.execute(f"delete from messages {_MINE}", self._key(delivery)).rowcount:
                raise self._fenced(db, delivery)
            failpoint("queue.ack.written")

    def give_back(self, delivery: Delivery, reason: str, delay: int) -> bool:
        """The message goes to the next worker after `delay`. True if this was its last attempt, and it is dying."""
        with self._coordination.transaction() as db:
            changed = db.execute(
                f"update messages set worker = null, process = null, expires = ?, reason = ? {_MINE}",
                (self._coordination.now() + delay, reason, *self._key(delivery)),
            )
            if not changed.rowcount:
                raise self._fenced(db, delivery)
            last = delivery.attempt >= self._attempts
            if last:
                self._condemn(db, delivery.partition, delivery.offset, delivery.attempt, reason)
        return last

    def extend(self, delivery: Delivery, lease: int) -> None:
        """Keep the message for `lease` from now on."""
        with self._coordination.transaction() as db:
            until = self._coordination.now() + lease
            if not db.execute(f"update messages set expires = ? {_MINE}", (until, *self._key(delivery))).rowcount:
                raise self._fenced(db, delivery)

    def give_back_all(self, worker: str) -> None:
        """What this worker still has goes to the others at once."""
        with self._coordination.transaction() as db:
            db.execute(
                "update messages set worker = null, process = null, expires = 0, reason = 'its worker went away'"
                " where grp = ? and topic = ? and worker = ? and dead is null",
                (*self._place, worker),
            )

    def drop(self, partition: int, offset: int) -> None:
        """Forget a message whose row is gone from the log."""
        with self._coordination.transaction() as db:
            db.execute(f"delete from messages {_PLACE}", (*self._place, partition, offset))

    def reclaim(self) -> bool:
        """Make what dead processes had due at once, without waiting for their leases; True if there was any."""
        held = "where grp = ? and topic = ? and dead is null and process is not null"
        with self._coordination.reading() as db:
            names = db.execute(f"select distinct process from messages {held}", self._place).fetchall()
        gone = [name for (name,) in names if process.is_gone(name)]
        for name in gone:
            why = f"its worker died (process {process.pid_of(name)})"
            with self._coordination.transaction() as db:
                change = "update messages set worker = null, process = null, expires = 0, reason = ?"
                db.execute(f"{change} {held} and process = ?", (why, *self._place, name))
        return bool(gone)

    def outlook(self) -> Outlook:
        """Whether there is something to hand out, and else when there will be."""
        ends = self._topic.ends()
        with self._coordination.reading() as db:
            found = db.execute("select partition, next from cursors where grp = ? and topic = ?", self._place)
            fresh = any(offset != ends[p] for p, offset in found)
            count, due = db.execute(
                "select count(*), min(case when dead is null then expires end) from messages"
                " where grp = ? and topic = ?",
                self._place,
            ).fetchone()
        return Outlook(fresh or (due is not None and due <= self._coordination.now()), due, count > 0)

    def _condemn(self, db: Connection, partition: int, offset: int, attempt: int, reason: str) -> Dying:
        """Number the message for its way to the dead letters, where numbers have to rise."""
        db.execute("insert or ignore into dead_letters values (?, ?, 0)", self._place)
        where = "where grp = ? and topic = ?"
        (number,) = db.execute(f"select next from dead_letters {where}", self._place).fetchone()
        # The topic of the dead letters remembers the numbers it has. Should this table be lost or restored from an
        # older copy, numbers begun anew would be taken for repeats; the clock keeps them rising.
        number = max(number, wall_clock())
        db.execute(f"update dead_letters set next = ? {where}", (number + 1, *self._place))
        db.execute(
            f"update messages set dead = ?, reason = ?, worker = null, process = null {_PLACE}",
            (number, reason, *self._place, partition, offset),
        )
        return Dying(partition, offset, attempt, number, reason)

    def _key(self, delivery: Delivery) -> tuple[str | int, ...]:
        return (*self._place, delivery.partition, delivery.offset, delivery.worker, delivery.attempt)

    def _fenced(self, db: Connection, delivery: Delivery) -> Fenced:
        message = db.execute(
            f"select attempt, worker, dead from messages {_PLACE}", (*self._place, delivery.partition, delivery.offset)
        ).fetchone()
        if message is None:
            now = "it is done"
        elif message[2] is not None:
            now = "it went to the dead letters"
        elif message[1] is None:
            now = "it waits for its next delivery"
        else:
            now = f"worker {message[1]} (process {message[1].partition('-')[0]}) has it, in attempt {message[0]}"
        group, topic = self._place
        position = Position({topic: {delivery.partition: delivery.offset}})
        return Fenced(
            f"queue {group}: message {position} is not this worker's any more; {now}",
            hint=f"Its lease of {show(self._lease)} ran out; take a longer one, or call extend() in time",
        )
