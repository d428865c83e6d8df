"""How far a group is, by topic and partition: where consumers commit their offsets, and where they begin.

`offsets` has what was committed. `starts` has where a new group was told to begin; it counts until the first commit.
All of it is for a caller that has a transaction open.
"""

from __future__ import annotations

from collections.abc import Mapping
from sqlite3 import Connection

from riverrun.durations import wall_clock
from riverrun.errors import Fenced
from riverrun.log.assignment import Slot


def commit_offsets(
    db: Connection, group: str, member: str, offsets: Mapping[Slot, int], epochs: Mapping[Slot, int]
) -> None:
    """Record how far the group is. Raises Fenced if one of the partitions is not the member's since its epoch."""
    found = db.execute("select topic, partition, epoch from owners where grp = ? and owner = ?", (group, member))
    owned = {(topic, partition): epoch for topic, partition, epoch in found}
    lost = [slot for slot in offsets if slot not in owned or owned[slot] != epochs.get(slot)]
    if lost:
        raise _fenced(db, group, member, min(lost))
    put_offsets(db, group, offsets)


def put_offsets(db: Connection, group: str, offsets: Mapping[Slot, int]) -> None:
    """The same for somebody who owns no partition."""
    now = wall_clock()
    db.executemany(
        "insert or replace into offsets values (?, ?, ?, ?, ?)",
        [(group, *slot, offset, now) for slot, offset in offsets.items()],
    )
    db.executemany(
        "delete from starts where grp = ? and topic = ? and partition = ?", [(group, *slot) for slot in offsets]
    )


def put_starts(db: Connection, group: str, starts: Mapping[Slot, int]) -> None:
    """Let the group begin here, whatever it has committed, and nowhere else."""
    db.execute("delete from starts where grp = ?", (group,))
    rows = [(group, *slot, offset) for slot, offset in starts.items()]
    db.executemany("insert into starts values (?, ?, ?, ?)", rows)


def committed_offsets(db: Connection, group: str, topic: str) -> dict[int, int]:
    """What the group has committed in a topic; a partition of which it never did is left out."""
    found = db.execute("select partition, offset from offsets where grp = ? and topic = ?", (group, topic))
    return dict(found.fetchall())


def _fenced(db: Connection, group: str, member: str, slot: Slot) -> Fenced:
    """The refusal of a commit, naming who has the partition now."""
    found = db.execute(
        "select owner from owners where grp = ? and topic = ? and partition = ?", (group, *slot)
    ).fetchone()
    owner = found[0] if found else None
    if owner == member:
        now = "was taken from this member and given back to it"
    elif owner is None:
        now = "belongs to nobody"
    else:
        now = f"belongs to member {owner} (process {owner.partition('-')[0]})"
    return Fenced(
        f"group {group}: topic {slot[0]}, partition {slot[1]} now {now}; nothing was committed",
        hint="The rows since the last commit are delivered again, to its owner. Go on polling to rejoin",
    )
