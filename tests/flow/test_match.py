"""`s.match(…)` as it is declared: the columns it gives, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

import riverrun as rr
from riverrun.errors import Invalid, NotFound
from riverrun.flow.fingerprint import fingerprints

ORDERS = "user string, kind string, amount double, price decimal(10,2), n int, at timestamp"


def orders() -> tuple[rr.Flow, Any]:
    flow = rr.Flow("shop")
    return flow, flow.stream("orders", ORDERS, time="at")


def test_the_columns_of_a_match() -> None:
    _, rows = orders()
    made = rows.match(
        "a b+",
        by="user",
        define={"b": "amount > prev(amount)"},
        measures={"first": "a.amount", "most": "max(b.price)", "n": "count(*)", "mean": "avg(b.n)", "last": "kind"},
    )
    assert [(name, str(kind)) for name, kind in made.schema.columns] == [
        ("user", "string"), ("first", "double"), ("most", "decimal(10,2)"), ("n", "bigint"), ("mean", "double"),
        ("last", "string"), ("match_start", "timestamp"), ("match_end", "timestamp"), ("match_id", "string"),
    ]  # fmt: skip
    every = rows.match("a -> b", within="1 hour", rows="all", measures={"sum": "sum(n)"}, on_timeout=True)
    added = ["match_id", "variable", "row_number", "sum", "timed_out"]
    assert list(every.schema) == ["user", "kind", "amount", "price", "n", "at", *added]


def test_the_picture_says_what_is_matched() -> None:
    flow, rows = orders()
    flow.view("m", rows.match("a -> b", by="user", within="10 minutes"))
    assert "match a -#gt; b by user within 10 min" in flow.render()


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"pattern": "a b*)"}, "is not expected here"),
        ({"pattern": 5}, "a pattern is a string"),
        ({"pattern": "a -> b"}, "needs within"),
        ({"pattern": "a _* b", "define": {"a": "n > 1", "b": "n > 2"}}, "needs within"),
        ({"pattern": "a !b"}, "at the end needs within"),
        ({"pattern": "a b", "on_timeout": True}, "on_timeout needs within"),
        ({"pattern": "a b", "define": {"c": "n > 1"}}, "which the pattern does not use"),
        ({"pattern": "a b", "define": {"_": "n > 1"}}, "_ is every row"),
        ({"pattern": "a b", "define": {"a": "n > 1", "A": "n > 2"}}, "twice"),
        ({"pattern": "a b", "define": {"a": "n + 1"}}, "not boolean"),
        ({"pattern": "a b", "define": {"b": "next(n) > 1"}}, "no next row yet"),
        ({"pattern": "a b", "define": {"b": "concat(kind, prev(kind)) = 'x'"}}, "cannot be computed of several rows"),
        ({"pattern": "a b", "define": {"b": "at > prev(n)"}}, "several types"),
        ({"pattern": "a b", "after": "skip to b"}, "after cannot be"),
        ({"pattern": "a b", "open_rows": 0}, "open_rows cannot be 0"),
        ({"pattern": "a b", "open_rows": True}, "open_rows cannot be True"),
        ({"pattern": "a b", "after": "skip to last c"}, "no row of a match is"),
        ({"pattern": "a b", "after": "skip to first a"}, "where the match began"),
        ({"pattern": "a b", "after": "skip to last a"}, "where the match began"),
        ({"pattern": "a !x -> b", "within": "1 hour", "after": "skip to last x"}, "no row of a match is"),
        ({"pattern": "a b", "rows": "some"}, "rows cannot be"),
        ({"pattern": "a b", "measures": {"user": "n"}}, "already"),
        ({"pattern": "a b", "measures": {"match_id": "n"}}, "already"),
        ({"pattern": "a b", "measures": {"x": "sum(kind)"}}, "adds up"),
        ({"pattern": "a b", "late": "drop"}, "not a late policy"),
    ],
)  # fmt: skip
def test_what_is_refused_names_the_line(given: dict[str, Any], why: str) -> None:
    _, rows = orders()
    with pytest.raises(Invalid, match=why) as refused:
        rows.match(by="user", **given)
    assert "test_match.py:" in str(refused.value)


def test_columns_that_are_not_there() -> None:
    _, rows = orders()
    with pytest.raises(NotFound, match="no column 'amuont'"):
        rows.match("a b", define={"b": "amuont > prev(amount)"})
    with pytest.raises(NotFound, match="no column 'c'"):
        rows.match("a b", define={"b": "c.amount > 1"})
    with pytest.raises(NotFound, match="by"):
        rows.match("a b", by="usr")


def test_a_target_that_comes_later_is_accepted() -> None:
    _, rows = orders()
    for after in ("skip to last a", "Skip To First B", "skip to last `b`"):
        rows.match("a+ b", define={"a": "n > 1"}, after=after)


def test_another_pattern_is_another_computation() -> None:
    def fingerprint(pattern: str, **given: Any) -> Any:
        flow, rows = orders()
        flow.view("m", rows.match(pattern, by="user", within="1 hour", **given))
        return fingerprints(flow.nodes)

    assert fingerprint("a -> b") == fingerprint("A  ->  b")
    assert fingerprint("a -> b") != fingerprint("a b")
    assert fingerprint("a -> b") != fingerprint("a -> b", define={"a": "n > 1"})


@pytest.mark.parametrize(
    ("columns", "given", "name"),
    [
        ("match_id string, at timestamp", {"by": "match_id"}, "match_id"),
        ("Match_Start string, at timestamp", {"by": "match_start"}, "Match_Start"),
        ("variable string, at timestamp", {"rows": "all"}, "variable"),
        ("row_number int, at timestamp", {"rows": "all"}, "row_number"),
        ("timed_out int, at timestamp", {"rows": "all", "on_timeout": True}, "timed_out"),
    ],
)
def test_a_column_that_the_matches_would_have_twice_is_refused(columns: str, given: dict[str, Any], name: str) -> None:
    rows = rr.Flow("shop").stream("rows", columns, time="at")
    with pytest.raises(Invalid, match=f"have a column '{name}', and so would the matches"):
        rows.match("a b", within="1 hour", **given)


def test_a_column_that_the_matches_do_not_have_is_none_of_theirs() -> None:
    rows = rr.Flow("shop").stream("rows", "variable string, match_id string, at timestamp", time="at")
    assert list(rows.match("a b", by="variable").schema) == ["variable", "match_start", "match_end", "match_id"]


@pytest.mark.parametrize(
    ("given", "caret"),
    [
        ({"pattern": "a b", "define": {"c": "n > 1"}}, 0),
        ({"pattern": "a b !c"}, 4),
        ({"pattern": "a b", "on_timeout": True}, 0),
    ],
)
def test_a_caret_says_where(given: dict[str, Any], caret: int) -> None:
    _, rows = orders()
    with pytest.raises(Invalid) as refused:
        rows.match(by="user", **given)
    *_, shown, line = str(refused.value).split("\n")
    assert shown.strip() == given["pattern"] and line.index("^") - shown.index("a") == caret


def test_columns_of_queries_that_clash_twice() -> None:
    flow = rr.Flow("news")
    articles = flow.stream("articles", "title string, lang string, lang_query string, at timestamp", time="at")
    searches = flow.table("searches", "query_id string, query string, lang string", key="query_id")
    with pytest.raises(Invalid, match="percolate: there are two columns 'lang_query'.*another name before"):
        articles.percolate(searches, text="title")
