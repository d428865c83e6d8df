"""Queries as people write them, and errors that show the place."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from riverrun.search.fields import HIGHEST, LOWEST, SearchField, SearchFields
from riverrun.search.parsing import DEEPEST, LONGEST, QueryError, _QueryReading, parse_query
from riverrun.search.tree import AllOf, AnyOf, Negation, QueryPattern, QueryPhrase, QueryRange, QueryTerm
from riverrun.search.words import Analyzer

FIELDS = SearchFields(
    (
        SearchField("title", "text"),
        SearchField("body", "text"),
        SearchField("price", "float"),
        SearchField("n", "whole"),
        SearchField("paid", "decimal", 2),
        SearchField("new", "boolean"),
        SearchField("day", "date"),
        SearchField("at", "time"),
    ),
    ("title", "body"),
)


def parsed(text: str) -> Any:
    return parse_query(text, FIELDS, Analyzer())


def term(word: str, field: str | None = None) -> QueryTerm:
    return QueryTerm(field, word)


A, B, C = term("a"), term("b"), term("c")


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("A", A),
        ("a b", AllOf((A, B))),
        ("a AND b AND a", AllOf((A, B))),
        ("a OR b", AnyOf((A, B))),
        ("a AND b OR c", AnyOf((AllOf((A, B)), C))),
        ("a b OR c", AllOf((A, AnyOf((B, C))))),
        ("+a -b", AllOf((A, Negation(B)))),
        ("NOT a", Negation(A)),
        ("NOT (NOT a)", A),
        ("not a", AllOf((term("not"), A))),
        ('"a b"', QueryPhrase(None, ("a", "b"))),
        ('"a"', A),
        ('"a b"~0', QueryPhrase(None, ("a", "b"))),
        ('"a b"~3', QueryPhrase(None, ("a", "b"), 3)),
        ("a-b", QueryPhrase(None, ("a", "b"))),
        ("TITLE:a", term("a", "title")),
        ("title:(a OR b)", AnyOf((term("a", "title"), term("b", "title")))),
        ('title:"a b"', QueryPhrase("title", ("a", "b"))),
        ("a & b", AllOf((A, B))),
        (r"a\:b", QueryPhrase(None, ("a", "b"))),
        ("Hou*", QueryPattern(None, "hou*")),
        ("title:w?n**", QueryPattern("title", "w?n*")),
        ("n:3", QueryRange("n", 3, 3)),
        ("n:-3", QueryRange("n", -3, -3)),
        ("n:2.5", QueryRange("n", 3, 2)),
        ("n:[1 TO 9}", QueryRange("n", 1, 8)),
        ("n:{1.5 TO *]", QueryRange("n", 2, HIGHEST)),
        ("n:*", QueryRange("n", LOWEST, HIGHEST)),
        ("n:<99999999999999999999", QueryRange("n", LOWEST, HIGHEST)),
        ("price:[1 TO 9]", QueryRange("price", 1.0, 9.0)),
        ("paid:>=9.901", QueryRange("paid", 991, HIGHEST)),
        ("new:true", QueryRange("new", 1, 1)),
        ("day:<1970-01-02", QueryRange("day", LOWEST, 0)),
        ("at:1970-01-01", QueryRange("at", 0, 86_400_000_000 - 1)),
        ("at:>1970-01-01", QueryRange("at", 86_400_000_000, HIGHEST)),
        ('at:<"1970-01-01T00:00:01Z"', QueryRange("at", LOWEST, 999_999)),
    ],
)
def test_trees(text: str, tree: object) -> None:
    assert parsed(text) == tree


@pytest.mark.parametrize(
    ("text", "said", "at"),
    [
        ("a AND", "ends too early", 5),
        ("(a", "ends too early", 2),
        ("a AND OR b", "cannot be read: 'OR'", 6),
        ("a)", "cannot be read: '[)]'", 1),
        ('a "b', "has a character that does not fit", 2),
        ("a titel:b", "names a column 'titel' .* Did you mean 'title'", 2),
        ("a n:many", "compares n with 'many'. It is written like 5", 4),
        ("n:[1 TO x]", "compares n with 'x'", 8),
        ("new:yes", "written like true", 4),
        ("day:tomorrow", "written like 2026-01-31", 4),
        ("a [1 TO 2]", "has a range without a column", 2),
        ("title:[a TO b]", "has a range of title, which is text", 6),
        ("a b~2", "has ~ behind a word", 2),
        ("a^2 b", "a stored search has no rank", 0),
        ("a /b/", "has a regular expression", 2),
        ("a && b", "has '&&'. Write AND", 2),
        ("a !b", "has '!b'. Write NOT", 2),
        ("+a OR b", "has [+] beside OR", 0),
        ("e-mai*", "has [*] or [?] in what is not one word", 0),
        ("title:body:a", "names a column inside another", 6),
        ("&", "has no words", 0),
        ("-&", "has no words", 0),
    ],
)
def test_errors_show_the_place(text: str, said: str, at: int) -> None:
    with pytest.raises(QueryError, match=said) as caught:
        parsed(text)
    assert str(caught.value).endswith(f"\n  {text}\n  {' ' * at}^")


def test_limits() -> None:
    for text, said in (
        ("", "has no words"),
        ("a" * (LONGEST + 1), "is longer than"),
        ("(" * (DEEPEST + 1) + "a" + ")" * (DEEPEST + 1), "is nested deeper"),
        ("a AND (" * 400 + "b" + ")" * 400, "is nested deeper"),
    ):
        with pytest.raises(QueryError, match=said):
            parsed(text)
    assert len(parsed(" ".join(f"w{n}" for n in range(1500))).parts) == 1500
    late = "word " * 30 + "AND"
    with pytest.raises(QueryError) as caught:
        parsed(late)
    line, mark = str(caught.value).splitlines()[-2:]
    assert len(line) < 90
    assert mark.index("^") == len(line.rstrip())


_piece = st.one_of(
    st.sampled_from(
        ["AND", "and", "or", "AND AND", '""', '"a', 'a"', "TOP", "ANDY", "ORlando", '"to AND b"', "é", "_"]
    ),
    st.sampled_from(["a", "b1", "Zoë", "你好", '"x y"', '"e-mail (x)"', "  ", "\t"]),
    st.text(alphabet='aé1_ "AND', max_size=6),
)


@given(st.lists(_piece, min_size=1, max_size=6).map(" ".join))
def test_what_is_read_quickly_comes_to_what_luqum_says(text: str) -> None:
    reading = _QueryReading(text, FIELDS, Analyzer())

    def outcome(read: Any) -> object:
        try:
            return read()
        except QueryError:
            return None

    assert outcome(lambda: parsed(text)) == outcome(reading.whole)
