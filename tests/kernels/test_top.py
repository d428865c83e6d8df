"""Top: the first rows of each group, as SQL's row_number() and rank() say after every epoch."""

from __future__ import annotations

import math
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles.tables import HIDDEN_KINDS, Ops, Play, Row, Table, answer, playing
from riverrun.columns import WEIGHT
from riverrun.errors import Invalid
from riverrun.kernels.top import OrderBy, TopKernel

SCHEMA: dict[str, pl.DataType] = {
    "id": pl.Int64(),
    "shop": pl.String(),
    "n": pl.Int64(),
    "_order0": pl.Float64(),
    "_order1": pl.Int64(),
}
OUTPUTS = ("id", "shop", "n")

directions = st.tuples(st.booleans(), st.booleans())
tops = st.fixed_dictionaries(
    {
        "n": st.integers(1, 4),
        "order": st.one_of(st.tuples(directions), st.tuples(directions, directions)),
        "per": st.sampled_from([("shop",), (), ("shop", "n")]),
        "rank": st.sampled_from([None, "place"]),
        "ties": st.booleans(),
        "spare": st.integers(0, 2),
    }
)
rests = st.tuples(
    st.sampled_from(["x", "y", None]),
    st.sampled_from([1, 2]),
    st.sampled_from([None, 0.0, -0.0, 1.5, 2.5, math.nan, -math.inf]),
    st.sampled_from([1, 2, None]),
    st.integers(0, 2),
)
ids = st.tuples(st.one_of(st.none(), st.integers(0, 12)))
epochs = st.lists(
    st.tuples(st.lists(st.tuples(ids, st.one_of(rests, rests, st.none())), max_size=14), st.booleans()),
    min_size=1,
    max_size=6,
)


def built(drawn: dict[str, Any], **more: Any) -> TopKernel:
    order = tuple(OrderBy(f"_order{number}", *way) for number, way in enumerate(drawn["order"]))
    return TopKernel(**{"key": ("id",), "schema": SCHEMA, "outputs": OUTPUTS, **drawn, "order": order, **more})


def sql(top: TopKernel) -> str:
    order = [
        f"{part.column} {'desc' if part.descending else 'asc'} nulls {'first' if part.nulls_first else 'last'}"
        for part in top.order
    ]
    last = ["_partition", "_offset"] if top.stream else ["id nulls first"]
    number = "rank()" if top.ties else "row_number()"
    over = ", ".join(order if top.ties else order + last)
    per = f"partition by {', '.join(top.per)}" if top.per else ""
    shown = [
        *top.outputs,
        *(["place"] if top.rank else []),
        "_time",
        *(["_partition", "_offset"] if top.stream else []),
    ]
    ranked = f"select *, {number} over ({per} order by {over})::int as place from t"
    return f"select {', '.join(shown)} from ({ranked}) where place <= {top.n}"


def check(top: TopKernel, script: list[tuple[Ops, bool]], on_files: bool) -> None:
    table = Table(SCHEMA, ["id"])
    with playing(top, on_files) as play:
        for ops, backwards in script:
            play.step(one=table.apply(ops, backwards))
            assert play.sum == answer(sql(top), t=table.frame)
            everything = [play.memory[name].scan().select("id", *top.per) for name in top.tables]
            if not on_files:
                assert sum(map(len, everything)) == len(table.rows), "state is not the current rows"


@settings(max_examples=120, deadline=None)
@given(tops, epochs)
def test_equals_sql_after_every_epoch(drawn: dict[str, Any], script: list[tuple[Ops, bool]]) -> None:
    check(built(drawn), script, on_files=False)


@settings(max_examples=20, deadline=None)
@given(tops, epochs)
def test_the_same_on_files(drawn: dict[str, Any], script: list[tuple[Ops, bool]]) -> None:
    check(built(drawn), script, on_files=True)


streamed = st.lists(
    st.tuples(st.lists(st.tuples(st.integers(0, 1), rests, st.integers(0, 3)), max_size=14)), min_size=1, max_size=6
)


def of_stream(rows: list[tuple[Row, int, int, int]]) -> pl.DataFrame:
    """Rows as (values and time, weight, partition, offset)."""
    built_ = [(0, *values, weight, partition, offset) for values, weight, partition, offset in rows]
    return pl.DataFrame(built_, schema={**SCHEMA, **HIDDEN_KINDS}, orient="row").sort("_partition", "_offset")


@settings(max_examples=60, deadline=None)
@given(tops, streamed, st.booleans(), st.booleans())
def test_rows_of_a_stream(drawn: dict[str, Any], script: list[Any], retracts: bool, on_files: bool) -> None:
    top = built(drawn, stream=True, retracts=retracts, key=())
    present: dict[tuple[int, int], Row] = {}
    offset = 0
    with playing(top, on_files) as play:
        for (rows,) in script:
            changes = []
            for partition, values, chance in rows:
                offset += 1
                present[partition, offset] = values
                changes.append((values, 1, partition, offset))
                if retracts and chance == 0:
                    where = sorted(present)[values[4] % len(present)]
                    changes.append((present.pop(where), -1, *where))
            play.step(one=of_stream(changes))
            now = of_stream([(values, 1, *where) for where, values in present.items()])
            assert play.sum == answer(sql(top), t=now)
            if not retracts:
                assert len(play.memory["head"].scan()) == play.sum.total(), "state has more than is shown"


def top_of(n: int, **more: Any) -> TopKernel:
    return built({"n": n, "order": ((True, False),), "per": ("shop",)}, **more)


def test_what_moves_up_is_shown_and_the_ranks_behind_it_change() -> None:
    table, play = Table(SCHEMA, ["id"]), Play(top_of(2, rank="place"))
    play.step(one=table.apply([((number,), ("x", 0, float(number), 0, 0)) for number in range(5)]))
    changes = play.step(one=table.apply([((4,), None)]))
    assert changes.select("id", "place", WEIGHT).rows() == [(4, 1, -1), (3, 2, -1), (3, 1, 1), (2, 2, 1)]
    assert changes.schema["place"] == pl.Int32


def test_a_change_of_what_is_not_shown_is_silent() -> None:
    table, play = Table(SCHEMA, ["id"]), Play(top_of(1))
    play.step(one=table.apply([((1,), ("x", 0, 9.0, 0, 0)), ((2,), ("x", 0, 5.0, 0, 0))]))
    assert play.step(one=table.apply([((2,), ("x", 0, 6.0, 0, 0))])).is_empty()
    assert play.step(one=table.apply([((1,), ("x", 0, 8.0, 0, 0))])).is_empty()


def test_a_huge_group_is_seldom_read_as_a_whole() -> None:
    table, top = Table(SCHEMA, ["id"]), top_of(3)
    play = Play(top)
    play.step(one=table.apply([((number,), ("x", 0, float(number), 0, 0)) for number in range(1000)]))
    rest, read = play.memory["rest"], list[int]()
    probe = rest.probe

    def probed(*asked: Any) -> Any:
        found = probe(*asked)
        read.append(len(found[0]))
        return found

    rest.probe = probed  # type: ignore[method-assign]
    for number in range(999, 799, -1):
        play.step(one=table.apply([((number,), None), ((number - 700,), ("x", 0, float(-number), 0, 0))]))
        assert play.sum == answer(sql(top), t=table.frame)
    assert 0 < sum(found > 0 for found in read) <= 200 / math.isqrt(800) + 1


def test_rows_that_only_come_leave_nothing_behind_the_first() -> None:
    play = Play(top_of(3, stream=True, retracts=False, key=()))
    for epoch in range(20):
        rows = [
            (("xyz"[number % 3], 0, float(number * epoch % 17), 0, 0), 1, 0, epoch * 50 + number)
            for number in range(50)
        ]
        play.step(one=of_stream(rows))
    assert len(play.memory["head"].scan()) == 9
    assert list(play.kernel.tables) == ["head"]


def test_a_retraction_is_refused_where_none_was_announced() -> None:
    play = Play(top_of(3, stream=True, retracts=False, key=()))
    with pytest.raises(Invalid, match="top got a retraction"):
        play.step(one=of_stream([(("x", 0, 1.0, 0, 0), -1, 0, 0)]))


def test_no_rows_and_no_order_are_refused() -> None:
    with pytest.raises(Invalid, match="1 row or more"):
        top_of(0)
    with pytest.raises(Invalid, match="order"):
        built({"n": 1, "order": (), "per": ()}, key=())


def test_a_table_of_one_row() -> None:
    table, play = Table(SCHEMA, []), Play(top_of(2, key=()))
    for number in (1.0, 2.0, 1.0):
        play.step(one=table.apply([((), (0, "x", 0, number, 0, 0))]))
        assert play.sum == answer(sql(top_of(2)), t=table.frame)
    play.step(one=table.apply([((), None)]))
    assert not play.sum


def test_an_epoch_without_rows_has_the_same_columns() -> None:
    for stream in (False, True):
        top = top_of(2, stream=stream, rank="place", key=() if stream else ("id",))
        play = Play(top)
        some = of_stream([(("x", 0, 1.0, 0, 0), 1, 0, 1)])
        assert play.step(one=some).schema == play.step(one=some.clear()).schema
