"""What a pattern may be, and what is said of one that it may not."""

from __future__ import annotations

import pytest

from riverrun.errors import Invalid
from riverrun.patterns.automaton import ACCEPT, automaton
from riverrun.patterns.language import parse, refuse_endless
from riverrun.patterns.navigation import CURRENT, RowOf, TotalOf, ValueOf, rewrite
from riverrun.patterns.tree import Chain, Gap, PatternChoice, Permutation, Repeat, RowVariable, can_be_empty


def test_a_pattern_is_a_regular_expression_over_names() -> None:
    pattern = parse("Start !x -> (down+ | up{2,3}?) permute(a, b)")
    assert pattern.variables == ("start", "x", "down", "up", "a", "b")
    start, gap, choice, any_order = pattern.tree.parts  # type: ignore[union-attr]
    assert isinstance(start, RowVariable)
    assert isinstance(gap, Gap)
    assert gap.absent == ("x",)
    assert isinstance(choice, PatternChoice)
    assert isinstance(choice.parts[1], Repeat)
    assert (choice.parts[1].low, choice.parts[1].high, choice.parts[1].greedy) == (2, 3, False)
    assert isinstance(any_order, Permutation)


def test_an_arrow_binds_like_a_space() -> None:
    tree = parse("a -> b | c").tree
    assert isinstance(tree, PatternChoice)
    assert isinstance(tree.parts[0], Chain)


@pytest.mark.parametrize(
    ("text", "why", "column"),
    [
        ("", "is empty", 0),
        ("a b*^", "a stream has no first", 4),
        ("a $", "a stream has no first", 2),
        ("a*", "can match no row at all", 0),
        ("a? b*", "can match no row at all", 0),
        ("a{0} b", "0 times", 1),
        ("a{,0} b", "0 times", 1),
        ("a{3,2}", "3 is more than 2", 1),
        ("(a?)* b", "a loop around something that can be empty", 4),
        ("(a* b?)+ c", "a loop around something that can be empty", 7),
        ("a !x b", "only before ->", 2),
        ("(a !x) -> b", "only before ->", 3),
        ("a !x | b", "only before ->", 2),
        ("a | b !x", "about the whole pattern", 0),
        ("!x -> a", "needs a row before it", 0),
        ("a ! -> b", "name of one variable", 4),
        ("a -> ", "ends where a variable", 4),
        ("-> a", "'->' is not expected", 0),
        ("(a | b", "not closed", 0),
        ("a)", "')' is not expected", 1),
        ("a ()", "empty group", 3),
        ("a{2", "not closed", 1),
        ("a{} b", "how often", 2),
        ("a 5", "'5' is not expected", 2),
        ("a b{3000}", "more than 2000 steps", 3),
        ("permute(a, b, c, d, e, f, g)", "more than 2000 steps", 0),
    ],
)
def test_what_cannot_be_read_is_shown_with_a_caret(text: str, why: str, column: int) -> None:
    with pytest.raises(Invalid) as refused:
        automaton(parse(text))
    assert why in str(refused.value)
    message, shown, caret = str(refused.value).split("\n")
    assert message.startswith("pattern: ")
    assert (shown, caret) == (f"    {text}", " " * (4 + column) + "^")


@pytest.mark.parametrize(
    ("text", "conditions", "column"),
    [("a -> b", "ab", 2), ("a b+ c", "ac", 3), ("a _* b", "ab", 3), ("a (b c){2,}", "ab", 7)],
)
def test_what_can_go_on_for_ever_needs_a_deadline(text: str, conditions: str, column: int) -> None:
    with pytest.raises(Invalid, match="needs within") as refused:
        refuse_endless(parse(text), set(conditions))
    assert str(refused.value).split("\n")[2] == " " * (4 + column) + "^"
    refuse_endless(parse("start down+ up+"), {"down", "up"})
    refuse_endless(parse("a b{2,4}"), set())


def test_an_automaton_lists_what_follows_in_order_of_preference() -> None:
    made = automaton(parse("a+? b?"))
    follows = [made.targets[made.first[state] : made.first[state + 1]].tolist() for state in range(made.states)]
    b, a = (made.variable.tolist().index(made.names.index(name)) for name in "ba")
    assert follows[a] == [b, ACCEPT, a]
    assert follows[b] == [ACCEPT]
    assert made.beginnings == {"a"}
    assert automaton(parse("a? -> b")).beginnings == {"a", "b"}


def test_nothing_is_skipped_before_the_first_row_or_after_the_last() -> None:
    made = automaton(parse("a? -> b"))
    first = made.targets[made.first[made.states] :]
    assert all(made.variable[state] >= 0 for state in first)
    assert can_be_empty(parse("a b?").tree.parts[1])  # type: ignore[union-attr]


def test_parts_of_a_condition_that_are_about_other_rows() -> None:
    made = rewrite("a.x > prev(y, 2) + count(A.*) and last(b.x, 1) < prev(last(b.x), 3) or 'a.x' = s", {"a", "b"})
    assert made.sql == "_r0 > _r1 + _r2 and _r3 < _r4 or 'a.x' = s"
    assert list(made.parts.values()) == [
        ValueOf(RowOf("last", "a"), "x"),
        ValueOf(RowOf(back=2), "y"),
        TotalOf("count", "a", None),
        ValueOf(RowOf("last", "b", 1), "x"),
        ValueOf(RowOf("last", "b", 0, 3), "x"),
    ]
    assert rewrite("x > 1", {"a"}).parts == {}
    assert RowOf() == CURRENT


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("next(x) > 1", "a stream has no next row yet"),
        ("prev(x, n) > 1", "written out"),
        ("sum(a.x + b.x) > 1", "several variables"),
        ("sum(a.x + y) > 1", "about a and about y"),
        ("sum(prev(x)) > 1", "inside another one"),
        ("sum(*) > 1", "has no value"),
        ("a.* > 1", "has no value"),
        ("count(c.*) > 1", "no variable c"),
        ("max(a.x, 2) > 1", "takes one value"),
        ("prev() > 1", "needs an argument"),
    ],
)
def test_what_cannot_be_asked_of_rows(sql: str, why: str) -> None:
    with pytest.raises(Invalid, match=why):
        rewrite(sql, {"a", "b"})


@pytest.mark.parametrize("text", ["(" * 60 + "a" + ")" * 60, "a" + "{1}" * 60, "permute(" * 60 + "a" + ")" * 60])
def test_groups_that_are_nested_too_deep_are_refused_with_a_caret(text: str) -> None:
    with pytest.raises(Invalid, match=r"(?s)more than 50 groups are inside each other.*\n +\^"):
        parse(text)


def test_a_number_that_no_computer_has_is_refused() -> None:
    with pytest.raises(Invalid, match="more often than anything happens"):
        parse("a{" + "9" * 5000 + "}")
