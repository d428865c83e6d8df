"""When messages go: the first at once, then one per `every` at most, nothing lost; retries with growing pauses."""

from __future__ import annotations

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from riverrun.alerts.address import Address
from riverrun.alerts.line import Line, Note, least_offsets
from riverrun.alerts.stretch import count_between

SECOND = 1_000_000


def line(every: int = 60 * SECOND, **note: int) -> Line:
    return Line(Address("json://host"), every, Note({0: 0, 1: 0}, **note))


@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 1), st.integers(1, 9)), max_size=30),
    st.integers(0, 60),
)
@settings(max_examples=150, deadline=None)
def test_groups_by_every(arrivals: list[tuple[int, int, int]], every: int) -> None:
    """A simulation second by second, against what the words say."""
    one = line(every * SECOND)
    now, reached, sent = 1_000_000 * SECOND, {0: 0, 1: 0}, []
    total = sum(rows for _, _, rows in arrivals)
    for pause, partition, rows in [*arrivals, (every + 1, 0, 0)]:
        for _ in range(pause + 1):
            due = one.due(reached, now)
            if due is not None and due <= now:
                assert one.begin(reached, now)
                stretch = one.note.trying
                assert stretch is not None
                sent.append((now, count_between(stretch.start, stretch.end)))
                one.finish()
            assert every or not count_between(one.note.done, reached)
            now += SECOND
        reached[partition] += rows
    assert sum(rows for _, rows in sent) == total
    assert all(later - sooner >= every * SECOND for (sooner, _), (later, _) in itertools.pairwise(sent))
    assert all(rows > 0 for _, rows in sent)


def test_the_first_goes_at_once_and_the_second_waits() -> None:
    one = line()
    assert one.due({0: 0, 1: 0}, 100 * SECOND) is None
    assert one.due({0: 1, 1: 0}, 100 * SECOND) == 60 * SECOND
    one.begin({0: 1, 1: 0}, 100 * SECOND)
    one.finish()
    assert one.due({0: 2, 1: 0}, 101 * SECOND) == 160 * SECOND
    assert one.due({0: 2, 1: 0}, 101 * SECOND, hurry=True) == 101 * SECOND


def test_a_clock_that_jumps_back_delays_by_one_every() -> None:
    one = line(begun=10_000 * SECOND)
    assert one.due({0: 1, 1: 0}, 100 * SECOND) == 160 * SECOND


def test_pauses_grow_and_the_rows_stay_the_same() -> None:
    one, now, pauses = line(), 100 * SECOND, []
    one.begin({0: 3, 1: 1}, now)
    for _ in range(9):
        one.failure(now)
        due = one.due({0: 9, 1: 9}, now)
        assert due is not None
        pauses.append((due - now) // SECOND)
        now = due
        assert not one.begin({0: 9, 1: 9}, now)
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    one.finish()
    assert one.note.done == {0: 3, 1: 1}


def test_what_all_have() -> None:
    assert least_offsets([Line(Address("a://"), 0, Note(done)) for done in ({0: 3, 1: 1}, {0: 2, 1: 5})]) == {
        0: 2,
        1: 1,
    }
