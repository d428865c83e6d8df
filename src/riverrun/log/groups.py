"""The consumer groups of a river as one sees them from outside: who is in them, how far they are, and moving them.

A group that takes a topic as a queue is one too: its offset is the first message that is not yet dealt with.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from sqlite3 import Connection
from typing import Any, NamedTuple

from riverrun.columns import check_name
from riverrun.errors import Busy, NotFound, did_you_mean
from riverrun.log import process
from riverrun.log.coordination import Coordination
from riverrun.log.offset_commits import committed_offsets, put_offsets
from riverrun.log.queue_workers import forget_workers, live_workers
from riverrun.log.rebalance import live_members, raise_generation
from riverrun.log.topic import Start, Topic

_TABLES = ("members", "owners", "starts", "offsets", "cursors", "messages")


class GroupProgress(NamedTuple):
    """How far a group is in a topic, as the database has it."""

    offsets: dict[int, int]  # by partition; what is left out was never committed
    unfinished: dict[int, int]  # of a queue: messages handed out once and not done, by partition
    next: dict[int, int]  # of a queue: first message never handed out


class CoordinatedGroups:
    """All groups of one coordination database."""

    def __init__(self, coordination: Coordination, open_topic: Callable[[str], Topic]) -> None:
        self._coordination = coordination
        self._open = open_topic

    def list(self) -> list[dict[str, Any]]:
        """Every group with its kind ("consumer" or "queue"), topics, and number of live members (of a queue, of processes that
        work it off); in order of names."""
        with self._coordination.reading() as db:
            names = [name for (name,) in db.execute("select name from groups order by name").fetchall()]
            return [
                {
                    "group": name,
                    "kind": _kind(db, name),
                    "topics": _topics(db, name),
                    "members": _count(db, name, self._coordination.now()),
                }
                for name in names
            ]

    def describe(self, group: str) -> dict[str, Any]:
        """The group, its members with their partitions, and its lag. Of a queue, the workers: how many messages each has now,
        and in how many seconds the first lease runs out (None without a message)."""
        lag = self.lag(group)
        now = self._coordination.now()
        with self._coordination.reading() as db:
            (generation,) = db.execute("select generation from groups where name = ?", (group,)).fetchone()
            live = live_members(db, group, now)
            owned: dict[str, dict[str, list[int]]] = {}
            for topic, partition, owner in db.execute(
                "select topic, partition, owner from owners where grp = ? and owner is not null", (group,)
            ):
                owned.setdefault(owner, {}).setdefault(topic, []).append(partition)
            rows = db.execute("select member, process, joined from members where grp = ? order by joined", (group,))
            members = [
                {
                    "member": member,
                    "process": process.pid_of(name),
                    "seconds": (now - joined) / 1e6,
                    "topics": sorted(live[member]),
                    "partitions": owned.get(member, {}),
                }
                for member, name, joined in rows
                if member in live
            ]
            kind, workers = _kind(db, group), _workers(db, group, now)
        return {**lag, "kind": kind, "generation": generation, "members": members, "workers": workers}

    def lag(self, group: str) -> dict[str, Any]:
        """The lag of the group, in rows and in seconds since the oldest of them was received.

        Rows are counted by offsets. `lost` are those that retention removed before the group had read them. Of a queue
        the rows are the messages not yet done, of which `unfinished` were handed out already.
        """
        with self._coordination.reading() as db:
            self._check_known(db, group)
            progress = {topic: _progress(db, group, topic) for topic in _topics(db, group)}
        topics = {}
        for name, found in progress.items():
            try:
                topics[name] = _topic_lag(self._open(name), found)
            except NotFound:
                continue  # dropped meanwhile
        return {"group": group, **total_lag(topics.values()), "topics": topics}

    def reset(self, group: str, topic: str, to: Start = None, force: bool = False) -> dict[int, int]:
        """Let the group go on at `to` (a position, a time, "earliest" or "latest"; the earliest row if left out).

        Refused while members are alive. With `force` they are moved too, and their pending commits are refused. Gives
        the new offsets.
        """
        check_name(group, "group")
        opened = self._open(topic)
        offsets = opened.offsets(to)
        opened.check_range(offsets)
        with self._coordination.transaction() as db:
            if not force:
                self._check_unused(db, group, topic)
            generation = raise_generation(db, group)
            where, place = "where grp = ? and topic = ?", (group, topic)
            is_queue = db.execute(f"select 1 from cursors {where}", place).fetchone() is not None
            db.execute(f"delete from starts {where}", place)
            db.execute(f"delete from messages {where}", place)
            if is_queue:
                rows = [(group, topic, partition, offset) for partition, offset in offsets.items()]
                db.executemany("insert or replace into cursors values (?, ?, ?, ?)", rows)
            else:
                put_offsets(db, group, {(topic, partition): offset for partition, offset in offsets.items()})
                # As if every partition had changed hands: its reader begins again, its pending commit is refused.
                db.execute(f"update owners set epoch = ? {where}", (generation, *place))
        self._coordination.ring()
        opened.backend.ring()
        return offsets

    def drop(self, group: str) -> None:
        """Forget the group and how far it was. Refused while members are alive."""
        with self._coordination.transaction() as db:
            self._check_known(db, group)
            self._check_unused(db, group, None)
            for table in _TABLES:
                db.execute(f"delete from {table} where grp = ?", (group,))
            forget_workers(db, group)
            db.execute("delete from groups where name = ?", (group,))

    def _check_known(self, db: Connection, group: str) -> None:
        known = [name for (name,) in db.execute("select name from groups")]
        if group not in known:
            raise NotFound(f"there is no group {group!r}", hint=did_you_mean(group, known))

    def _check_unused(self, db: Connection, group: str, topic: str | None) -> None:
        now = self._coordination.now()
        live = live_members(db, group, now)
        found = db.execute("select member, process from members where grp = ?", (group,)).fetchall()
        users = [
            process.pid_of(name)
            for member, name in found
            if member in live and (topic is None or topic in live[member])
        ]
        workers = db.execute(
            "select distinct process from messages where grp = ? and topic = coalesce(?, topic) and dead is null"
            " and process is not null and expires > ?",
            (group, topic, now),
        )
        users += [process.pid_of(name) for (name,) in workers if not process.is_gone(name)]
        if topic is None:  # it is to be dropped, and a worker would wait for ever
            users += [process.pid_of(name) for name, _ in live_workers(db, group, now)]
        if users:
            raise Busy(
                f"group {group} is in use by process {', '.join(map(str, sorted(set(users))))}",
                hint="Stop its consumers first, or force it",
            )


def _kind(db: Connection, group: str) -> str:
    return "queue" if db.execute("select 1 from cursors where grp = ?", (group,)).fetchone() else "consumer"


def _count(db: Connection, group: str, now: int) -> int:
    """Live members; of a queue, processes."""
    if _kind(db, group) == "consumer":
        return len(live_members(db, group, now))
    return len({worker["identity"] for worker in _workers(db, group, now)})


def _workers(db: Connection, group: str, now: int) -> list[dict[str, Any]]:
    """Processes that work a queue off, by topic, with messages or without; what a dead one had is about to come again."""
    held = db.execute(
        "select process, topic, count(*), min(expires) from messages where grp = ? and dead is null"
        " and process is not null and expires > ? group by process, topic order by process, topic",
        (group, now),
    )
    found: dict[tuple[str, str], tuple[int, float | None]] = dict.fromkeys(live_workers(db, group, now), (0, None))
    for name, topic, count, expires in held:
        if not process.is_gone(name):
            found[name, topic] = (count, (expires - now) / 1e6)
    return [
        # In two containers the same number is another process.
        {"process": process.pid_of(name), "identity": name, "topic": topic, "messages": count, "seconds": seconds}
        for (name, topic), (count, seconds) in sorted(found.items(), key=lambda one: one[0])
    ]


def _topics(db: Connection, group: str) -> list[str]:
    tables = " union ".join(
        f"select topic from {table} where grp = :group" for table in ("owners", "offsets", "cursors")
    )
    return [topic for (topic,) in db.execute(f"{tables} order by topic", {"group": group})]


def _progress(db: Connection, group: str, topic: str) -> GroupProgress:
    where, place = "where grp = ? and topic = ?", (group, topic)
    upcoming = dict(db.execute(f"select partition, next from cursors {where}", place).fetchall())
    if not upcoming:
        return GroupProgress(committed_offsets(db, group, topic), {}, {})
    low, unfinished = dict(upcoming), {}
    for partition, first, count in db.execute(
        f"select partition, min(offset), count(*) from messages {where} group by partition", place
    ):
        low[partition], unfinished[partition] = first, count
    return GroupProgress(low, unfinished, upcoming)


def _topic_lag(topic: Topic, progress: GroupProgress) -> dict[str, Any]:
    earliest, latest = topic.begins(), topic.ends()
    partitions: dict[int, dict[str, Any]] = {}
    for p in range(topic.partitions):
        committed = progress.offsets.get(p)
        low = max(earliest[p], earliest[p] if committed is None else committed)
        rows = max(0, latest[p] - low)
        extra = {}
        if progress.next:
            extra["unfinished"] = progress.unfinished.get(p, 0)
            rows = extra["unfinished"] + max(0, latest[p] - max(earliest[p], progress.next[p]))
        partitions[p] = {
            "committed": committed,
            "latest": latest[p],
            "rows": rows,
            "seconds": _age(topic, p, low, latest[p]) if rows else 0.0,
            "lost": 0 if committed is None else max(0, earliest[p] - committed),
            **extra,
        }
    return {**total_lag(partitions.values()), "partitions": partitions}


def _age(topic: Topic, partition: int, low: int, latest: int) -> float:
    """Seconds since the first row in the range was received; its frame's header knows."""
    first = topic.first_received(partition, low, latest)
    return 0.0 if first is None else max(0.0, time.time() - first / 1e6)


def total_lag(parts: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """What partitions or topics have together."""
    parts = list(parts)
    return {
        "rows": sum(part["rows"] for part in parts),
        "seconds": max((part["seconds"] for part in parts), default=0.0),
    }
