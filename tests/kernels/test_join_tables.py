"""Joins of tables: SQL's join of the two current tables after every epoch, whatever happened in between."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles.tables import Ops, Play, Row, Table, answer, playing
from riverrun.columns import WEIGHT
from riverrun.errors import Invalid
from riverrun.kernels.aggregates import Agg, Aggregates
from riverrun.kernels.group import GroupKernel
from riverrun.kernels.join_tables import JoinTablesKernel
from riverrun.kernels.sides import JoinOutput, Sides
from riverrun.state.directory import files_of

HOWS = ("inner", "left", "full")


@dataclass(frozen=True)
class Case:
    """Two tables and how they are joined; keys come first among their columns."""

    sides: Sides
    left_key: tuple[str, ...]
    right_key: tuple[str, ...]

    def kernel(self, how: str) -> JoinTablesKernel:
        return JoinTablesKernel(self.sides, how, self.left_key, self.right_key)

    def sql(self, how: str) -> str:
        theirs = dict(zip(self.sides.left_on, self.sides.right_on, strict=True))
        alias = {"left": "l", "right": "r"}
        columns = [
            f"coalesce(l.{part.column}, r.{theirs[part.column]})"
            if part.side == "key"
            else f"{alias[part.side]}.{part.column}"
            for part in self.sides.outputs
        ]
        equal = " and ".join(f"l.{mine} = r.{other}" for mine, other in theirs.items())
        return f"select {', '.join(columns)}, coalesce(l._time, r._time) from l {how} join r on {equal}"


def outputs(left: Sequence[str], right: Sequence[str], **key: str) -> tuple[JoinOutput, ...]:
    return (
        *(JoinOutput(name, "key", column) for name, column in key.items()),
        *(JoinOutput(name, "left", name) for name in left),
        *(JoinOutput(f"{name}_right" if name in left else name, "right", name) for name in right),
    )


INT, REAL, TEXT = pl.Int64(), pl.Float64(), pl.String()
CASES = {
    "many to many": Case(
        Sides(
            ("a",),
            ("b",),
            {"id": INT, "a": TEXT, "x": REAL},
            {"id": INT, "b": TEXT, "y": REAL},
            outputs(["id", "x"], ["id", "y"], a="a"),
        ),
        ("id",),
        ("id",),
    ),
    "many to one": Case(
        Sides(
            ("a",),
            ("b",),
            {"id": INT, "a": TEXT, "x": REAL},
            {"b": TEXT, "y": REAL},
            outputs(["id", "x"], ["y"], a="a"),
        ),
        ("id",),
        ("b",),
    ),
    "one to one, renamed": Case(
        Sides(("a",), ("b",), {"a": TEXT, "x": REAL}, {"b": TEXT, "y": REAL}, outputs(["x"], ["y"], key="a")),
        ("a",),
        ("b",),
    ),
    "composite": Case(
        Sides(
            ("a", "x"),
            ("b", "y"),
            {"id": INT, "a": TEXT, "x": REAL},
            {"id": INT, "b": TEXT, "y": REAL},
            outputs(["id"], ["id"], a="a", x="x"),
        ),
        ("id",),
        ("id",),
    ),
}
VALUES = {
    INT: st.sampled_from([None, 1, 2, 3, 4]),
    TEXT: st.sampled_from(["p", "q", None]),
    REAL: st.sampled_from([None, 0.0, -0.0, 1.5, math.nan]),
}


def ops(schema: dict[str, pl.DataType], key: tuple[str, ...]) -> st.SearchStrategy[Ops]:
    keys = st.tuples(*(VALUES[schema[name]] for name in key))
    rest = st.tuples(*(VALUES[kind] for name, kind in schema.items() if name not in key), st.integers(0, 3))
    return st.lists(st.tuples(keys, st.one_of(rest, rest, st.none())), max_size=8)


def epochs(case: Case) -> st.SearchStrategy[list[tuple[Ops, Ops, bool]]]:
    sides = case.sides
    left, right = ops(dict(sides.left), case.left_key), ops(dict(sides.right), case.right_key)
    return st.lists(st.tuples(left, right, st.booleans()), min_size=1, max_size=6)


def check(case: Case, how: str, script: list[tuple[Ops, Ops, bool]], on_files: bool) -> None:
    left, right = Table(case.sides.left, case.left_key), Table(case.sides.right, case.right_key)
    with playing(case.kernel(how), on_files) as play:
        for of_left, of_right, backwards in script:
            play.step(left=left.apply(of_left, backwards), right=right.apply(of_right, backwards))
            assert play.sum == answer(case.sql(how), l=left.frame, r=right.frame)


@pytest.mark.parametrize("name", CASES)
@settings(max_examples=40, deadline=None)
@given(data=st.data(), how=st.sampled_from(HOWS))
def test_equals_the_sql_join_after_every_epoch(name: str, data: st.DataObject, how: str) -> None:
    check(CASES[name], how, data.draw(epochs(CASES[name])), on_files=False)


@settings(max_examples=15, deadline=None)
@given(data=st.data(), how=st.sampled_from(HOWS), name=st.sampled_from(sorted(CASES)))
def test_the_same_on_files(data: st.DataObject, how: str, name: str) -> None:
    check(CASES[name], how, data.draw(epochs(CASES[name])), on_files=True)


ORDERS = {"id": INT, "user": TEXT, "amount": INT}
USERS = {"user": TEXT, "city": TEXT, "name": TEXT}
CITIES = {"town": TEXT, "tax": INT}
WITH_USERS = Sides(("user",), ("user",), ORDERS, USERS, outputs(["id", "amount"], ["city", "name"], user="user"))
BOUGHT = {"user": TEXT, "id": INT, "amount": INT, "city": TEXT, "name": TEXT}
WITH_CITIES = Sides(
    ("city",), ("town",), BOUGHT, CITIES, outputs(["user", "id", "amount", "name"], ["tax"], city="city")
)
TOTALS = Aggregates(
    (Agg("n", "count"), Agg("total", "sum", "amount"), Agg("tax", "max", "tax")), {**BOUGHT, **CITIES}, retracts=True
)
SMALL = st.sampled_from(["p", "q", None])
changed = st.lists(
    st.tuples(
        st.lists(
            st.tuples(
                st.tuples(st.integers(0, 5)), st.one_of(st.none(), st.tuples(SMALL, st.integers(0, 3), st.just(0)))
            ),
            max_size=5,
        ),
        st.lists(st.tuples(st.tuples(SMALL), st.one_of(st.none(), st.tuples(SMALL, SMALL, st.just(0)))), max_size=3),
        st.lists(
            st.tuples(st.tuples(SMALL), st.one_of(st.none(), st.tuples(st.integers(0, 2), st.just(0)))), max_size=3
        ),
    ),
    min_size=1,
    max_size=6,
)


@settings(max_examples=40, deadline=None)
@given(changed, st.sampled_from(HOWS), st.sampled_from(HOWS))
def test_three_tables_and_groups_on_top(script: list[tuple[Ops, Ops, Ops]], first: Any, second: Any) -> None:
    orders, users, cities = Table(ORDERS, ["id"]), Table(USERS, ["user"]), Table(CITIES, ["town"])
    bought = Play(JoinTablesKernel(WITH_USERS, first, ("id",), ("user",)))
    taxed = Play(JoinTablesKernel(WITH_CITIES, second, ("id", "user"), ("town",)))
    schema = {"city": TEXT, "amount": INT, "tax": INT}
    totals = Play(GroupKernel(("city",), TOTALS, schema))
    joined = f"""
        select coalesce(b.city, c.town) as city, b.user, id, amount, name, tax, coalesce(b.time, c._time) as time
        from (
            select coalesce(o.user, u.user) as user, id, amount, city, name, coalesce(o._time, u._time) as time
            from o {first} join u on o.user = u.user
        ) b {second} join c on b.city = c.town
    """
    for of_orders, of_users, of_cities in script:
        pairs = bought.step(left=orders.apply(of_orders), right=users.apply(of_users))
        rows = taxed.step(left=pairs, right=cities.apply(of_cities))
        totals.step(one=rows)
        now = {"o": orders.frame, "u": users.frame, "c": cities.frame}
        assert taxed.sum == answer(joined, **now)
        grouped = f"select city, count(*), sum(amount)::bigint, max(tax), max(time) from ({joined}) group by city"
        assert totals.sum == answer(grouped, **now)


def table_of(case: Case, side: str) -> Table:
    return Table(case.sides.left, case.left_key) if side == "left" else Table(case.sides.right, case.right_key)


def stepped(how: str, *epochs: tuple[Ops, Ops]) -> list[list[Row]]:
    """The changes of each epoch."""
    case = CASES["many to one"]
    left, right = table_of(case, "left"), table_of(case, "right")
    play = Play(case.kernel(how))
    steps = [play.step(left=left.apply(ours), right=right.apply(theirs)) for ours, theirs in epochs]
    return [step.select("a", "id", "x", "y", "_time", WEIGHT).rows() for step in steps]


def test_an_update_of_both_sides_in_one_epoch_is_one_change() -> None:
    first = [((1,), ("p", 1.0, 10))], [(("p",), (5.0, 20))]
    second = [((1,), ("p", 2.0, 11))], [(("p",), (6.0, 21))]
    assert stepped("inner", first, second)[1] == [("p", 1, 1.0, 5.0, 10, -1), ("p", 1, 2.0, 6.0, 11, 1)]


def test_a_row_without_partner_is_replaced_when_the_partner_comes() -> None:
    ours, theirs = [((1,), ("p", 1.0, 10))], [(("p",), (5.0, 20))]
    assert stepped("left", (ours, []), ([], theirs), ([], [(("p",), None)])) == [
        [("p", 1, 1.0, None, 10, 1)],
        [("p", 1, 1.0, None, 10, -1), ("p", 1, 1.0, 5.0, 10, 1)],
        [("p", 1, 1.0, 5.0, 10, -1), ("p", 1, 1.0, None, 10, 1)],
    ]


def test_a_partner_that_has_only_nulls_changes_nothing() -> None:
    ours, theirs = [((1,), ("p", 1.0, 10))], [(("p",), (None, 20))]
    assert stepped("left", (ours, []), ([], theirs), ([], [(("p",), (1.0, 20))])) == [
        [("p", 1, 1.0, None, 10, 1)],
        [],
        [("p", 1, 1.0, None, 10, -1), ("p", 1, 1.0, 1.0, 10, 1)],
    ]


def test_the_key_of_a_full_join_is_that_of_either_side() -> None:
    ours, theirs = [((1,), ("p", 1.0, 10))], [(("q",), (5.0, 20)), ((None,), (6.0, 30))]
    assert stepped("full", (ours, theirs)) == [
        [(None, None, None, 6.0, 30, 1), ("q", None, None, 5.0, 20, 1), ("p", 1, 1.0, None, 10, 1)]
    ]


def test_changes_that_cancel_within_an_epoch_are_no_changes() -> None:
    there_and_back = [((1,), ("p", 1.0, 10)), ((1,), ("q", 2.0, 11)), ((1,), None)]
    assert stepped("full", (there_and_back, []), (there_and_back, there_and_back[:0])) == [[], []]


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("name", CASES)
def test_state_holds_the_current_rows_only(name: str, how: str) -> None:
    case = CASES[name]
    kernel = case.kernel(how)
    left, right = table_of(case, "left"), table_of(case, "right")
    play = Play(kernel)
    for number in range(30):
        values = {INT: 1, TEXT: "pq"[number % 2], REAL: float(number)}
        for side in (left, right):
            key = tuple({INT: 1, TEXT: "p", REAL: 0.0}[side.schema[name]] for name in side.key)
            rest = [values[kind] for name, kind in side.schema.items() if name not in side.key]
            update: Ops = [(key, (*rest, number))]
            play.step(
                left=left.apply(update if side is left else []), right=right.apply(update if side is right else [])
            )
    assert all(len(play.memory[table].scan()) == 1 for table in kernel.tables)


def test_a_key_column_named_twice_is_refused() -> None:
    sides = Sides(("a", "a"), ("b", "c"), {"a": TEXT}, {"b": TEXT, "c": TEXT}, outputs([], [], a="a"))
    with pytest.raises(Invalid, match="twice"):
        JoinTablesKernel(sides, "inner", ("a",), ("b",))


def test_a_row_that_changes_thirty_thousand_times_in_an_epoch_is_one_change(tmp_path: Path) -> None:
    case = CASES["many to many"]
    left, right = table_of(case, "left"), table_of(case, "right")
    play = Play(case.kernel("left"), str(tmp_path))
    play.step(left=left.apply([((1,), ("p", 0.0, 0))]), right=right.apply([((1,), ("p", 0.0, 0))]))
    for _ in range(3):
        updates: Ops = [((1,), ("pq"[number % 2], float(number), number)) for number in range(1, 30_001)]
        changes = play.step(left=left.apply(updates), right=right.apply([]))
        assert play.sum == answer(case.sql("left"), l=left.frame, r=right.frame)
        assert len(changes) == 2 or changes.is_empty()
    assert sum(len(play.memory[table].scan()) for table in play.kernel.tables) == 3
    assert not any(map(files_of, play.entries.values())), "what fits into the manifest is in no file"


@pytest.mark.parametrize("how", HOWS)
def test_an_epoch_reads_the_partners_of_what_changed_and_nothing_else(how: str) -> None:
    case = CASES["many to many"]
    left, right = table_of(case, "left"), table_of(case, "right")
    play = Play(case.kernel(how))
    crowd: Ops = [((number,), ("p", 1.0, 0)) for number in range(500)]
    play.step(left=left.apply(crowd), right=right.apply([((0,), ("p", 1.0, 0)), ((1,), ("q", 1.0, 0))]))
    read: Counter[str] = Counter()
    for name in ("left", "right"):
        count_reads(play.memory[name], name, read)
    # one of many rows at a join key: its partner is read, its neighbours are not
    play.step(left=left.apply([((7,), ("p", 2.0, 0))]), right=right.apply([]))
    assert +read == {"right": 1}
    # that partner moves away: all that it was beside are read, once
    play.step(left=left.apply([]), right=right.apply([((0,), ("q", 1.0, 0))]))
    assert +read == {"right": 1, "left": 500}
    assert play.sum == answer(case.sql(how), l=left.frame, r=right.frame)


def count_reads(table: Any, name: str, read: Counter[str]) -> None:
    probe = table.probe

    def probed(*asked: Any) -> Any:
        found = probe(*asked)
        read[name] += len(found[0])
        return found

    table.probe = probed


def test_a_right_join_is_refused() -> None:
    with pytest.raises(Invalid, match="inner, left or full"):
        CASES["many to one"].kernel("right")


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("name", CASES)
def test_an_epoch_without_rows_has_the_same_columns(name: str, how: str) -> None:
    case = CASES[name]
    left, right = table_of(case, "left"), table_of(case, "right")
    play = Play(case.kernel(how))
    key = tuple({INT: 1, TEXT: "p", REAL: 0.0}[left.schema[part]] for part in left.key)
    rest = [{INT: 1, TEXT: "p", REAL: 0.0}[kind] for part, kind in left.schema.items() if part not in left.key]
    some = play.step(left=left.apply([(key, (*rest, 0))]), right=right.apply([]))
    assert some.schema == play.step(left=left.apply([]), right=right.apply([])).schema


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(*(st.sampled_from([None, "p", "q", "unchanged"]) for _ in range(2))), max_size=8),
    st.sampled_from(HOWS),
)
def test_tables_of_one_row(script: list[tuple[str | None, ...]], how: str) -> None:
    sides = CASES["one to one, renamed"].sides
    case = Case(sides, (), ())
    left, right = Table(sides.left, ()), Table(sides.right, ())
    play = Play(case.kernel(how))
    for number, keys in enumerate(script):
        ops_: list[Ops] = [
            [] if key == "unchanged" else [((), None if key is None else (key, float(number), number))] for key in keys
        ]
        play.step(left=left.apply(ops_[0]), right=right.apply(ops_[1]))
        assert play.sum == answer(case.sql(how), l=left.frame, r=right.frame)
