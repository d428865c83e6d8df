"""Epochs in derived stores: once, in order, by the newest run, and back from an older copy."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError

from contracts.derived_flow import DERIVED, DerivedFlow, DerivedPlace, changes, contents, hot
from contracts.view_flow import weighted
from riverrun import failpoints
from riverrun.errors import Conflict, Fenced, NotFound, Transient, Unavailable
from riverrun.store_address import StoreAddress
from riverrun.views import ViewSpec, settle
from riverrun.views.derived.delta import writing
from riverrun.views.derived.delta.marker_versions import commit_properties
from riverrun.views.derived.marker import Behind, Marker, digest, misfit
from riverrun.views.derived.store import DerivedStore, open_derived
from s3_server import shared_s3


@pytest.fixture(params=DERIVED)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> DerivedPlace:
    return DERIVED[request.param](tmp_path)


@pytest.fixture
def again(place: DerivedPlace, request: pytest.FixtureRequest) -> Callable[[], DerivedStore]:
    def opened() -> DerivedStore:
        store = place.open()
        request.addfinalizer(store.close)
        return store

    return opened


@pytest.fixture
def store(again: Callable[[], DerivedStore]) -> DerivedStore:
    return again()


def test_rows_come_change_and_go(store, again):
    flow = DerivedFlow(store, hot())
    assert flow.commit(changes(("a", 1, 1), ("b", 2, 1), (None, 3, 1)))
    assert flow.commit(changes(("a", 1, -1), ("a", 5, 1), ("b", 2, -1), ("c", None, 1)))
    other = again()
    assert contents(other, hot()) == [("a", 5), ("c", None), (None, 3)]
    assert other.count(hot()) == 3
    assert other.lookup(hot(), [pa.array(["c"])]).to_pylist() == [{"user": "c", "n": None}]
    assert other.lookup(hot(), [pa.array([None], pa.string())]).to_pylist() == [{"user": None, "n": 3}]
    assert other.lookup(hot(), [pa.array(["b"])]).num_rows == 0
    flow.commit(changes((None, 3, -1)))
    assert contents(store, hot()) == [("a", 5), ("c", None)]


def test_settled_parts_are_taken_as_they_are(store):
    flow = DerivedFlow(store, hot())
    parts = [settle(hot(), changes(row)["hot"]) for row in (("a", 1, 1), ("b", 2, 1))]
    flow.commit({"hot": parts})
    assert contents(store, hot()) == [("a", 1), ("b", 2)]


def test_of_a_view_that_is_not_whole_the_newest_row_stays(store):
    flow = DerivedFlow(store, hot())
    flow.commit(changes(("a", 1, 1), ("b", 1, 1)), whole=frozenset())
    flow.commit(changes(("a", 2, 1)), whole=frozenset())
    assert contents(store, hot()) == [("a", 2), ("b", 1)]


def test_an_epoch_that_comes_again_changes_nothing(store, again):
    flow = DerivedFlow(store, hot())
    flow.commit(changes(("a", 1, 1)))
    assert not flow.commit(changes(("a", 1, 1)), sequence=1)
    assert not DerivedFlow(again(), hot()).commit(changes(("z", 1, 1)), sequence=1)
    assert contents(store, hot()) == [("a", 1)]
    with pytest.raises(Conflict, match="other input"):
        flow.commit(changes(("a", 2, 1)), sequence=1, offset=11)
    flow.commit()
    with pytest.raises(Conflict, match="older than epoch 2"):
        flow.commit(changes(("a", 2, 1)), sequence=1)
    assert contents(store, hot()) == [("a", 1)]


def test_a_gap_and_another_generation_are_refused(store):
    flow = DerivedFlow(store, hot())
    with pytest.raises(Behind):
        flow.commit(changes(("a", 1, 1)), sequence=7)
    flow.commit(changes(("a", 1, 1)))
    with pytest.raises(Behind, match="it has epoch 1 of flow 'shop', and 3 is the next"):
        flow.commit(sequence=3)
    with pytest.raises(Behind, match="another computation"):
        flow.commit(generation="shop~7")


def test_an_older_run_is_refused(store, again):
    zombie = DerivedFlow(store, hot())
    zombie.commit(changes(("a", 1, 1)))
    newer = DerivedFlow(again(), hot(), fence=2)
    with pytest.raises(Fenced, match="run 1 of flow 'shop' may write nothing more: run 2"):
        zombie.commit(changes(("b", 1, 1)))
    with pytest.raises(Fenced):
        zombie.store.raise_fence("shop", 1)
    newer.commit(changes(("c", 1, 1)))
    with pytest.raises(Fenced):
        zombie.commit(changes(("c", 1, 1)))
    assert contents(store, hot()) == [("a", 1), ("c", 1)]


def test_a_marker_says_what_is_there(store, place, again):
    assert place.open().last("shop") is None
    flow = DerivedFlow(store, hot())
    assert (store.last("shop").fence, store.last("shop").sequence) == (1, 0)
    flow.commit(changes(("a", 1, 1)))
    marker = again().last("shop")
    assert (marker.fence, marker.sequence, marker.generation) == (1, 1, "shop")
    assert marker.input == digest({"orders": {0: 10}})
    at = {"orders": {0: 10}}
    assert misfit(marker, 1, "shop", at) is None
    assert misfit(marker, 0, "shop", {}) is None  # it is repeated
    assert "behind" in misfit(marker, 2, "shop", at)
    assert "other input" in misfit(marker, 1, "shop", {"orders": {0: 11}})
    assert "another computation" in misfit(marker, 1, "shop~3", at)


def test_a_store_restored_from_an_older_copy_is_found(place, again):
    store = again()
    flow = DerivedFlow(store, hot())
    flow.commit(changes(("a", 1, 1)))
    store.close()
    copy = place.save()
    later = DerivedFlow(again(), hot())
    later.commit(changes(("b", 1, 1)))
    later.commit(changes(("c", 1, 1)))
    later.store.close()
    place.restore(copy)
    restored = again()
    assert contents(restored, hot()) == [("a", 1)]
    assert "behind, at epoch 1 of 3" in misfit(restored.last("shop"), 3, "shop", {"orders": {0: 30}})
    with pytest.raises(Behind):
        DerivedFlow(restored, hot()).commit(changes(("d", 1, 1)), sequence=4)


def test_a_store_that_is_away_is_waited_for(place, again):
    """Nothing is put in its place, and what it does not answer is not nothing. The same epochs are right afterwards."""
    store = again()
    flow = DerivedFlow(store, hot())
    flow.commit(changes(("a", 1, 1)))
    store.begin("shop", "shop~5", [hot()])
    rebuild = {"sequence": 1, "token": "shop~5", "generation": "shop~5", "fence": 0}
    place.leave()
    try:
        for _ in range(2):
            with pytest.raises(Transient, match="not there|not answer|is away"):
                flow.commit(changes(("b", 2, 1)))
            with pytest.raises(Transient, match="not there|not answer|is away"):
                flow.commit(changes(("c", 3, 1)), **rebuild)
            with pytest.raises(Transient, match="not there|not answer|is away"):
                store.switch("shop", "shop~5", 1, 1, {"orders": {0: 10}}, [hot()])
    finally:
        place.come_back()
    assert flow.commit(changes(("b", 2, 1)))
    assert contents(again(), hot()) == [("a", 1), ("b", 2)]
    assert flow.commit(changes(("c", 3, 1)), **rebuild)
    store.switch("shop", "shop~5", 1, 1, {"orders": {0: 10}}, [hot()])
    assert contents(again(), hot()) == [("c", 3)]


def test_a_rebuild_is_seen_when_it_is_switched_to(store, again):
    flow = DerivedFlow(store, hot())
    flow.commit(changes(("a", 1, 1), ("b", 1, 1)))
    store.begin("shop", "shop~5", [hot()])
    mine = {"token": "shop~5", "generation": "shop~5", "fence": 0}
    flow.commit(changes(("b", 7, 1)), sequence=1, offset=4, **mine)
    assert not flow.commit(changes(("b", 7, 1)), sequence=1, offset=4, **mine)
    flow.commit(changes(("c", 8, 1), (None, 9, 1)), sequence=2, offset=10, **mine)
    assert contents(store, hot()) == [("a", 1), ("b", 1)]
    flow.commit(changes(("x", 1, 1)))  # the running one goes on, and is ahead of the home store then
    for opened in (store, again()):  # a repeat does nothing
        opened.switch("shop", "shop~5", 1, 2, {"orders": {0: 10}}, [hot()])
    assert contents(again(), hot()) == [("b", 7), ("c", 8), (None, 9)]
    marker = store.last("shop")
    assert (marker.sequence, marker.generation, marker.input) == (2, "shop~5", digest({"orders": {0: 10}}))
    flow.generation, flow.sequence = "shop~5", 2
    flow.commit(changes(("c", 8, -1)))
    assert contents(store, hot()) == [("b", 7), (None, 9)]
    with pytest.raises((NotFound, Conflict, Fenced)):
        flow.commit(changes(("q", 1, 1)), sequence=3, **mine)


def test_a_rebuild_that_is_given_up_leaves_nothing(store, again, place):
    flow = DerivedFlow(store, hot())
    flow.commit(changes(("a", 1, 1)))
    store.begin("shop", "shop~5", [hot()])
    mine = {"token": "shop~5", "generation": "shop~5", "fence": 0}
    flow.commit(changes(("z", 7, 1)), sequence=1, **mine)
    store.abandon("shop", "shop~5")
    store.abandon("shop", "shop~5")
    with pytest.raises((NotFound, Conflict, Fenced)):
        flow.commit(changes(("z", 8, 1)), sequence=2, **mine)
    again().begin("shop", "shop~6", [hot()])  # by another process, which died
    again().begin("shop", "shop~7", [hot()])
    assert contents(store, hot()) == [("a", 1)]
    flow.commit(changes(("b", 1, 1)))
    assert contents(store, hot()) == [("a", 1), ("b", 1)]


def test_an_older_run_cannot_switch(store, again):
    flow = DerivedFlow(store, hot())
    flow.commit(changes(("a", 1, 1)))
    store.begin("shop", "shop~5", [hot()])
    DerivedFlow(again(), hot(), fence=2)
    with pytest.raises(Fenced):
        store.switch("shop", "shop~5", 1, 1, {"orders": {0: 10}}, [hot()])
    assert contents(store, hot()) == [("a", 1)]


def test_a_rebuild_may_change_columns(store, again):
    flow = DerivedFlow(store, hot())
    flow.commit(changes(("a", 1, 1)))
    wider = hot(schema="user string, n double, note string")
    store.begin("shop", "shop~5", [wider])
    flow.specs = {"hot": wider}
    table = weighted("user string, n double, note string", ("a", 1.5, "x", 1))
    flow.commit({"hot": table}, sequence=1, token="shop~5", generation="shop~5", fence=0)
    store.switch("shop", "shop~5", 1, 1, {"orders": {0: 10}}, [wider])
    assert contents(again(), wider) == [("a", 1.5, "x")]


def test_views_and_flows_share_a_store(place: DerivedPlace, store, again):
    if place.address.startswith("delta:"):
        pytest.skip("a Delta table is one view")
    sizes = ViewSpec("sizes", "shop", "a string, b bigint, size bigint", ("a", "b"), to=place.address)
    flow = DerivedFlow(store, hot(), sizes)
    pairs = weighted("a string, b bigint, size bigint", ("x:y", 1, 5, 1), ("x", None, 6, 1), (None, None, 7, 1))
    flow.commit({**changes(("a", 1, 1)), "sizes": pairs})
    other = ViewSpec("warm", "bank", "user string, n bigint", ("user",), to=place.address)
    bank = DerivedFlow(again(), other, name="bank", fence=9)
    bank.commit({"warm": weighted("user string, n bigint", ("a", 100, 1))})
    assert contents(store, sizes) == [("x", None, 6), ("x:y", 1, 5), (None, None, 7)]
    key = [pa.array(["x:y"]), pa.array([1], pa.int64())]
    assert store.lookup(sizes, key).to_pylist() == [{"a": "x:y", "b": 1, "size": 5}]
    assert contents(store, hot()) == [("a", 1)]
    assert contents(store, other) == [("a", 100)]
    assert store.last("bank").fence == 9
    store.drop(sizes)
    assert contents(store, hot()) == [("a", 1)]


def test_a_view_without_a_key_has_one_row(store, again):
    total = ViewSpec("total", "shop", "n bigint", ())
    flow = DerivedFlow(store, total)
    flow.commit({"total": weighted("n bigint", (1, 1))})
    flow.commit({"total": weighted("n bigint", (1, -1), (2, 1))})
    assert contents(again(), total) == [(2,)]
    assert store.lookup(total, []).to_pylist() == [{"n": 2}]
    flow.commit({"total": weighted("n bigint", (2, -1), (None, 1))})
    assert contents(again(), total) == [(None,)]


def test_rows_of_a_stream_are_all_kept(store: Any, again: Any):
    spec = ViewSpec(
        "log",
        "shop",
        "text string, _partition int, _offset bigint",
        ("_partition", "_offset"),
        hidden=("_partition", "_offset"),
    )
    flow = DerivedFlow(store, spec)
    schema = "text string, _partition int, _offset bigint"
    flow.commit({"log": weighted(schema, ("x", 0, 0, 1), ("x", 1, 0, 1))})
    flow.commit({"log": weighted(schema, ("y", 0, 1, 1))})
    assert contents(again(), spec) == [("x",), ("y",), ("x",)]


def test_an_epoch_in_pieces_is_finished_by_the_next_run(tmp_path, monkeypatch):
    """Redis: a part of it is there, which is no damage; with other input it would be."""
    monkeypatch.setattr("riverrun.views.derived.redis.store.PIECE", 2)
    store = DERIVED["redis"](tmp_path).open()
    flow = DerivedFlow(store, hot())
    rows = changes(*((f"user {n}", n, 1) for n in range(7)))
    failpoints.arm("redis.written:2=crash")
    with pytest.raises(failpoints.Crashed):
        flow.commit(rows)
    failpoints.arm("")
    assert len(contents(store, hot())) == 4
    assert misfit(store.last("shop"), 0, "", {}) is None
    with pytest.raises(Conflict, match="a part of epoch 1 of flow 'shop' is in Redis .*, of other input"):
        flow.commit(rows, offset=11)
    later = DerivedFlow(store, hot(), fence=2)
    assert later.commit(rows)
    assert len(contents(store, hot())) == 7
    assert store.last("shop").work == ""
    store.close()


@pytest.mark.parametrize(("before", "after"), [((), ("n",)), (("n",), ()), (("n",), ("user",))])
def test_a_rebuild_may_cut_a_delta_table_in_another_way(tmp_path, before, after):
    place = DERIVED["delta"](tmp_path)
    store = place.open()
    flow = DerivedFlow(store, hot(partition_by=before))
    flow.commit(changes(("a", 1, 1)))
    other = hot(partition_by=after)
    store.begin("shop", "shop~5", [other])
    flow.specs = {"hot": other}
    flow.commit(changes(("a", 2, 1), (None, None, 1)), sequence=1, token="shop~5", generation="shop~5", fence=0)
    store.switch("shop", "shop~5", 1, 1, {"orders": {0: 10}}, [other])
    flow.generation = "shop~5"
    flow.commit(changes(("a", 2, -1), ("a", 3, 1)))
    assert contents(place.open(), other) == [("a", 3), (None, None)]
    assert tuple(DeltaTable(str(tmp_path / "lake")).metadata().partition_columns) == after


@pytest.mark.parametrize("kind", ["delta", "bucket"])
def test_of_delta_writers_that_saw_the_same_version_one_wins(tmp_path, kind):
    """In a bucket this is a conditional put; without it, a run that was overtaken could write over the newer one's epoch."""
    store = DERIVED[kind](tmp_path).open()
    DerivedFlow(store, hot())
    tables = [DeltaTable(store.address.path) for _ in range(6)]

    def write(fence: int) -> bool:
        try:
            writing.append_nothing(tables[fence], commit_properties(Marker(fence + 2), "shop"))
            return True
        except CommitFailedError:
            return False

    with ThreadPoolExecutor(len(tables)) as writers:
        won = list(writers.map(write, range(len(tables))))
    assert won.count(True) == 1
    assert store.last("shop").fence == won.index(True) + 2
    assert DeltaTable(store.address.path).version() == 1


def test_a_bucket_that_is_not_there_is_said(tmp_path):
    shared_s3()
    store = open_derived(StoreAddress.parse("delta:s3://nowhere/lake"), str(tmp_path))
    with pytest.raises(
        Unavailable, match=r"Delta table delta:s3://nowhere/lake cannot be used: .*404 Not Found.*NoSuchBucket"
    ):
        store.ping()
