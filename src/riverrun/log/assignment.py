"""Which member reads which partition: all are read, evenly, and as few as possible change hands."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

Slot = tuple[str, int]  # topic and partition


def assign(
    slots: Collection[Slot], members: Mapping[str, Collection[str]], current: Mapping[Slot, str]
) -> dict[Slot, str]:
    """The member for every slot that somebody subscribes to.

    `members` are names with the topics each subscribes to, `current` is who has what. The result depends on nothing
    else, so every process comes to the same one. No slot could move to a member that has two fewer.
    """
    able = {topic: sorted(m for m in members if topic in members[m]) for topic in {topic for topic, _ in slots}}
    chosen = {slot: current[slot] for slot in sorted(slots) if current.get(slot) in able[slot[0]]}
    load = Counter(dict.fromkeys(members, 0))
    load.update(chosen.values())
    by_topic = Counter((member, topic) for (topic, _), member in chosen.items())
    for slot in sorted(slots):
        topic = slot[0]
        if slot not in chosen and able[topic]:
            taker = min(able[topic], key=lambda m: (load[m], by_topic[m, topic], m))
            chosen[slot] = taker
            load[taker] += 1
            by_topic[taker, topic] += 1
    while (move := _best_move(chosen, able, load, by_topic)) is not None:
        slot, taker = move
        giver = chosen[slot]
        chosen[slot] = taker
        load[giver] -= 1
        load[taker] += 1
        by_topic[giver, slot[0]] -= 1
        by_topic[taker, slot[0]] += 1
    return chosen


def _best_move(
    chosen: Mapping[Slot, str],
    able: Mapping[str, list[str]],
    load: Counter[str],
    by_topic: Counter[tuple[str, str]],
) -> tuple[Slot, str] | None:
    """A slot and the member that should have it instead: from the fullest to the emptiest that may."""
    emptiest = {topic: min(names, key=lambda m: (load[m], m)) for topic, names in able.items() if names}
    best, gain = None, (1, 0)
    for slot, giver in chosen.items():
        taker = emptiest[slot[0]]
        # Within that, topics are spread too: take where the giver has most more of the topic than the taker.
        found = (load[giver] - load[taker], by_topic[giver, slot[0]] - by_topic[taker, slot[0]])
        if found[0] >= 2 and found > gain:
            best, gain = (slot, taker), found
    return best
