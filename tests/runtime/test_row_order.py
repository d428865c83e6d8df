"""Which row is the newest and which the first does not depend on epochs, also behind operators that hold rows back."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import riverrun as rr
from oracles.histories import FAILPOINTS
from oracles.orders import at, examples
from riverrun.testing import Append, Crash, Process, run_flow

SCHEMA = "k int, n int, at timestamp"
ROW = st.tuples(st.sampled_from("ab"), st.integers(0, 1), st.integers(0, 5))
"""Topic, key, and how many seconds a row is ahead of its place; each comes three seconds after the one before."""


def priced() -> rr.Flow:
    flow = rr.Flow("prices")
    sales = flow.stream("a", SCHEMA, time="at", lateness="6 seconds")
    rates = flow.table("b", "k int, n int, at timestamp", key="k", time="at", lateness="6 seconds")
    return shown(flow, sales.as_of(rates, on="k", how="left", late=rr.drop()).select("k", "n"))


def joined(how: str) -> rr.Flow:
    flow = rr.Flow("pairs")
    left, right = (flow.stream(topic, SCHEMA, time="at", lateness="6 seconds") for topic in "ab")
    return shown(flow, left.join(right, on="k", within="4 seconds", how=how).select("k", "coalesce(n, n_right) as n"))


def applied() -> rr.Flow:
    """Rows pass a step that gives them on as they are, grouped by another column than they are compared by."""
    flow = rr.Flow("steps")
    both = [flow.stream(topic, SCHEMA, time="at", lateness="6 seconds") for topic in "ab"]
    return shown(flow, both[0].union(both[1]).apply(as_they_are, by="n", state="x int", output="k int, n int"))


def as_they_are(state: pl.DataFrame, rows: pl.DataFrame, clock: Any) -> tuple[pl.DataFrame, pl.DataFrame]:
    return state.clear(), rows.select("k", "n", "_time")


def shown(flow: rr.Flow, rows: rr.flow.Stream) -> rr.Flow:
    flow.view("newest", rows, key="k")
    first = rows.dedupe("k", within="1 minute")
    flow.view("first", first)
    flow.view("sequence", rows.apply(rr.per_key(remembered), "k", "seen string", "k int, seen string"), key="k")
    return flow


def remembered(state: dict[str, Any] | None, rows: list[dict[str, Any]], clock: Any) -> tuple[Any, Any]:
    """The rows of a key in the order they come."""
    seen = (state["seen"] if state else "") + "".join(f"{row['n']};" for row in rows)
    return {"seen": seen}, [{"seen": seen}]


FLOWS = {"as_of": priced, "left": lambda: joined("left"), "full": lambda: joined("full"), "apply": applied}


@pytest.mark.parametrize("name", FLOWS)
@given(
    st.lists(ROW, min_size=1, max_size=14),
    st.sets(st.integers(0, 13), max_size=6),
    st.sampled_from(FAILPOINTS),
)
@examples(6)
def test_newest_first_and_sequence_are_the_same_in_any_epochs(
    name: str, rows: list[Any], cuts: set[int], place: str
) -> None:
    """The same log: in one epoch, row by row, and cut anywhere with a crash. No row is late."""
    flow = FLOWS[name]()
    steps = [
        Append(topic, [{"k": k, "n": number, "at": at(3 * number + ahead)}])
        for number, (topic, k, ahead) in enumerate(rows)
    ]
    whole = run_flow(flow, [*steps, Process()])
    assert all(entry["late_dropped"] == 0 for entry in whole.ledger)
    assert run_flow(flow, [part for step in steps for part in (step, Process())]).views == whole.views
    cut: list[Any] = [Crash(at=place)]
    for number, step in enumerate(steps):
        cut += [step, Process()] if number in cuts else [step]
    assert run_flow(flow, [*cut, Process()], shards=3).views == whole.views


def test_rows_that_wait_for_their_price_come_in_the_order_of_event_time() -> None:
    """The row that waits longer is the newest, and the other one the first, whether or not an epoch lies between."""
    flow = rr.Flow("prices")
    sales = flow.stream("sales", SCHEMA, time="at", lateness=10)
    rates = flow.table("rates", "k int, rate int, at timestamp", key="k", time="at", lateness=10)
    sold = sales.as_of(rates, on="k", late=rr.drop()).select("k", "n")
    flow.view("last", sold, key="k")
    flow.view("first", sold.dedupe("k", within=100))
    flow.topic("log", sold, key="k")
    known = [{"k": 1, "rate": 5, "at": at(1)}, {"k": 9, "rate": 1, "at": at(40)}]
    some = [{"k": 1, "n": 1, "at": at(9)}, {"k": 1, "n": 2, "at": at(3)}, {"k": 7, "n": 0, "at": at(15)}]
    rest = [{"k": 7, "n": 3, "at": at(40)}]
    whole = run_flow(flow, [{"rates": known, "sales": some + rest}])
    apart = run_flow(flow, [{"rates": known, "sales": some}, {"sales": rest}])
    for result in (whole, apart):
        assert result.views["last"] == [{"k": 1, "n": 1}]
        assert result.views["first"] == [{"k": 1, "n": 2}]
        assert [row["n"] for row in result.topics["log"]] == [2, 1]


def test_of_one_append_rows_that_passed_a_step_are_in_log_order() -> None:
    flow = rr.Flow("steps")
    rows = flow.stream("s", "k int, g int, n int, at timestamp", time="at", lateness="1 minute")
    made = rows.apply(
        lambda state, rows, clock: (state.clear(), rows.select("k", "g", "n", "_time").sort("n", descending=True)),
        by="k",
        state="x int",
        output="k int, g int, n int",
    )
    twice = made.apply(
        lambda state, rows, clock: (state.clear(), rows.select("n", "g", "_time")), "n", "x int", "n int, g int"
    )
    flow.view("newest", made, key="g")
    flow.view("first", made.dedupe("g"))
    flow.view("again", twice.dedupe("g"))
    given = [
        {"k": k, "g": k % 2, "n": n, "at": at(30 - n // 3)} for n, k in enumerate([5, 3, 8, 1, 5, 2, 9, 4, 7, 6, 0, 5])
    ]
    together, apart = run_flow(flow, {"s": given}), run_flow(flow, [{"s": [row]} for row in given])
    assert together.views == apart.views
    assert [(row["g"], row["n"]) for row in together.views["newest"]] == [(0, 10), (1, 11)]
    assert sorted((row["g"], row["n"]) for row in together.views["first"]) == [(0, 2), (1, 0)]


def test_a_running_result_of_a_step_stays_the_newest_when_its_row_is_older() -> None:
    """Event time does not decide between results of one key: the count of the later row is the newer one."""
    flow = rr.Flow("steps")
    counts = flow.stream("s", "k int, at timestamp", time="at", lateness="1 minute").apply(
        rr.per_key(lambda state, rows, clock: ({"n": (n := (state or {"n": 0})["n"] + len(rows))}, [{"n": n}])),
        "k",
        "n int",
        "k int, n int",
    )
    flow.view("counts", counts, key="k")
    rows = [{"k": 1, "at": at(10)}, {"k": 1, "at": at(5)}]
    for script in ([{"s": rows}], [{"s": [row]} for row in rows]):
        assert run_flow(flow, script).views["counts"] == [{"k": 1, "n": 2}]


def test_the_newest_of_changes_is_that_of_their_time_however_they_are_cut_into_epochs() -> None:
    flow = rr.Flow("f")
    people = flow.table("people", "id string, team string, n int, at timestamp", key="id", time="at")
    joined = people.changes().select("_after.team as team", "_after.n as n")
    flow.view("last", joined, key="team")
    flow.view(
        "both",
        flow.stream("visits", "team string, n int, at timestamp", time="at").drop("at").union(joined),
        key="team",
    )
    first, second = (
        {"id": name, "team": "red", "n": n, "at": at(when)} for name, n, when in (("x", 1, 50), ("y", 2, 3))
    )
    visit = {"team": "red", "n": 3, "at": at(60)}
    for script in (
        [{"visits": [visit], "people": [first, second]}],
        [{"visits": [visit], "people": [first]}, {"people": [second]}],
    ):
        found = run_flow(flow, script).views
        assert ([row["n"] for row in found["last"]], [row["n"] for row in found["both"]]) == ([1], [3])
