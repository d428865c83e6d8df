"""Operators of a user's own: exact under any batching and any crash, woken when time comes, and helpful about mistakes."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import riverrun as rr
from oracles.orders import at
from riverrun.errors import Invalid
from riverrun.flow.fingerprint import fingerprints
from riverrun.kernels import apply
from riverrun.runtime.compile.row_id import WAY
from riverrun.state.hashing import hash_columns
from riverrun.testing import Advance, Crash, local, run_flow

SCHEMA = "card string, amount double, at timestamp"
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "card": st.sampled_from(["a", "b", None]),
            "amount": st.integers(0, 9).map(float),
            "at": st.integers(0, 30).map(at),
        }
    ),
    max_size=12,
)
SECOND = at(1) - at(0)


def add_up(state: pl.DataFrame, rows: pl.DataFrame, clock: Any) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Every payment with how many of its card there were before it, and what they come to with it."""
    before = rows.join(state, on="card", how="left", nulls_equal=True, maintain_order="left")
    sums = before.select(
        "card",
        n=pl.col("n").fill_null(0) + pl.int_range(pl.len()).over("card"),
        total=pl.col("total").fill_null(0.0) + pl.col("amount").cum_sum().over("card"),
        _time="_time",
    )
    after = sums.with_columns(n=pl.col("n") + 1).drop("_time").unique("card", keep="last", maintain_order=True)
    return after, sums


def add_up_one(state: dict[str, Any] | None, rows: list[dict[str, Any]], clock: Any) -> tuple[Any, Any]:
    """The same for one card."""
    n, total = (state["n"], state["total"]) if state else (0, 0.0)
    out = []
    for row in rows:
        total += row["amount"]
        out.append({"n": n, "total": total, "_time": row["_time"]})
        n += 1
    return {"n": n, "total": total}, out


def flow_of(step: Any) -> rr.Flow:
    flow = rr.Flow("cards")
    payments = flow.stream("payments", SCHEMA, time="at", lateness="1 hour")
    sums = payments.apply(step, by="card", state="n long, total double", output="card string, n long, total double")
    flow.view("sums", sums)
    flow.view("newest", sums.latest("card"))
    return flow


def expected(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    seen: dict[Any, tuple[int, float]] = {}
    out = []
    for row in rows:
        n, total = seen.get(row["card"], (0, 0.0))
        out.append((row["card"], n, total + row["amount"]))
        seen[row["card"]] = (n + 1, total + row["amount"])
    return sorted(out, key=repr)


@settings(max_examples=15, deadline=None)
@given(ROWS, st.integers(1, 5), st.sampled_from([add_up, rr.per_key(add_up_one)]), st.integers(0, 3))
def test_it_is_exact_in_any_epochs_and_after_crashes(rows: Any, size: int, step: Any, when: int) -> None:
    script: list[Any] = [{"payments": rows[i : i + size]} for i in range(0, len(rows), size)]
    script[when:when] = [Crash(at="host.committed")] if len(script) > when else []
    result = run_flow(flow_of(step), script, shards=3)
    found = sorted(((row["card"], row["n"], row["total"]) for row in result.views["sums"]), key=repr)
    assert found == expected(rows)


def test_a_key_is_woken_when_the_watermark_passes_its_time_and_forgotten_when_it_is_not_given_back() -> None:
    def silent(state: dict[str, Any] | None, rows: list[dict[str, Any]], clock: Any) -> tuple[Any, Any]:
        """A card that was not used for ten seconds."""
        if rows:
            last = max(row["_time"] for row in rows)
            return {"last": last, "_wake": last + 10 * SECOND}, []
        assert state is not None
        assert clock.watermark is None or clock.watermark >= state["_wake"]
        return None, [{"last": state["last"], "_time": state["_wake"]}]

    flow = rr.Flow("cards")
    payments = flow.stream("payments", SCHEMA, time="at")
    quiet = payments.apply(rr.per_key(silent), by="card", state="last timestamp", output="card string, last timestamp")
    flow.view("quiet", quiet)
    pay = {"card": "a", "amount": 1.0, "at": at(0)}
    script: list[Any] = [
        {"payments": [pay, {**pay, "card": "b", "at": at(5)}]},
        {"payments": [{**pay, "at": at(9)}]},  # before it was woken: it is woken later
        Advance("payments", 0, at(14)),
        Advance("payments", 0, at(15)),
        Advance("payments", 0, at(40)),
    ]
    seen = run_flow(flow, script, drain=False)
    found = [[change.after["card"] for change in epoch if change.after] for epoch in seen.changes["quiet"]]
    assert found == [[], [], [], ["b"], ["a"]]
    drained = run_flow(flow, script[:1])
    assert sorted(row["card"] for row in drained.views["quiet"]) == ["a", "b"]


def returns(state: Any, out: Any) -> Any:
    return lambda before, rows, clock: (state(rows), out(rows))


def nothing(rows: pl.DataFrame) -> pl.DataFrame:
    return pl.DataFrame(schema={"card": pl.String, "n": pl.Int64, "total": pl.Float64})


def counted(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.select("card", n=pl.lit(1), total=pl.lit(1.0)).unique()


def of_another_card(rows: pl.DataFrame) -> pl.DataFrame:
    return counted(rows).with_columns(card=pl.lit("x"))


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (lambda state, rows, clock: rows, "must return two Polars frames"),
        (
            lambda state, rows, clock: 1 / 0,
            f"failed, given 1 row, the first with card = a, amount = 1.0, at = {at(0)}, _time = {at(0)}: ZeroDivisionError",
        ),
        (
            rr.per_key(lambda state, rows, clock: (None, [{"n": 1 // (rows[0]["amount"] - 1)}])),
            f"it fails for card = a, given 1 row, the first with amount = 1.0, at = {at(0)}, _time = ",
        ),
        (rr.per_key(lambda state, rows, clock: 3), "it fails for card = a, given 1 row"),
        (returns(lambda rows: rows, nothing), "what to remember has no column 'n', 'total'"),
        (returns(lambda rows: pl.concat([counted(rows)] * 2), nothing), "remembers a key twice"),
        (returns(of_another_card, nothing), "remembers a key that it was not given"),
        (returns(counted, lambda rows: rows), "what to hand on has no column 'n', 'total'"),
        (returns(counted, lambda rows: counted(rows).with_columns(n=pl.lit("x"))), "what to hand on has another type"),
        (returns(counted, of_another_card), "hands on a row without a time, or of a key that it was not given"),
        (rr.per_key(lambda state, rows, clock: 3), "returns what to remember and a list of rows, not 3"),
        (rr.per_key(lambda state, rows, clock: ({"m": 1}, [])), "gave a column 'm'; there are card, n, total, _wake"),
    ],
)
def test_mistakes_of_a_step_are_told_with_its_place(step: Any, message: str) -> None:
    with pytest.raises(Invalid, match=r"test_apply.py:\d+: apply .* by card") as caught:
        run_flow(flow_of(step), {"payments": [{"card": "a", "amount": 1.0, "at": at(0)}]})
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"step": 3}, "apply takes a function, not 3"),
        ({"by": "car"}, "by: there is no column 'car'"),
        ({"state": "n lng"}, "state: "),
        ({"state": "card string"}, "'card' is part of the key"),
        ({"output": "n long"}, "output needs the column 'card'"),
        ({"output": "card int"}, "output needs the column 'card'"),
        ({"state": "_n long"}, "the column name '_n' is reserved"),
    ],
)
def test_refusals(options: dict[str, Any], message: str) -> None:
    stream = rr.Flow("f").stream("payments", SCHEMA, time="at")
    fields = {"step": add_up, "by": "card", "state": "n long", "output": "card string", **options}
    with pytest.raises((Invalid, rr.NotFound), match=r"test_apply.py:\d+: ") as caught:
        stream.apply(**fields)
    assert message in str(caught.value)


def test_a_changed_function_is_another_computation() -> None:
    def prints(step: Any) -> Any:
        return fingerprints(flow_of(step).nodes)

    assert prints(add_up) == prints(add_up)
    assert prints(add_up) != prints(lambda state, rows, clock: (state, rows))
    assert prints(rr.per_key(add_up_one)) != prints(rr.per_key(lambda state, rows, clock: (None, [])))


def silence(state: dict[str, Any] | None, rows: list[dict[str, Any]], clock: Any) -> tuple[Any, Any]:
    """A card of which nothing was heard for ten seconds."""
    if rows:
        last = rows[-1]["_time"]
        return {"last": last, "_wake": last + 10 * SECOND}, []
    assert state is not None
    return {"last": state["last"], "_wake": state["_wake"]}, [{"last": state["last"], "_time": state["_wake"]}]


def test_a_time_that_has_passed_already_wakes_in_the_same_step() -> None:
    flow = rr.Flow("cards")
    payments = flow.stream("payments", SCHEMA, time="at")
    quiet = payments.apply(rr.per_key(silence), by="card", state="last timestamp", output="card string, last timestamp")
    flow.view("quiet", quiet)
    flow.view("windows", quiet.window(rr.tumbling("10 seconds")).agg(n=rr.count()))
    rows = [{"card": "a", "amount": 1.0, "at": at(0)}, {"card": "b", "amount": 1.0, "at": at(100)}]
    together, apart = run_flow(flow, {"payments": rows}), run_flow(flow, [{"payments": [row]} for row in rows])
    assert together.views == apart.views
    assert [row["n"] for row in together.views["windows"]] == [1, 1]
    # a card that gives back the time it was woken at is not woken by it again
    assert [row["card"] for row in run_flow(flow, {"payments": rows}, drain=False).views["quiet"]] == ["a"]


def test_who_never_stops_asking_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apply, "_MOST_ROUNDS", 20)

    def restless(state: Any, rows: Any, clock: Any) -> tuple[Any, Any]:
        time = rows[-1]["_time"] if rows else state["_wake"]
        return {"n": 1, "_wake": time + SECOND / 1_000_000}, []

    flow = rr.Flow("cards")
    flow.view(
        "v", flow.stream("payments", SCHEMA, time="at").apply(rr.per_key(restless), "card", "n int", "card string")
    )
    rows = [{"card": "a", "amount": 1.0, "at": at(0)}, {"card": "b", "amount": 1.0, "at": at(100)}]
    with pytest.raises(Invalid, match="asks to be woken more than 20 times in one step"):
        run_flow(flow, {"payments": rows})


def test_rows_of_two_shards_have_different_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys whose hashes differ in the bit that decides the shard, and agree in those above."""
    keys = pl.DataFrame({"k": np.arange(300_000)})
    upper = hash_columns(keys, ["k"]) >> np.uint64(32)
    order = np.argsort(upper)
    near = np.flatnonzero((upper[order][1:] ^ upper[order][:-1]) == 1)[0]
    rows = [{"k": int(k), "at": at(0)} for k in order[near : near + 2]]
    flow = rr.Flow("same")
    same = flow.stream("s", "k long, at timestamp", time="at").apply(
        lambda state, rows, clock: (state.clear(), rows.select("k")), by="k", state="x int", output="k long"
    )
    flow.view("rows", same)
    monkeypatch.setattr(local, "compute_epoch", partial(local.compute_epoch, together=False))
    assert len(run_flow(flow, {"s": rows}, shards=2).views["rows"]) == 2


def test_rows_that_come_two_ways_have_different_ids() -> None:
    """Keys whose ids would be the same if a way could turn one into the other."""
    upper = hash_columns(pl.DataFrame({"k": np.arange(300_000)}), ["k"]) >> np.uint64(32)
    places = {int(value): key for key, value in enumerate(upper >> np.uint64(1))}
    one, other = next((key, places[value + WAY]) for value, key in places.items() if value + WAY in places)
    flow = rr.Flow("twice")
    same = flow.stream("s", "k long, at timestamp", time="at").apply(
        lambda state, rows, clock: (state.clear(), rows.select("k")), by="k", state="x int", output="k long"
    )
    flow.view("rows", same.union(same))
    result = run_flow(flow, {"s": [{"k": one, "at": at(0)}, {"k": other, "at": at(0)}]})
    assert sorted(row["k"] for row in result.views["rows"]) == sorted([one, one, other, other])


def test_a_row_without_a_time_beside_one_with_a_time() -> None:
    def both(state: Any, rows: Any, clock: Any) -> tuple[Any, Any]:
        return None, [{"n": 1, "_time": at(5)}, {"n": 2}]

    flow = rr.Flow("cards")
    said = flow.stream("payments", SCHEMA, time="at").apply(rr.per_key(both), "card", "x int", "card string, n int")
    flow.view("v", said.select("n", "_time as time"))
    rows = run_flow(flow, {"payments": [{"card": "a", "amount": 1.0, "at": at(2)}]}).views["v"]
    assert {row["n"]: row["time"] for row in rows} == {1: at(5), 2: at(2)}
