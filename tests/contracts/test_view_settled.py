"""Changes settled before they come to a store: written as they are, with the same effect as the rows they were made of."""

from __future__ import annotations

import itertools

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from contracts.view_flow import SCHEMA, ViewFlow, contents, revenue, rows, weighted
from oracles.view_steps import steps
from oracles.views import ViewOracle
from riverrun.errors import Conflict, Fenced, Invalid, NotFound
from riverrun.views import Settled, View, ViewSpec, keyed_changes, settle

_numbers = itertools.count()
TYPES = "a string, b bigint, x double, at timestamp, price decimal(12,2), tags array<string>"


def sent(part: Settled) -> Settled:
    """A part as another process gets it."""
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, part.batch.schema) as writer:
        writer.write_batch(part.batch)
    return Settled.from_batch(pa.ipc.open_stream(out.getvalue()).read_next_batch())


def settled(*given: tuple, parts: int = 1) -> dict[str, list[Settled]]:
    """Rows of `revenue`, settled in parts by user."""
    users = sorted({row[0] for row in given}, key=str)
    shares = [[row for row in given if users.index(row[0]) % parts == number] for number in range(parts)]
    return {"revenue": [sent(settle(revenue(), weighted(SCHEMA, *share))) for share in shares]}


@settings(
    max_examples=35,
    deadline=None,
    # Each example has views of its own; each backend runs the test for itself.
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.differing_executors],
)
@given(data=st.data())
def test_parts_of_any_partition_of_the_keys_do_what_the_rows_do(store, data):
    number = next(_numbers)
    specs = [
        ViewSpec(f"{name}{number}", f"flow{number}", TYPES, ("a", "b"), history="1 hour") for name in ("rows", "parts")
    ]
    flow = ViewFlow(store, *specs, name=f"flow{number}")
    one, other = (View(store, spec.name) for spec in specs)
    model = ViewOracle(("a", "b"))
    for epoch in range(1, data.draw(st.integers(1, 4), "epochs") + 1):
        batch = model.weighted(data.draw(st.lists(steps(), max_size=12), f"epoch {epoch}"))
        model.apply(batch)
        shares: dict[int, list] = {part: [] for part in range(3)}
        home: dict[tuple, int] = {}
        for row, weight in batch:
            key = (row["a"], row["b"])
            part = home.setdefault(key, data.draw(st.integers(0, 2), f"part of {key}"))
            shares[part].append((row, weight))
        parts = [sent(settle(specs[1], _table(specs[1], share))) for share in shares.values()]
        flow.commit({specs[0].name: _table(specs[0], batch), specs[1].name: parts})
        assert other.arrow().equals(one.arrow())
        assert other.as_of({"orders": {0: epoch * 10}}).rows() == one.rows()
    told = [{repr((c.op, c.before, c.after)) for c in view.changes(timeout=0)} for view in (one, other)]
    assert told[0] == told[1]
    replayed = ViewOracle(("a", "b"))
    for change in other.changes(timeout=0):
        replayed.follow(change)
    assert {(row["a"], row["b"]): row for row in replayed.rows()} == {(row["a"], row["b"]): row for row in model.rows()}


def _table(spec: ViewSpec, batch: list) -> pa.Table:
    table = pa.Table.from_pylist([row for row, _ in batch], spec.arrow)
    return table.append_column("_weight", pa.array([weight for _, weight in batch], pa.int8()))


def test_a_settled_epoch_that_comes_again_has_no_effect(store, again):
    flow = ViewFlow(store, revenue())
    first = settled(("a", 1, 1), ("b", 1, 1), ("c", 1, 1), parts=2)
    assert flow.commit(first)
    assert not flow.commit(first, epoch=1)
    assert not flow.commit(rows(("a", 9, 1)), epoch=1)
    assert flow.commit(settled(("a", 1, -1), ("a", 2, 1), ("b", 1, -1), parts=3))
    assert not flow.commit(first, epoch=1)
    with pytest.raises(Conflict, match="other input positions"):
        flow.commit(first, epoch=1, offset=11)
    with pytest.raises(Conflict, match="does not follow"):
        flow.commit(first, epoch=4)
    with pytest.raises(NotFound, match="declared no view 'revenu'"):
        flow.commit({"revenu": first["revenue"]}, epoch=3)
    fence = again().take_fence("shop")
    for epoch in (1, 3):
        with pytest.raises(Fenced):
            flow.commit(first, epoch=epoch)
    assert contents(store) == [("a", 2), ("c", 1)]
    told = [(c.op, c.cursor) for c in View(store, "revenue").changes(timeout=0)]
    assert [op for op, _ in told[:3]] == ["insert"] * 3
    assert sorted(op for op, _ in told[3:]) == ["delete", "update"]
    assert [cursor for _, cursor in told] == ["1:1", "1:2", "1", "2:1", "2"]
    assert store.last("shop").fence == fence


def test_rows_that_were_not_retracted_are_found_by_the_store(store):
    flow = ViewFlow(store, revenue())
    flow.commit(settled(("a", 1, 1), ("b", 1, 1)))
    flow.commit(settled(("a", 2, 1), ("b", 1, 1), ("c", 1, 1), parts=2))
    assert contents(store) == [("a", 2), ("b", 1), ("c", 1)]
    told = list(View(store, "revenue").changes(since="1", timeout=0))
    assert [(c.op, c.before, c.after) for c in told] == [
        ("update", {"user": "a", "n": 1}, {"user": "a", "n": 2}),
        ("insert", None, {"user": "c", "n": 1}),
    ]


def test_whole_changes_are_only_written(store, monkeypatch):
    flow = ViewFlow(store, revenue())
    flow.commit(settled(("a", 1, 1), ("b", 1, 1)))
    changes = settled(("a", 1, -1), ("a", 2, 1), ("b", 1, -1), ("c", 1, 1), parts=2)

    def never(*_: object) -> None:
        raise AssertionError("settled changes are looked up or netted")

    monkeypatch.setattr(keyed_changes, "net", never)
    monkeypatch.setattr(store.database.tables, "find", never)
    flow.commit(changes, whole=frozenset({"revenue"}))
    assert contents(store) == [("a", 2), ("c", 1)]
    assert len(list(View(store, "revenue").changes(since="1", timeout=0))) == 3


def test_parts_without_changes_change_nothing(store):
    flow = ViewFlow(store, revenue())
    flow.commit({"revenue": []})
    flow.commit(settled(("a", 1, 1), ("a", 1, -1)))
    flow.commit(settled(("a", 1, 1), ("b", 2, 1), ("b", 2, -1), parts=2))
    assert contents(store) == [("a", 1)]
    assert [change.cursor for change in View(store, "revenue").changes(timeout=0)] == ["3"]


def test_parts_of_a_view_with_other_columns_are_refused(store):
    flow = ViewFlow(store, revenue())
    for other in (revenue(schema="user string, m bigint"), revenue(key=("user", "n"))):
        names = weighted(str(other.schema), ("a", 1, 1))
        with pytest.raises(Invalid, match="changes of view 'revenue'.* were settled for"):
            flow.commit({"revenue": [settle(other, names)]}, epoch=1)
    assert contents(store) == []


def test_a_rebuild_takes_settled_parts_and_upserts(store):
    flow = ViewFlow(store, revenue())
    flow.commit(rows(("a", 1, 1)))
    token = store.begin_rebuild("shop", [revenue()])
    mine = ViewFlow(store)
    for number, changes in enumerate((settled(("a", 1, 1), ("b", 1, 1)), settled(("a", 5, 1), ("c", 1, 1))), 1):
        mine.commit(changes, rebuild=token, epoch=number, offset=number * 5)
    store.switch(token, mine.fence)
    assert contents(store) == [("a", 5), ("b", 1), ("c", 1)]
    told = list(View(store, "revenue").changes(since="1", timeout=0))
    assert [(c.op, (c.after or c.before)["user"]) for c in told] == [("update", "a"), ("insert", "b"), ("insert", "c")]


def test_columns_may_have_any_name(store):
    schema = "_op string, _run bigint, _order bigint, _last bigint, keep bigint, c0 bigint, op bigint, single bigint"
    flow = ViewFlow(store, ViewSpec("odd", "shop", schema, ("_op",), hidden=("_order",)))
    flow.commit({"odd": weighted(schema, ("insert", 1, 2, 3, 4, 5, 6, 7, 1), ("update", 1, 1, 1, 1, 1, 1, 1, 1))})
    again = weighted(schema, ("insert", 1, 2, 3, 4, 5, 6, 7, -1), ("insert", 9, 2, 3, 4, 5, 6, 7, 1))
    flow.commit({"odd": [settle(store.spec("odd"), again)]})
    view = View(store, "odd")
    new = {"_op": "insert", "_run": 9, "_last": 3, "keep": 4, "c0": 5, "op": 6, "single": 7}
    assert view.get("insert") == new
    [change] = view.changes(since="1", timeout=0)
    assert (change.op, change.before, change.after) == ("update", {**new, "_run": 1}, new)
