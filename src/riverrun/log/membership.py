"""One consumer's place in its group: joining, keeping its lease, taking and giving partitions, committing, leaving.

A small thread renews the lease at a third of it and looks for members that died. It stops renewing when the consumer
has not polled for `poll_limit`: whoever is stuck loses its partitions.
"""

from __future__ import annotations

import atexit
import json
import os
import threading
import uuid
import weakref
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from sqlite3 import Connection

from riverrun.errors import Closed, Conflict, RiverrunError, Transient
from riverrun.failpoints import failpoint
from riverrun.log import process
from riverrun.log.assignment import Slot
from riverrun.log.coordination import Coordination
from riverrun.log.offset_commits import commit_offsets, put_starts
from riverrun.log.rebalance import live_members, raise_generation, rebalance
from riverrun.log.wake import Bell
from riverrun.settings import Settings


@dataclass(frozen=True, slots=True)
class Grant:
    """A partition that is this member's: since when, where the group is in it, and whether it should be given away."""

    epoch: int
    offset: int | None
    committed: bool  # or else the offset is where the group was told to start
    leaving: bool


class Membership:
    """A member of a group. Its thread ends, and it leaves, when `stopped` is set. The bell is its consumer's."""

    def __init__(self, coordination: Coordination, group: str, settings: Settings, bell: Bell) -> None:
        self.coordination = coordination
        self.group = group
        self.bell = bell
        self.name = f"{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self.generation = -1
        self.polling = False
        self.polled = coordination.now()
        self.stopped = threading.Event()
        self._pid = os.getpid()
        self._lease = settings.member_lease
        self._poll_limit = settings.poll_limit
        self._thread = threading.Thread(target=self._run, name=f"riverrun-{group}", daemon=True)

    @property
    def interval(self) -> int:
        """Time between two heartbeats, in microseconds."""
        return self._lease // 3

    def join(self, topics: Mapping[str, int], starts: Mapping[Slot, int]) -> None:
        """Become a member. `starts` count only if nobody else is: a running group goes on where it is."""
        with self.coordination.transaction() as db:
            if not live_members(db, self.group, self.coordination.now()):
                put_starts(db, self.group, starts)
            self._enter(db, topics)
        self.coordination.ring()
        self._thread.start()
        _members.add(self)
        self.coordination.dependents.add(self)

    def is_current(self) -> bool:
        """Whether nothing has changed in the group since the last `sync`."""
        with self.coordination.reading() as db:
            found = db.execute("select generation from groups where name = ?", (self.group,)).fetchone()
        return found is not None and found[0] == self.generation

    def sync(self, topics: Mapping[str, int], keep: Collection[Slot]) -> dict[Slot, Grant]:
        """What is this member's now. Partitions that should go to others are given away, but those in `keep`.

        A member that was taken for dead joins again; its partitions then have other epochs.
        """
        rang = False
        with self.coordination.transaction() as db:
            found = db.execute("select topics from members where grp = ? and member = ?", (self.group, self.name))
            joined = found.fetchone()
            if self.stopped.is_set():
                raise Closed(f"the consumer of group {self.group} is closed")
            if joined is None or json.loads(joined[0]) != topics:
                self._enter(db, topics)
                rang = True
            mine = "where grp = ? and owner = ?"
            rows = db.execute(f"select topic, partition, target from owners {mine}", (self.group, self.name)).fetchall()
            away = [(topic, p) for topic, p, target in rows if target != self.name and (topic, p) not in keep]
            if away:
                generation = raise_generation(db, self.group)
                db.executemany(
                    "update owners set owner = target, epoch = ? where grp = ? and topic = ? and partition = ?",
                    [(generation, self.group, *slot) for slot in away],
                )
                rang = True
            owned = db.execute(
                "select topic, partition, epoch, target, starts.offset, offsets.offset from owners"
                " left join starts using (grp, topic, partition) left join offsets using (grp, topic, partition)"
                f" {mine}",
                (self.group, self.name),
            )
            grants = {
                (topic, p): Grant(
                    epoch,
                    offset=committed if start is None else start,
                    committed=start is None and committed is not None,
                    leaving=target != self.name,
                )
                for topic, p, epoch, target, start, committed in owned
            }
            found = db.execute("select generation from groups where name = ?", (self.group,))
            (self.generation,) = found.fetchone()
        if rang:
            self.coordination.ring()
        return grants

    def commit(self, offsets: Mapping[Slot, int], epochs: Mapping[Slot, int]) -> None:
        """Record how far the group is, all of it or nothing; refused if one of the partitions is not this member's."""
        failpoint("group.commit.begin")
        with self.coordination.transaction() as db:
            commit_offsets(db, self.group, self.name, offsets, epochs)
            failpoint("group.commit.written")
        failpoint("group.commit.done")

    def leave(self) -> None:
        """Give everything back at once. A second time does nothing, and neither does a forked child."""
        if self._pid == os.getpid():
            self.stopped.set()
            if self._thread.ident and self._thread is not threading.current_thread():
                self._thread.join()

    def _enter(self, db: Connection, topics: Mapping[str, int]) -> None:
        for (topic,) in db.execute("select distinct topic from cursors where grp = ?", (self.group,)):
            if topic in topics:
                raise Conflict(
                    f"group {self.group} takes topic {topic} as a queue",
                    hint="Use another group name for a consumer",
                )
        now = self.coordination.now()
        db.execute(
            "insert or replace into members values (?, ?, ?, ?, ?, ?)",
            (self.group, self.name, process.identity(), now + self._lease, now, json.dumps(topics)),
        )
        rebalance(db, self.group, now)

    def _run(self) -> None:
        while not self.stopped.wait(self.interval / 1e6):
            try:
                if self.polling or self.coordination.now() - self.polled < self._poll_limit:
                    self._beat()
            except Transient:
                continue  # the lease lasts for two more
            except RiverrunError:
                break  # the database is gone or damaged; the consumer's next poll says so
        _members.discard(self)
        self.bell.close()
        try:
            self._depart()
        except RiverrunError:
            pass  # then the lease runs out

    def _beat(self) -> None:
        now = self.coordination.now()
        with self.coordination.transaction() as db:
            db.execute(
                "update members set expires = ? where grp = ? and member = ?",
                (now + self._lease, self.group, self.name),
            )
            (members,) = db.execute("select count(*) from members where grp = ?", (self.group,)).fetchone()
            somebody_died = len(live_members(db, self.group, now)) < members
            if somebody_died:
                rebalance(db, self.group, now)
        if somebody_died:
            self.coordination.ring()

    def _depart(self) -> None:
        with self.coordination.transaction() as db:
            db.execute("delete from members where grp = ? and member = ?", (self.group, self.name))
            rebalance(db, self.group, self.coordination.now())
        self.coordination.ring()


_members: weakref.WeakSet[Membership] = weakref.WeakSet()


def _leave_all() -> None:
    for member in list(_members):
        member.leave()


atexit.register(_leave_all)
