"""The first rows of each group, through the public interface: equal to SQL's after every epoch."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

import riverrun as rr
from oracles.histories import CRASHES, Epoch, Kept, after_each, check_every_epoch, counted, histories
from oracles.orders import ORDERS, SCHEMA, examples
from riverrun.testing import assert_same_as_batch, run_flow

PLAYERS = Kept(
    "id int, team string, points int",
    ("id",),
    {
        "id": st.integers(0, 9),
        "team": st.sampled_from(["x", "y", None]),
        "points": st.one_of(st.none(), st.integers(0, 3)),
    },
)
TEAMS = Kept(
    "team string, city string", ("team",), {"team": st.sampled_from("xyz"), "city": st.sampled_from(["Oslo", "Rome"])}
)
BOTH = {"players": PLAYERS, "teams": TEAMS}
ORDER = "order by points desc nulls last, id"


@given(histories(BOTH, size=8), st.integers(1, 3), CRASHES)
@examples(8)
def test_ranks_and_ties_of_a_table(epochs: list[Epoch], n: int, crashes: dict[int, str]) -> None:
    flow = rr.Flow("game")
    players = flow.table("players", PLAYERS.schema, key="id")
    teams = flow.table("teams", TEAMS.schema, key="team")
    flow.view("first", players.top(n, "points desc, id", per="team", rank="place"))
    flow.view("ties", players.top(n, "points desc nulls last", per="team", rank="place", ties=True))
    flow.view("all", players.top(n, "points desc, id").drop("team"))
    placed = players.join(teams, "team", how="left")
    flow.view("cities", placed.top(n, "points nulls last, id desc", per="city"))
    flow.view("winners", players.top(1, "points desc, id", per="team").group("points").agg(teams=rr.count()))
    first = f"select *, row_number() over (partition by team {ORDER}) as place from players qualify place <= {n}"
    ties = "rank() over (partition by team order by points desc nulls last) as place"
    sql = {
        "first": first,
        "ties": f"select *, {ties} from players qualify place <= {n}",
        "all": f"select id, points from players {ORDER} limit {n}",
        "cities": "select team, id, points, city from players left join teams using (team) qualify row_number() over "
        f"(partition by city order by points nulls last, id desc) <= {n}",
        "winners": "select points, count(*) as teams from (from players qualify row_number() over "
        f"(partition by team {ORDER}) = 1) group by points",
    }
    check_every_epoch(flow, BOTH, epochs, sql, crashes)


@given(ORDERS, st.integers(1, 3), st.integers(0, 99))
@examples(6)
def test_ranks_and_ties_of_a_stream(rows: list[Any], n: int, seed: int) -> None:
    flow = rr.Flow("shop")
    rows = [dict(row, n=number) for number, row in enumerate(rows)]
    orders = flow.stream("orders", SCHEMA, time="at", key="user", lateness="8 seconds")
    flow.view("largest", orders.top(n, "amount desc, n", per="item", rank="place"))
    flow.view("newest", orders.top(n, "at desc", per="user", rank="place", ties=True))
    sql = {
        "largest": "select *, row_number() over (partition by item order by amount desc nulls last, n) as place "
        f"from orders qualify place <= {n}",
        "newest": f'select *, rank() over (partition by user order by "at" desc) as place from orders qualify place <= {n}',
    }
    assert_same_as_batch(flow, {"orders": rows}, sql, seed=seed, times=2, partitions=2)


@given(ORDERS, histories({"teams": TEAMS}), st.integers(0, 99))
@examples(6)
def test_tops_of_streams_in_joins_and_unions(rows: list[Any], epochs: list[Epoch], seed: int) -> None:
    """Rows of a stream are told apart by where they stand in the log, further on, too."""
    flow = rr.Flow("shop")
    rows = [dict(row, n=number, user="xyz"[number % 3]) for number, row in enumerate(rows)]
    top = (
        flow.stream("orders", SCHEMA, time="at", lateness="8 seconds").select("user", "n").top(2, "n desc", per="user")
    )
    teams = flow.table("teams", TEAMS.schema, key="team")
    flow.view("joined", top.join(teams, {"user": "team"}, how="full"))
    flow.view("again", top.join(top, "user").top(3, "n, n_right desc", per="user").select("user", "n", "n_right"))
    united = teams.select("team as user", "length(city) as n").union(top.select("user", "cast(n as int) as n"))
    flow.view("united", united)
    flow.view("both", teams.join(united, {"team": "user"}, how="left"))
    first = "(select user, n from orders qualify row_number() over (partition by user order by n desc) <= 2)"
    union = f"(select team as user, length(city) as n from teams union all from {first})"
    sql = {
        "joined": f"select coalesce(user, team) as user, n, city from {first} full join teams on user = team",
        "again": f"select user, a.n, b.n as n_right from {first} a join {first} b using (user) "
        "qualify row_number() over (partition by user order by a.n, b.n desc) <= 3",
        "united": f"from {union}",
        "both": f"select team, city, n from teams left join {union} on team = user",
    }
    inputs = {"orders": rows, "teams": [row for epoch in epochs for row in epoch["teams"]]}
    assert_same_as_batch(flow, inputs, sql, seed=seed, times=3, partitions=2)


@given(histories(BOTH), CRASHES)
@examples(6)
def test_changes_add_up_to_the_table(epochs: list[Epoch], crashes: dict[int, str]) -> None:
    """What `changes()` says of a join, carried out in order, gives the join; each says what really was before."""
    flow = rr.Flow("game")
    players = flow.table("players", PLAYERS.schema, key="id")
    placed = players.join(flow.table("teams", TEAMS.schema, key="team"), "team", how="left")
    flow.view("placed", placed)
    flow.view("changes", placed.changes())
    flow.view("ops", placed.changes().group("_op").agg(rows=rr.count()))
    sql = {"placed": "select team, id, points, city from players left join teams using (team)"}
    found = check_every_epoch(flow, BOTH, epochs, sql, crashes)
    held = counted([])
    for number, changes in enumerate(found.changes["changes"]):
        rows = [change.after for change in changes if change.after is not None]
        assert [change.op for change in changes] == ["insert"] * len(rows), "a stream keeps its rows"
        for row in rows:
            assert (row["_before"] is None, row["_after"] is None) == {
                "insert": (True, False),
                "update": (False, False),
                "delete": (False, True),
            }[row["_op"]]
        gone = counted([row["_before"] for row in rows if row["_before"] is not None])
        assert gone <= held
        held = held - gone + counted([row["_after"] for row in rows if row["_after"] is not None])
        assert held == after_each(found, "placed")[number]
    assert sum(row["rows"] for row in found.views["ops"]) == len(found.views["changes"])


def test_a_union_of_the_top_of_a_stream_and_the_top_of_that() -> None:
    """The one's rows are told apart by their position in the log, the other's bring that along."""
    flow = rr.Flow("office")
    highest = flow.stream("numbers", "n int").top(3, "n desc")
    both = highest.union(highest.top(1, "n desc"))
    flow.view("both", both)
    flow.view("count", both.group().agg(rows=rr.count()))
    flow.view("last", both.top(1, "n", ties=True))
    found = run_flow(flow, {"numbers": [{"n": n} for n in range(5)]}).views
    assert sorted(row["n"] for row in found["both"]) == [2, 3, 4, 4]
    assert found["count"] == [{"rows": 4}]
    assert found["last"] == [{"n": 2}]
