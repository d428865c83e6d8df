"""Partitions over members: complete, balanced, and as few as possible change hands."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from riverrun.log.assignment import assign

topics = st.dictionaries(st.sampled_from(["a", "b", "c"]), st.integers(1, 9), min_size=1)
names = st.lists(st.sampled_from("pqrstuv"), unique=True, max_size=6)


def slots_of(counts):
    return {(topic, p) for topic, count in counts.items() for p in range(count)}


@given(topics, st.dictionaries(st.sampled_from("pqrst"), st.sets(st.sampled_from(["a", "b", "c"]))), st.data())
@settings(max_examples=150, deadline=None)
def test_complete_and_balanced_whatever_was_before(counts, members, data):
    slots = slots_of(counts)
    before = data.draw(st.dictionaries(st.sampled_from(sorted(slots)), st.sampled_from("pqrstxyz")))
    chosen = assign(slots, members, before)

    assert set(chosen) == {slot for slot in slots if any(slot[0] in members[m] for m in members)}
    assert all(slot[0] in members[member] for slot, member in chosen.items())
    load = Counter(chosen.values())
    for (topic, _), giver in chosen.items():
        for taker in members:
            assert topic not in members[taker] or load[giver] - load[taker] < 2, "a move would make it more even"
    assert assign(slots, members, chosen) == chosen, "what is balanced stays as it is"


@given(topics, names, names)
@settings(max_examples=150, deadline=None)
def test_no_more_partitions_change_hands_than_must(counts, before, after):
    slots = slots_of(counts)
    first = assign(slots, {m: set(counts) for m in before}, {})
    second = assign(slots, {m: set(counts) for m in after}, first)
    if not after:
        assert second == {}
        return
    # What a member may keep: its fair share, rounded up for as many as there is a remainder, to those who have most.
    share, remainder = divmod(len(slots), len(after))
    had = sorted((Counter(first.values())[m] for m in after), reverse=True)
    kept = sum(min(count, share + (i < remainder)) for i, count in enumerate(had))
    assert sum(first.get(slot) == member for slot, member in second.items()) == kept


def test_each_topic_is_spread_too():
    slots = slots_of({"a": 4, "b": 4})
    one = assign(slots, {"p": {"a", "b"}}, {})
    two = assign(slots, {"p": {"a", "b"}, "q": {"a", "b"}}, one)
    assert Counter((member, topic) for (topic, _), member in two.items()) == {
        ("p", "a"): 2, ("p", "b"): 2, ("q", "a"): 2, ("q", "b"): 2,
    }  # fmt: skip


def test_who_subscribes_to_nothing_gets_nothing():
    assert assign({("a", 0)}, {"p": set()}, {("a", 0): "p"}) == {}
