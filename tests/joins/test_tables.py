"""Joins of tables, through the public interface: after every epoch they equal SQL's over the tables as they are."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import riverrun as rr
from oracles.histories import CRASHES, Epoch, Kept, Tables, check_every_epoch, counted, crashing, histories
from oracles.orders import ORDERS, SCHEMA, at, examples
from riverrun.testing import Crash, Delete, assert_same_as_batch, assert_same_batching, run_flow
from riverrun.views import Epoch as ViewEpoch
from riverrun.views import View, ViewSpec, open_store

SMALL = st.integers(0, 3)
KEYS = st.sampled_from(["x", "y", None])
PEOPLE = Kept("id int, team string, age int", ("id",), {"id": SMALL, "team": KEYS, "age": st.integers(0, 2)})
ROOMS = Kept("room int, team string, age bigint", ("room",), {"room": SMALL, "team": KEYS, "age": st.integers(0, 2)})
PRICES = Kept(
    "floor bigint, price int, note string",
    ("floor",),
    {"floor": st.integers(0, 2), "price": st.one_of(st.none(), SMALL), "note": KEYS},
)
TWO = {"people": PEOPLE, "rooms": ROOMS}
THREE = {**TWO, "prices": PRICES}
SHARDS = st.sampled_from([1, 2])


def declared(flow: rr.Flow, name: str) -> Any:
    return flow.table(name, THREE[name].schema, key=list(THREE[name].key))


@given(histories(TWO), CRASHES, SHARDS)
@examples(10)
def test_inner_left_and_full_on_a_column_that_changes(
    epochs: list[Epoch], crashes: dict[int, str], shards: int
) -> None:
    """Many to many; keys of the join change, and may be null."""
    flow = rr.Flow("office")
    people, rooms = declared(flow, "people"), declared(flow, "rooms")
    sql = {}
    for how in ("inner", "left", "full"):
        flow.view(how, people.join(rooms, "team", how=how))
        sql[how] = f"select team, id, p.age, room, r.age as age_right from people p {how} join rooms r using (team)"
    check_every_epoch(flow, TWO, epochs, sql, crashes, shards=shards)


@given(histories(TWO), SHARDS)
@examples(6)
def test_composite_and_renamed_keys_of_other_types(epochs: list[Epoch], shards: int) -> None:
    flow = rr.Flow("office")
    people, rooms = declared(flow, "people"), declared(flow, "rooms")
    sql = {}
    for how in ("inner", "left", "full"):
        flow.view(
            how,
            people.join(rooms.select("room", "team as t", "age + 1 as years"), {"age": "years", "team": "t"}, how=how),
        )
        sql[how] = (
            "select coalesce(p.age, r.age + 1) as age, coalesce(p.team, r.team) as team, id, room from people p "
            f"{how} join rooms r on p.age = r.age + 1 and p.team = r.team"
        )
    check_every_epoch(flow, TWO, epochs, sql, shards=shards)


@given(histories(TWO), SHARDS)
@examples(6)
def test_on_the_keys_of_both_with_conditions_above_and_below(epochs: list[Epoch], shards: int) -> None:
    flow = rr.Flow("office")
    people, rooms = declared(flow, "people").where("age > 0"), declared(flow, "rooms").where("team = 'x'")
    both = people.join(rooms, {"id": "room"}, how="full", suffix="_there")
    flow.view("both", both)
    flow.view("same", both.where("team <=> team_there").select("id", "coalesce(age, age_there) as age"))
    full = (
        "(select coalesce(id, room) as id, p.team, p.age, r.team as team_there, r.age as age_there "
        "from (from people where age > 0) p full join (from rooms where team = 'x') r on id = room)"
    )
    sql = {
        "both": f"from {full}",
        "same": f"select id, coalesce(age, age_there) as age from {full} where team is not distinct from team_there",
    }
    check_every_epoch(flow, TWO, epochs, sql, shards=shards)


@given(
    histories(THREE, size=6),
    st.sampled_from(["inner", "left", "full"]),
    st.sampled_from(["inner", "left", "full"]),
    CRASHES,
)
@examples(8)
def test_chains_of_three_with_aggregates_and_top_above(
    epochs: list[Epoch], first: str, second: str, crashes: dict[int, str]
) -> None:
    flow = rr.Flow("office")
    people, rooms, prices = (declared(flow, name) for name in THREE)
    chain = people.join(rooms, "team", how=first).join(prices, {"room": "floor"}, how=second)
    flow.view("chain", chain)
    by_team = chain.group("team").agg(
        rows=rr.count(), dearest=rr.max("price"), ages=rr.sum("age"), ids=rr.distinct("id")
    )
    flow.view("teams", by_team)
    flow.view("sizes", by_team.group("rows").agg(teams=rr.count()))
    flow.view("best", chain.top(2, "price desc, id, room", per="team"))
    joined = (
        "(select coalesce(room, floor) as room, team, id, age, age_right, price, note from "
        f"(select team, id, p.age, room, r.age as age_right from people p {first} join rooms r using (team)) "
        f"{second} join prices on room = floor)"
    )
    teams = (
        "(select team, count(*) as rows, max(price) as dearest, sum(age) as ages, count(distinct id) as ids "
        f"from {joined} group by team)"
    )
    sql = {
        "chain": f"from {joined}",
        "teams": f"from {teams}",
        "sizes": f"select rows, count(*) as teams from {teams} group by rows",
        "best": f"from {joined} qualify row_number() over (partition by team "
        "order by price desc nulls last, id nulls first, room nulls first) <= 2",
    }
    check_every_epoch(flow, THREE, epochs, sql, crashes)


@given(histories(TWO), SHARDS)
@examples(6)
def test_a_table_with_itself(epochs: list[Epoch], shards: int) -> None:
    flow = rr.Flow("office")
    people = declared(flow, "people")
    flow.view("others", people.join(people, "team", how="left", suffix="_of_other").where("id != id_of_other"))
    flow.view("ages", people.join(people.group("team").agg(oldest=rr.max("age")), "team", how="left"))
    sql = {
        "others": "select team, p.id, p.age, o.id as id_of_other, o.age as age_of_other from people p "
        "left join people o using (team) where p.id != o.id",
        "ages": "select team, id, age, oldest from people left join "
        "(select team, max(age) as oldest from people group by team) using (team)",
    }
    check_every_epoch(flow, {"people": PEOPLE, "rooms": ROOMS}, [*filtered(epochs, "people")], sql, shards=shards)


def filtered(epochs: list[Epoch], name: str) -> list[Epoch]:
    return [{name: epoch[name]} for epoch in epochs if name in epoch] or [{name: [{"id": 1, "team": "x", "age": 1}]}]


@given(histories(THREE), SHARDS)
@examples(6)
def test_unions_of_tables_joined(epochs: list[Epoch], shards: int) -> None:
    """The same key may be in both parts of a union: rows stay apart."""
    flow = rr.Flow("office")
    people, rooms, prices = (declared(flow, name) for name in THREE)
    all_ = people.union(rooms.select("room as id", "team", "cast(age as int) as age"))
    flow.view("priced", all_.join(prices, {"age": "floor"}, how="left"))
    flow.view("pairs", all_.join(all_.where("age > 0"), "team", suffix="_2"))
    flow.view(
        "full", prices.join(all_, {"floor": "id"}, how="full").group("note").agg(rows=rr.count(), ids=rr.sum("floor"))
    )
    union = "(select id, team, age from people union all select room, team, age from rooms)"
    sql = {
        "priced": f"select age, id, team, price, note from {union} left join prices on age = floor",
        "pairs": "select team, a.id, a.age, b.id as id_2, b.age as age_2 "
        f"from {union} a join {union} b using (team) where b.age > 0",
        "full": "select note, count(*) as rows, sum(coalesce(floor, id)) as ids "
        f"from prices full join {union} on floor = id group by note",
    }
    check_every_epoch(flow, THREE, epochs, sql, shards=shards)


@given(histories(THREE), st.sampled_from(["inner", "left", "full"]), CRASHES)
@examples(6)
def test_a_join_written_to_a_topic_and_read_as_a_table(epochs: list[Epoch], how: str, crashes: dict[int, str]) -> None:
    """A derived topic of one flow is a table of another, with tombstones for pairs that are no more."""
    flow = rr.Flow("office")
    pairs = declared(flow, "people").join(declared(flow, "rooms"), "team", how=how).where("age is not null or room > 0")
    flow.view("pairs", pairs)
    flow.topic("pairs-log", pairs, key=["id", "room"])
    first = [{name: rows for name, rows in epoch.items() if name != "prices"} for epoch in epochs]
    at = {number: place for number, place in crashes.items() if number < len(first) and first[number]}
    written = run_flow(flow, crashing(first, at), partitions=2)

    reader = rr.Flow("reader")
    there = reader.table("pairs-log", "team string, id int, age int, room int, age_right bigint", key=["id", "room"])
    reader.view("copy", there)
    priced = there.join(declared(reader, "prices"), {"room": "floor"}, how="left")
    reader.view("priced", priced.group("team").agg(rows=rr.count(), price=rr.sum("price")))
    second = [{"prices": epoch["prices"]} for epoch in epochs if "prices" in epoch]
    read = run_flow(reader, [*second[:1], {"pairs-log": written.topics["pairs-log"]}, *second[1:]], partitions=2)
    assert counted(read.views["copy"]) == counted(written.views["pairs"])
    tables = Tables(THREE)
    for epoch in epochs:
        tables.take(epoch)
    wanted = (
        "select team, count(*) as rows, sum(price) as price from (select team, id, p.age, room from people p "
        f"{how} join rooms r using (team)) left join prices on room = floor where age is not null or room > 0 group by 1"
    )
    assert counted(read.views["priced"]) == tables.ask(wanted)


@given(histories(TWO), st.integers(0, 99))
@examples(5)
def test_epochs_do_not_matter(epochs: list[Epoch], seed: int) -> None:
    flow = rr.Flow("office")
    people, rooms = declared(flow, "people"), declared(flow, "rooms")
    both = people.join(rooms, "team", how="full")
    flow.view("both", both)
    flow.topic("both", both, key=["id", "room"])
    flow.view("teams", both.group("team").agg(rows=rr.count(), mean=rr.avg("age")))
    inputs = {name: [row for epoch in epochs for row in epoch.get(name, [])] for name in TWO}
    assert_same_batching(flow, inputs, seed=seed, times=3)


@given(ORDERS, histories({"prices": PRICES}), st.sampled_from(["final", "update"]), st.integers(0, 99))
@examples(6)
def test_windows_joined_with_a_table(rows: list[Any], epochs: list[Epoch], emit: str, seed: int) -> None:
    """Three stateful nodes in a row: windows, their join, an aggregate of it."""
    flow = rr.Flow("shop")
    orders = flow.stream("orders", SCHEMA, time="at", key="user", lateness="8 seconds")
    windows = orders.window(rr.tumbling("10 seconds"), by="item", emit=emit).agg(rows=rr.count())
    both = windows.join(declared(flow, "prices"), {"rows": "floor"}, how="left")
    flow.view("both", both)
    flow.view("prices", both.group("price").agg(windows=rr.count(), rows=rr.sum("rows")))
    inner = """
        (select rows, item, window_start, window_end, price, note from (
            select item, time_bucket(interval 10 seconds, "at") as window_start,
            window_start + interval 10 seconds as window_end, count(*) as rows from orders group by all)
         left join prices on rows = floor)
    """
    sql = {
        "both": f"from {inner}",
        "prices": f"select price, count(*) as windows, sum(rows) as rows from {inner} group by price",
    }
    inputs = {"orders": rows, "prices": [row for epoch in epochs for row in epoch["prices"]]}
    assert_same_as_batch(flow, inputs, sql, seed=seed, times=2, partitions=2)


def test_rows_of_a_union_stay_apart_through_many_stages() -> None:
    flow = rr.Flow("office")
    people = declared(flow, "people")
    both = people.union(people.where("age > 0"))
    for _ in range(8):
        both = both.top(5, "id, age")
    flow.view("both", both)
    twice = people.join(both.drop("age"), "id", how="left").union(people.join(both.drop("age"), "id", how="full"))
    flow.view("twice", twice.select("id", "team_right"))
    rows = [{"id": 1, "team": "x", "age": 1}, {"id": 2, "team": "y", "age": 0}, {"id": 3, "team": "z", "age": 3}]
    found = run_flow(flow, [{"people": rows}, {"people": [{"id": 1, "team": "x", "age": 2}]}])
    assert sorted(row["id"] for row in found.views["both"]) == [1, 1, 2, 3, 3]
    assert sorted(row["id"] for row in found.views["twice"]) == [1, 1, 1, 1, 2, 2, 3, 3, 3, 3]


def test_a_full_join_keeps_a_row_of_either_side_though_their_keys_are_equal() -> None:
    """Both rows are alone: they differ in a column of `on` that is not in their key."""
    flow = rr.Flow("both")
    a, b = (flow.table(name, "k int, v string", key="k") for name in "ab")
    both = a.join(b, on=["k", "v"], how="full")
    flow.view("rows", both)
    flow.view("first", both.top(5, "v"))
    flow.topic("log", both, key=["k", "v"])
    rows = {"a": [{"k": 1, "v": "x"}], "b": [{"k": 1, "v": "y"}]}
    for script in ([rows], [{"b": rows["b"]}, Crash(at="host.committed"), {"a": rows["a"]}]):
        result = run_flow(flow, script)
        found = [{"k": 1, "v": "x"}, {"k": 1, "v": "y"}]
        assert result.views["rows"] == result.views["first"] == found
        assert sorted(row["v"] for row in result.topics["log"]) == ["x", "y"]


def test_a_full_join_of_two_groups_keeps_the_null_group_of_each() -> None:
    """Null matches nothing, so there are two rows with the key null; each goes by itself."""
    flow = rr.Flow("nulls")
    a, b = (flow.table(name, "k int, g int", key="k").group("g").agg(**{f"n_{name}": rr.count()}) for name in "ab")
    flow.view("rows", a.join(b, on="g", how="full"))
    steps = [{"a": [{"k": 1, "g": None}, {"k": 2, "g": 7}]}, {"b": [{"k": 1, "g": None}]}]
    null_of_a, null_of_b = {"g": None, "n_a": 1, "n_b": None}, {"g": None, "n_a": None, "n_b": 1}
    seven = {"g": 7, "n_a": 1, "n_b": None}
    for script in (steps, [{**steps[0], **steps[1]}], [steps[1], Crash(at="commit.begin"), steps[0]]):
        assert counted(run_flow(flow, script).views["rows"]) == counted([null_of_a, null_of_b, seven])
    assert counted(run_flow(flow, [*steps, Delete("a", 1)]).views["rows"]) == counted([null_of_b, seven])


def test_the_topic_of_a_full_join_keeps_the_row_of_one_side_when_that_of_the_other_goes() -> None:
    """Its key is null on both sides. The topic has one row for it: the left's, and the right's where there is no other."""
    flow = rr.Flow("nulls")
    a, b = (flow.table(name, "k int, g int", key="k").group("g").agg(**{f"n_{name}": rr.count()}) for name in "ab")
    flow.topic("log", a.join(b, on="g", how="full"), key="g")
    null = {"k": 1, "g": None}
    left, right = {"g": None, "n_a": 1, "n_b": None}, {"g": None, "n_a": None, "n_b": 1}
    for first in ([{"a": [null], "b": [null]}], [{"a": [null]}, {"b": [null]}], [{"b": [null]}, {"a": [null]}]):
        for gone, stays in (("a", right), ("b", left)):
            assert run_flow(flow, [*first, Delete(gone, 1)]).topics["log"][-1] == stays
        assert run_flow(flow, [*first, Delete("b", 1), Delete("a", 1)]).topics["log"][-1]["_deleted"]


def test_a_full_join_is_looked_up_by_its_visible_key(tmp_path: Path) -> None:
    flow = rr.Flow("both")
    a, b = (flow.table(name, f"k int, {name} int", key="k") for name in "ab")
    both = a.join(b, on="k", how="full")
    flow.view("rows", both)
    flow.view("found", flow.stream("s", "k int").join(both, on="k", how="left"), key="k")
    rows = {"a": [{"k": 1, "a": 5}], "b": [{"k": 2, "b": 6}], "s": [{"k": 1}, {"k": 2}, {"k": 3}]}
    wanted = [{"k": 1, "a": 5, "b": None}, {"k": 2, "a": None, "b": 6}, {"k": 3, "a": None, "b": None}]
    assert run_flow(flow, rows).views["found"] == wanted
    spec = ViewSpec("rows", "both", "k int, a int, _side tinyint", key=("k", "_side"), hidden=("_side",))
    with open_store(str(tmp_path / "views.db")) as store:
        fence = store.take_fence("both")
        store.declare(spec)
        changes = pa.table({"k": [1, 2], "a": [5, 6], "_side": [0, 1], "_weight": [1, 1]})
        store.commit(ViewEpoch("both", fence, 1, {}, {"rows": changes}))
        view = View(store, "rows")
        assert [view.get(1), view.get({"k": 2}), view.get(3)] == [{"k": 1, "a": 5}, {"k": 2, "a": 6}, None]


@pytest.mark.parametrize("how", ["inner", "left", "full"])
def test_a_join_of_numbers_that_their_common_type_cannot_hold_rounds_as_spark_does(how: str) -> None:
    """One long beyond 2^53, or one wide decimal, is no reason to stop."""
    flow = rr.Flow("mixed")
    a, b = flow.table("a", "k int, x long", key="k"), flow.table("b", "k int, x double", key="k")
    wide, fine = flow.table("c", "k int, x decimal(38,0)", key="k"), flow.table("d", "k int, x decimal(38,20)", key="k")
    flow.view("floats", a.join(b, on="x", how=how))
    flow.view("decimals", wide.join(fine, on="x", how=how))
    large = Decimal(10) ** 30
    rows = {
        "a": [{"k": 1, "x": 2**53 + 1}, {"k": 2, "x": 7}],
        "b": [{"k": 1, "x": 2.0**53}, {"k": 2, "x": 7.0}],
        "c": [{"k": 1, "x": large}, {"k": 2, "x": Decimal(5)}],
        "d": [{"k": 2, "x": Decimal(5)}],
    }
    result = run_flow(flow, rows)
    assert [(row["k"], row["k_right"]) for row in result.views["floats"]] == [(1, 1), (2, 2)]
    pairs = [(row["k"], row["k_right"]) for row in result.views["decimals"]]
    assert pairs == ([(2, 2)] if how == "inner" else [(1, None), (2, 2)])


def test_joins_of_streams_lookups_and_as_of_round_a_long_beyond_2_to_the_53_too() -> None:
    flow = rr.Flow("mixed")
    asked = flow.stream("asked", "k int, x long, at timestamp", time="at")
    told = flow.stream("told", "x double, y int, at timestamp", time="at")
    for name, joined in {
        "streams": asked.join(told, on="x", within="1 minute"),
        "lookup": asked.join(told.latest("x"), on="x"),
        "as_of": asked.as_of(told.latest("x"), on="x"),
    }.items():
        flow.view(name, joined.select("k", "y"))
    moment = at(0)
    steps = [{"told": [{"x": 2.0**53, "y": 7, "at": moment}]}, {"asked": [{"k": 1, "x": 2**53 + 1, "at": moment}]}]
    views = run_flow(flow, steps).views
    assert views["streams"] == views["lookup"] == views["as_of"] == [{"k": 1, "y": 7}]


def test_full_joins_of_full_joins() -> None:
    """Each has a side of its own in the key, through changes, top, a union and a topic."""
    flow = rr.Flow("chain")
    a, b, c = (flow.table(name, f"k int, {name} int", key="k") for name in "abc")
    both = a.join(b, on="k", how="full")
    every = both.join(c, on="k", how="full")
    flow.view("rows", every)
    flow.view("first", every.top(9, "k"))
    flow.view("twice", every.union(every).group("k").agg(n=rr.count()))
    flow.view("pairs", both.join(both.select("k", "a as other"), on="k", how="full"))
    flow.view("ops", every.changes().group("_op").agg(n=rr.count()))
    flow.topic("log", every, key="k")
    script = [
        {"a": [{"k": 1, "a": 1}], "b": [{"k": 2, "b": 2}]},
        {"c": [{"k": 3, "c": 3}, {"k": 1, "c": 4}]},
        Crash(at="host.committed"),
        Delete("a", 1),
    ]
    result = run_flow(flow, script, shards=3)
    rows = [(1, None, None, 4), (2, None, 2, None), (3, None, None, 3)]
    for name in ("rows", "first"):
        assert [(row["k"], row["a"], row["b"], row["c"]) for row in result.views[name]] == rows
    assert [(row["k"], row["n"]) for row in result.views["twice"]] == [(1, 2), (2, 2), (3, 2)]
    assert [(row["k"], row["b"], row["other"]) for row in result.views["pairs"]] == [(2, 2, None)]
    # a row that loses a partner, and one that finds one, is the same row
    assert {row["_op"]: row["n"] for row in result.views["ops"]} == {"insert": 3, "update": 2}
    newest = {row["k"]: row for row in result.topics["log"]}
    assert sorted(newest) == [1, 2, 3] and not any("_deleted" in row for row in newest.values())
