"""Position: printing, parsing, and the partial order."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from riverrun.errors import Invalid
from riverrun.position import Position

names = st.text("abcXYZ019._-", min_size=1, max_size=12)
positions = st.dictionaries(names, st.dictionaries(st.integers(0, 5), st.integers(0, 6), max_size=4), max_size=3).map(
    Position
)


def offset(position: Position, topic: str, partition: int) -> int:
    return position.get(topic, {}).get(partition, 0)


def everywhere(*several: Position) -> set[tuple[str, int]]:
    return {(topic, p) for position in several for topic, partitions in position.items() for p in partitions}


def test_it_prints_as_people_write_it() -> None:
    assert str(Position({"orders": {1: 4, 0: 17}})) == "orders@0:17,1:4"
    assert str(Position({"users": {0: 3}, "orders": {0: 1}})) == "orders@0:1;users@0:3"
    assert str(Position()) == ""
    assert repr(Position({"a": {0: 1}})) == "Position.parse('a@0:1')"


def test_it_is_a_mapping() -> None:
    position = Position.parse("orders@0:17,1:4")
    assert dict(position["orders"]) == {0: 17, 1: 4}
    assert list(position) == ["orders"]
    assert position == {"orders": {0: 17, 1: 4}}
    with pytest.raises(KeyError):
        position["users"]


def test_it_does_not_change_with_what_it_was_made_of() -> None:
    made_of = {"orders": {0: 1}}
    position = Position(made_of)
    made_of["orders"][0] = 2
    assert str(position) == "orders@0:1"


@settings(max_examples=100, deadline=None)
@given(positions)
def test_what_is_printed_can_be_parsed(position: Position) -> None:
    assert Position.parse(str(position)) == position


@pytest.mark.parametrize(
    "text",
    ["orders", "orders@", "orders@0", "orders@0:", "orders@0:x", "a@-1:2", "a@0:1;a@0:2", "a b@0:1", "a@0:1,,1:2"],
)
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(Invalid, match="not a position"):
        Position.parse(text)


@settings(max_examples=150, deadline=None)
@given(positions, positions)
def test_order_is_that_of_every_partition(a: Position, b: Position) -> None:
    places = everywhere(a, b)
    assert (a <= b) == all(offset(a, *place) <= offset(b, *place) for place in places)
    assert (a == b) == all(offset(a, *place) == offset(b, *place) for place in places)
    assert (a < b) == (a <= b and a != b)
    assert (a >= b) == (b <= a)
    assert (a > b) == (b < a)


@settings(max_examples=150, deadline=None)
@given(positions, positions)
def test_the_union_is_the_furthest_of_both(a: Position, b: Position) -> None:
    both = a | b
    assert all(offset(both, *p) == max(offset(a, *p), offset(b, *p)) for p in everywhere(a, b))
    assert a <= both >= b


@settings(max_examples=100, deadline=None)
@given(positions, positions)
def test_equal_positions_have_equal_hashes(a: Position, noise: Position) -> None:
    """Written in another order, and with offsets of zero, which say nothing."""
    topics = dict.fromkeys([*reversed(list(noise)), *reversed(list(a))])
    zeros = {topic: dict.fromkeys(noise.get(topic, {}), 0) for topic in topics}
    b = Position({topic: {**zeros[topic], **dict(reversed(a.get(topic, {}).items()))} for topic in topics})
    assert a == b == Position.parse(str(a))
    assert hash(a) == hash(b) == hash(Position.parse(str(a)))


def test_some_positions_have_no_order() -> None:
    a, b = Position.parse("t@0:1,1:0"), Position.parse("t@0:0,1:1")
    assert not a <= b
    assert not b <= a


def test_an_offset_of_zero_says_nothing() -> None:
    assert Position.parse("t@0:0") == Position()
    assert Position() <= Position.parse("t@0:0") <= Position()


def test_only_a_text_can_be_parsed() -> None:
    with pytest.raises(Invalid, match="not a position: 5"):
        Position.parse(5)  # type: ignore[arg-type]
