"""Who should read what: the transaction that every change of a group's members ends with.

Handover is cooperative. A partition has an *owner*, who alone reads it and commits for it, and a *target*, who should.
They differ while a live owner finishes: it gives the partition to its target the next time it polls, so its last commit
counts and nothing is delivered twice. A dead owner is not waited for. `epoch` rises whenever the owner changes.
"""

from __future__ import annotations

import json
import sqlite3

from riverrun.log import process
from riverrun.log.assignment import Slot, assign


def live_members(db: sqlite3.Connection, group: str, now: int) -> dict[str, dict[str, int]]:
    """Members that are alive, each with its topics and how many partitions these have."""
    found = db.execute("select member, process, expires, topics from members where grp = ?", (group,))
    return {
        member: json.loads(topics)
        for member, name, expires, topics in found
        if expires > now and not process.is_gone(name)
    }


def raise_generation(db: sqlite3.Connection, group: str) -> int:
    """The next generation of the group, which makes every member look at its partitions."""
    db.execute("insert or ignore into groups values (?, 0)", (group,))
    db.execute("update groups set generation = generation + 1 where name = ?", (group,))
    return int(db.execute("select generation from groups where name = ?", (group,)).fetchone()[0])


def rebalance(db: sqlite3.Connection, group: str, now: int) -> None:
    """Forget dead members and say anew who should have which partition."""
    live = live_members(db, group, now)
    for (member,) in db.execute("select member from members where grp = ?", (group,)).fetchall():
        if member not in live:
            db.execute("delete from members where grp = ? and member = ?", (group, member))
    generation = raise_generation(db, group)
    found = db.execute("select topic, partition, owner, target, epoch from owners where grp = ?", (group,))
    held = {(topic, partition): (owner, target, epoch) for topic, partition, owner, target, epoch in found}
    slots = {(topic, p) for topics in live.values() for topic, count in topics.items() for p in range(count)}
    current: dict[Slot, str] = {}
    for slot, (owner, target, _) in held.items():
        holder = target if target in live else owner
        if holder in live:
            current[slot] = holder
    chosen = assign(slots, live, current)
    for slot in slots | held.keys():
        before = held.get(slot)
        owner, _, epoch = before or (None, None, 0)
        target = chosen.get(slot)
        keeper = owner if owner in live else target
        after = (keeper, target, epoch if keeper == owner else generation)
        if live and slot not in slots and keeper is None:
            db.execute("delete from owners where grp = ? and topic = ? and partition = ?", (group, *slot))
        elif after != before:
            db.execute("insert or replace into owners values (?, ?, ?, ?, ?, ?)", (group, *slot, *after))
