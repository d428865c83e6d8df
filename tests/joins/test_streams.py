"""Joins of streams, through the public interface: however rows arrive, the same as SQL's over all of them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import riverrun as rr
from oracles.histories import FAILPOINTS
from oracles.orders import at, examples
from riverrun.testing import Advance, Crash, assert_same_as_batch, run_flow

SEARCHES = "user string, n int, query string, at timestamp"
CLICKS = "who string, m int, at timestamp"
USERS = st.sampled_from(["ada", "bob", None])
TIMES = st.integers(0, 400).map(lambda tenths: at(tenths / 10))
BOUNDS = st.sampled_from([("0 s", "5 s"), ("-3 s", "8 s"), ("-6 s", "-2 s"), ("4 s", "9 s"), ("0 s", "0 s")])
HOW = st.sampled_from(["inner", "left", "right", "full"])
SEEDS = st.integers(0, 99)


def numbered(rows: st.SearchStrategy[dict[str, Any]], name: str, size: int = 14) -> st.SearchStrategy[list[Any]]:
    made = st.lists(rows, max_size=size)
    return made.map(lambda found: [{**row, name: number} for number, row in enumerate(found)])


SEARCHED = numbered(st.fixed_dictionaries({"user": USERS, "query": st.sampled_from("ab"), "at": TIMES}), "n")
CLICKED = numbered(st.fixed_dictionaries({"who": USERS, "at": TIMES}), "m")


def sources(flow: rr.Flow) -> tuple[Any, Any]:
    searches = flow.stream("searches", SEARCHES, time="at", lateness="6 seconds")
    return searches, flow.stream("clicks", CLICKS, time="at", lateness="3 seconds")


def near(bounds: tuple[str, str], left: str = "s", right: str = "c") -> str:
    lo, hi = (int(bound.split()[0]) for bound in bounds)
    return f'{right}."at" between {left}."at" + interval ({lo}) seconds and {left}."at" + interval ({hi}) seconds'


def pairs(how: str, bounds: tuple[str, str]) -> str:
    return (
        'select coalesce(s.user, c.who) as user, n, query, s."at", m, c."at" as at_right '
        f"from searches s {how} join clicks c on s.user = c.who and {near(bounds)}"
    )


@given(SEARCHED, CLICKED, BOUNDS, HOW, SEEDS)
@examples(10)
def test_every_kind_with_any_bounds(searched: Any, clicked: Any, bounds: Any, how: str, seed: int) -> None:
    flow = rr.Flow("search")
    searches, clicks = sources(flow)
    both = searches.join(clicks, {"user": "who"}, within=bounds, how=how)
    flow.view("both", both)
    flow.view("users", both.group("user").agg(rows=rr.count(), clicks=rr.count("m"), last=rr.max("at_right")))
    sql = {
        "both": pairs(how, bounds),
        "users": "select user, count(*) as rows, count(m) as clicks, max(at_right) as last "
        f"from ({pairs(how, bounds)}) group by user",
    }
    inputs = {"searches": searched, "clicks": clicked}
    assert_same_as_batch(flow, inputs, sql, seed=seed, times=2, partitions=2)


@given(SEARCHED, CLICKED, BOUNDS, SEEDS)
@examples(6)
def test_windows_count_rows_without_a_partner_too(searched: Any, clicked: Any, bounds: Any, seed: int) -> None:
    flow = rr.Flow("search")
    searches, clicks = sources(flow)
    both = searches.join(clicks, {"user": "who"}, within=bounds, how="left")
    windows = both.window(rr.tumbling("10 seconds"), by="query")
    flow.view("rates", windows.agg(rows=rr.count(), clicks=rr.count("m"), searches=rr.distinct("n")))
    rates = (
        'select query, time_bucket(interval 10 seconds, "at") as window_start, window_start + interval 10 seconds '
        f"as window_end, count(*) as rows, count(m) as clicks, count(distinct n) as searches "
        f"from ({pairs('left', bounds)}) group by all"
    )
    inputs = {"searches": searched, "clicks": clicked}
    assert_same_as_batch(flow, inputs, {"rates": rates}, seed=seed, times=2, partitions=2)


@given(SEARCHED, st.sampled_from(["inner", "left", "full"]), SEEDS)
@examples(5)
def test_a_stream_with_itself(searched: Any, how: str, seed: int) -> None:
    flow = rr.Flow("search")
    searches, _ = sources(flow)
    flow.view("again", searches.join(searches, ["user", "query"], within=("0 s", "7 s"), how=how, suffix="_2"))
    again = (
        'select coalesce(a.user, b.user) as user, coalesce(a.query, b.query) as query, a.n, a."at", b.n as n_2, '
        f'b."at" as at_2 from searches a {how} join searches b on a.user = b.user and a.query = b.query '
        f"and {near(('0 s', '7 s'), 'a', 'b')}"
    )
    assert_same_as_batch(flow, {"searches": searched}, {"again": again}, seed=seed, times=2, partitions=2)


@given(SEARCHED, CLICKED, HOW, HOW, SEEDS)
@examples(6)
def test_chains_of_three_streams(searched: Any, clicked: Any, first: str, second: str, seed: int) -> None:
    """The second join goes by the time of the first one's left row, or of its right row if that is alone."""
    flow = rr.Flow("search")
    searches, clicks = sources(flow)
    both = searches.where("query = 'a'").join(clicks, {"user": "who"}, within=("-2 s", "5 s"), how=first)
    later = searches.where("query = 'b'").select("user as other", "n as later", "at as then")
    flow.view("three", both.join(later, {"user": "other"}, within=("0 s", "9 s"), how=second))
    inner = pairs(first, ("-2 s", "5 s")).replace("from searches s", "from (from searches where query = 'a') s")
    sql = (
        'select coalesce(p.user, l.user) as user, p.n, p.query, p."at", p.m, p.at_right, l.n as later, l."at" as "then" '
        f"from ({inner}) p {second} join (from searches where query = 'b') l on p.user = l.user and "
        'l."at" between coalesce(p."at", p.at_right) and coalesce(p."at", p.at_right) + interval 9 seconds'
    )
    inputs = {"searches": searched, "clicks": clicked}
    assert_same_as_batch(flow, inputs, {"three": sql}, seed=seed, times=2)


@given(SEARCHED, CLICKED, HOW, st.sampled_from(FAILPOINTS), st.integers(0, 3))
@examples(6)
def test_crashes_in_the_middle_change_nothing(searched: Any, clicked: Any, how: str, place: str, when: int) -> None:
    flow = rr.Flow("search")
    searches, clicks = sources(flow)
    both = searches.join(clicks, {"user": "who"}, within=("-3 s", "8 s"), how=how)
    flow.view("both", both)
    flow.topic("pairs", both)
    flow.view("top", both.top(3, "at desc, n, m", per="user", rank="place"))
    epochs: list[Any] = [
        {"searches": searched[i : i + 4], "clicks": clicked[i : i + 4]}
        for i in range(0, 16, 4)
        if searched[i : i + 4] or clicked[i : i + 4]
    ]
    straight = run_flow(flow, epochs, partitions=2)
    crashed = run_flow(flow, [*epochs[:when], Crash(at=place), *epochs[when:]], partitions=2)
    assert crashed.views == straight.views
    assert crashed.topics == straight.topics
    assert crashed.ledger == straight.ledger
    assert crashed.changes == straight.changes


def test_a_row_is_reported_alone_once_and_only_when_no_partner_can_come() -> None:
    flow = rr.Flow("search")
    searches, clicks = sources(flow)
    flow.view("both", searches.join(clicks, {"user": "who"}, within=("0 s", "10 s"), how="left").select("n", "m"))
    search = {"user": "ada", "n": 1, "query": "a", "at": at(0)}
    click = {"who": "ada", "m": 1, "at": at(10)}
    script = [
        {"searches": [search, {**search, "user": "bob", "n": 2}]},
        {"searches": [{**search, "user": "eve", "n": 3, "at": at(60)}]},  # the clicks have not come so far yet
        {"clicks": [{**click, "who": "eve", "m": 2, "at": at(13)}]},  # and now they may be ten seconds old, not older
        {"clicks": [click]},
        Advance("clicks", 0, at(14)),
    ]
    seen = run_flow(flow, script, drain=False)
    found = [[change.after for change in epoch] for epoch in seen.changes["both"]]
    assert found[:3] == [[], [], []]
    assert found[3:] == [[{"n": 1, "m": 1}], [{"n": 2, "m": None}]]
    late = run_flow(flow, [*script, {"clicks": [{"who": "bob", "m": 3, "at": at(9)}]}])
    assert {"n": 2, "m": 3} not in late.views["both"]
    assert next(entry for entry in late.ledger if entry["input"] == "right")["late_dropped"] == 1


def test_windows_behind_a_join_wait_for_it() -> None:
    """Both streams are long past the window when the row comes out alone, and still the window counts it."""
    flow = rr.Flow("search")
    searches, clicks = sources(flow)
    both = searches.join(clicks, {"user": "who"}, within=("0 s", "30 s"), how="left")
    flow.view("windows", both.window(rr.tumbling("10 seconds")).agg(rows=rr.count(), clicks=rr.count("m")))
    script: list[Any] = [{"searches": [{"user": "ada", "n": 1, "query": "a", "at": at(1)}]}]
    for seconds in (20, 30, 40, 60):
        script += [Advance("searches", 0, at(seconds)), Advance("clicks", 0, at(seconds))]
    found = run_flow(flow, script, drain=False)
    assert [(row["window_start"], row["rows"], row["clicks"]) for row in found.views["windows"]] == [(at(0), 1, 0)]
    assert found.ledger_of("window")["late_dropped"] == 0


@pytest.mark.parametrize("name", ["_before", "_after", "_op"])
def test_columns_that_changes_make_pass_through_joins(name: str) -> None:
    """A derived topic of changes, read again and joined."""
    flow = rr.Flow("again")
    read = flow.stream("s", f"k int, {name} string, at timestamp", time="at")
    other = flow.stream("o", "k int, y int, at timestamp", time="at")
    table = flow.table("b", "k int, z int, at timestamp", key="k", time="at")
    flow.view("joined", read.join(other, on="k", within="10 s", how="left").select("k", name, "y"))
    flow.view("dated", read.as_of(table, on="k").select("k", name, "z"))
    rows = {
        "s": [{"k": 1, name: "said", "at": at(2)}],
        "o": [{"k": 1, "y": 7, "at": at(1)}],
        "b": [{"k": 1, "z": 8, "at": at(1)}],
    }
    views = run_flow(flow, rows).views
    assert views["joined"] == [{"k": 1, name: "said", "y": 7}]
    assert views["dated"] == [{"k": 1, name: "said", "z": 8}]
