"""Which member reads which partition: all are read, evenly, and as few as possible change hands."""

from __future__ import annotations

from collections.abc import Collection, Mapping

Slot = tuple[str, int]  # topic and partition


def assign(
    slots: Collection[Slot], members: Mapping[str, Collection[str]], current: Mapping[Slot, str]
) -> dict[Slot, str]:
    """The member for every slot that somebody subscribes to.

    `members` are names with the topics each subscribes to, `current` is who has what. The result depends on nothing
    else, so every process comes to the same one. No slot could move to a member that has two fewer.
    """
    able = {topic: sorted(m for m in members if topic in members[m]) for topic in sorted({topic for topic, _ in slots})}
    load = dict.fromkeys(members, 0)
    held: dict[tuple[str, str], list[Slot]] = {(member, topic): [] for topic in able for member in able[topic]}
    free = []
    for slot in sorted(slots):
        owner = (current.get(slot, ""), slot[0])
        if owner in held:
            held[owner].append(slot)
            load[owner[0]] += 1
        elif able[slot[0]]:
            free.append(slot)
    for slot in free:
        taker = min(able[slot[0]], key=lambda m: (load[m], len(held[m, slot[0]]), m))
        held[taker, slot[0]].append(slot)
        load[taker] += 1
    while (move := _best_move(able, load, held)) is not None:
        giver, taker, topic = move
        held[taker, topic].append(held[giver, topic].pop())
        load[giver] -= 1
        load[taker] += 1
    return {slot: member for (member, _), its in held.items() for slot in its}


def _best_move(
    able: Mapping[str, list[str]], load: Mapping[str, int], held: Mapping[tuple[str, str], list[Slot]]
) -> tuple[str, str, str] | None:
    """From the fullest to the emptiest that may have it: giver, taker, and a topic of which the giver has most."""
    emptiest = {topic: min(names, key=lambda m: (load[m], m)) for topic, names in able.items() if names}
    best, gain = None, (1, 0)
    for (giver, topic), its in held.items():
        taker = emptiest[topic]
        found = (load[giver] - load[taker], len(its) - len(held[taker, topic]))
        if its and found[0] >= 2 and found > gain:
            best, gain = (giver, taker, topic), found
    return best
