"""Late rows: dropped, put aside or corrected, and always counted."""

from __future__ import annotations

from builtins import sum as sum_of
from datetime import timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from oracles.orders import ORDERS, SCHEMA, START, at, examples, order
from riverrun.flow import Flow
from riverrun.flow.aggregates import count, sum
from riverrun.flow.windows import Late, WindowKind, correct, drop, hopping, session, side, sliding, tumbling
from riverrun.runtime.compile.compiler import compile_flow
from riverrun.runtime.ledger import add_up
from riverrun.testing import Append, Crash, Delete, Process, run_flow

LATENESS, SIZE, HORIZON = 5, 10, 15
EPOCHS = st.lists(ORDERS.filter(bool), min_size=1, max_size=5)
POLICIES = {"drop": drop(), "side": side("late"), "correct": correct(HORIZON)}


def windowed(window: WindowKind, late: Late) -> Flow:
    flow = Flow("shop")
    stream = flow.stream("orders", SCHEMA, time="at", lateness=LATENESS).where("n is not null")
    flow.view("windows", stream.window(window, by="item", late=late).agg(rows=count(), total=sum("n")))
    return flow


def tumbled(epochs: list[list[Any]], horizon: int) -> tuple[dict[Any, tuple[int, int]], list[Any]]:
    """Windows as (rows, total), and the rows that came too late, under the watermark of a single partition."""
    windows: dict[Any, list[int]] = {}
    late = []
    watermark = START - timedelta(days=1)
    for rows in epochs:
        for row in rows:
            start = START + timedelta(seconds=(row["at"] - START).total_seconds() // SIZE * SIZE)
            if row["n"] is None:
                continue
            if start + timedelta(seconds=SIZE + horizon) <= watermark:
                late.append((row, watermark))
            else:
                windows.setdefault((row["item"], start), []).append(row["n"])
        # Every row moves the watermark, also those that no window gets to see.
        watermark = max([watermark, *(row["at"] - timedelta(seconds=LATENESS) for row in rows)])
    return {key: (len(ns), sum_of(ns)) for key, ns in windows.items()}, late


@given(EPOCHS, st.sampled_from(sorted(POLICIES)), st.booleans())
@examples(15)
def test_what_is_late_and_where_it_goes(epochs: list[list[Any]], policy: str, crashes: bool) -> None:
    flow = windowed(tumbling(SIZE), POLICIES[policy])
    script = [step for rows in epochs for step in ([{"orders": rows}, Crash()] if crashes else [{"orders": rows}])]
    found = run_flow(flow, script)
    windows, late = tumbled(epochs, HORIZON if policy == "correct" else 0)
    shown = {(row["item"], row["window_start"]): (row["rows"], row["total"]) for row in found.views["windows"]}
    assert shown == windows
    ledger = found.ledger_of("window")
    assert ledger["read"] == ledger["accepted"] + len(late)
    assert ledger["late_aside" if policy == "side" else "late_dropped"] == len(late)
    if policy == "side":
        put_aside = sorted(found.topics["late"], key=repr)
        assert put_aside == sorted(({**row, "_watermark": watermark} for row, watermark in late), key=repr)


def test_rows_that_issue_a_window_again_are_in_the_ledger() -> None:
    epochs = [{"orders": [order("ada", 3)]}, {"orders": [order("ada", 40)]}, {"orders": [order("ada", 25)]}]
    corrected = run_flow(windowed(tumbling(SIZE), correct(HORIZON)), epochs).ledger_of("window")
    assert (corrected["accepted"], corrected["corrected"], corrected["late_dropped"]) == (3, 1, 0)
    dropped = run_flow(windowed(tumbling(SIZE), drop()), epochs).ledger_of("window")
    assert (dropped["accepted"], dropped["corrected"], dropped["late_dropped"]) == (2, 0, 1)


def test_totals_of_an_older_version_go_on() -> None:
    """It knew fewer counts."""
    job = compile_flow(windowed(tumbling(SIZE), drop()), 1)
    [node] = [operator.id for stage in job.stages for operator in stage]
    before = [{"node": node, "input": "in", "read": 2, "accepted": 2}]
    added = add_up(job, before, {node: {"in": {"read": 1, "accepted": 1, "corrected": 1}}})
    found = next(entry for entry in added if entry["node"] == node)
    assert (found["read"], found["accepted"], found["corrected"], found["late_aside"]) == (3, 3, 1, 0)


@given(EPOCHS, st.sampled_from([hopping(SIZE, 4), sliding(SIZE), session(SIZE)]))
@examples(8)
def test_other_windows_put_aside_what_they_do_not_count(epochs: list[list[Any]], window: WindowKind) -> None:
    found = run_flow(windowed(window, side("late")), [{"orders": rows} for rows in epochs])
    dropped = run_flow(windowed(window, drop()), [{"orders": rows} for rows in epochs])
    assert found.views["windows"] == dropped.views["windows"]
    given_ = [row for rows in epochs for row in rows if row["n"] is not None]
    ledger = found.ledger_of("window")
    assert ledger["read"] == len(given_)
    assert ledger["late_aside"] == len(found.topics["late"]) == dropped.ledger_of("window")["late_dropped"]
    for row in found.topics["late"]:
        row.pop("_watermark")
        given_.remove(row)


def test_late_rows_of_two_windows_share_a_topic() -> None:
    flow = Flow("shop")
    stream = flow.stream("orders", SCHEMA, time="at")
    flow.view("short", stream.window(tumbling(10), late=side("late")).agg(rows=count()))
    flow.view("long", stream.window(tumbling(30), late=side("late")).agg(total=sum("n")))
    found = run_flow(flow, [{"orders": [order("ada", 40)]}, {"orders": [order("bob", 22, 7), order("eve", 31)]}])
    assert [(row["user"], row["_watermark"]) for row in found.topics["late"]] == [
        ("bob", at(40)),
        ("eve", at(40)),
        ("bob", at(40)),
    ]
    assert found.topics["late"].polars["_time"].to_list() == [at(22), at(31), at(22)]


def test_a_corrected_window_is_issued_again() -> None:
    flow = windowed(tumbling(SIZE), correct(HORIZON))
    script = [{"orders": [order("ada", 1)]}, {"orders": [order("ada", 16)]}, {"orders": [order("bob", 2, 5)]}]
    found = run_flow(flow, [*script, Append("orders", [order("eve", 60)]), Process()], drain=False)
    ops = [[(change.op, change.after["total"]) for change in epoch] for epoch in found.changes["windows"]]
    assert ops == [[], [("insert", 1)], [("update", 6)], [("insert", 1)]]


def test_a_window_counts_the_deletions_among_the_changes_of_a_table() -> None:
    """The row that went is long past: the deletion is not, and no window drops it as late."""
    flow = Flow("changes")
    users = flow.table("users", "id int, at timestamp", key="id", time="at")
    ops = users.changes().window(tumbling("10 seconds"), by="_op").agg(n=count())
    flow.view("ops", ops)
    rows = [{"id": number, "at": at(second)} for number, second in enumerate((1, 2, 55))]
    script = [{"users": rows}, Delete("users", 0), Crash(at="commit.begin"), Delete("users", 1)]
    result = run_flow(flow, script)
    found = {(row["_op"], row["window_start"]): row["n"] for row in result.views["ops"]}
    assert found == {("insert", at(0)): 2, ("insert", at(50)): 1, ("delete", at(50)): 2}
    assert result.ledger_of("window")["late_dropped"] == 0
