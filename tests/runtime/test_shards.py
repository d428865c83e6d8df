"""Whether an operator takes one step for all shards or one for each changes nothing, in any sequence of the two."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import riverrun as rr
from oracles.orders import at
from riverrun.runtime.epoch import compute_epoch
from riverrun.state import directory
from riverrun.testing import Delete, local, run_flow

KEYS = st.sampled_from(["ada", "bob", "eve", None])
ROW = st.fixed_dictionaries({"k": KEYS, "n": st.integers(-3, 9), "at": st.integers(0, 60).map(at)})
PERSON = st.fixed_dictionaries({"k": st.sampled_from(["ada", "bob", "eve"]), "city": st.sampled_from("xyz")})
EPOCHS = st.lists(st.tuples(st.lists(ROW, max_size=5), st.lists(PERSON, max_size=2)), min_size=2, max_size=5)


def everything() -> rr.Flow:
    flow = rr.Flow("everything")
    rows = flow.stream("rows", "k string, n int, at timestamp", time="at", lateness="10 s")
    people = flow.table("people", "k string, city string", key="k", time="_received")
    late = rr.correct("20 s")
    flow.view("minutes", rows.window(rr.tumbling("10 s"), by="k", late=late).agg(n=rr.count(), d=rr.distinct("n")))
    flow.view("all", rows.window(rr.hopping("20 s", "5 s")).agg(total=rr.sum("n"), some=rr.collect("n")))
    flow.view("sliding", rows.window(rr.sliding("10 s"), by="k", emit="update").agg(most=rr.max("n")))
    flow.view("sessions", rows.window(rr.session("5 s"), by="k").agg(n=rr.count(), mean=rr.avg("n")))
    flow.view("groups", rows.group("k").agg(n=rr.count(), median=rr.quantile("n", 0.5)))
    flow.view("one", rows.group().agg(n=rr.count(), least=rr.min("n")))
    flow.view("latest", rows.latest("k"))
    flow.view("once", rows.dedupe(["k", "n"], within="1 minute"))
    flow.view("first", rows.top(2, "n desc, at", per="k", rank="place"))
    flow.view("cities", rows.join(people, on="k", how="left").group("city").agg(n=rr.count()))
    flow.view("pairs", rows.join(rows.where("n > 4"), on="k", within=("-5 s", "5 s"), how="left"))
    flow.view("then", rows.as_of(people.where("city <> 'x'"), on="k", how="left"))
    counted = people.group("city").agg(n=rr.count())
    flow.view("joined", people.join(counted, on="city", how="full").top(2, "n desc, k"))
    flow.topic("changed", counted.changes())
    return flow


@contextmanager
def stepping(pattern: list[bool], inline_bytes: int) -> Iterator[None]:
    """Epochs whose operators step for all shards at once, or not, as the pattern says."""

    def compute(tasks: Any, topics: Any, parts: Any, control: Any) -> Any:
        together = pattern[control.epoch % len(pattern)]
        return compute_epoch(tasks, topics, parts, control, together)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(local, "compute_epoch", compute)
        patch.setattr(directory, "INLINE_BYTES", inline_bytes)
        patch.setattr(directory.StateDirectory.__init__, "__defaults__", (inline_bytes, directory.CACHE_BYTES))
        yield


@settings(max_examples=4, deadline=None)
@given(EPOCHS, st.lists(st.booleans(), min_size=2, max_size=4), st.sampled_from([0, 700, 64 << 10]))
def test_one_step_for_all_shards_or_one_for_each(epochs: Any, pattern: list[bool], inline_bytes: int) -> None:
    script: list[Any] = [{"rows": rows, "people": people} for rows, people in epochs]
    script.insert(1, Delete("people", "bob"))
    results = []
    for steps in ([True], [False], pattern):
        with stepping(steps, inline_bytes):
            results.append(run_flow(everything(), script, shards=3, partitions=2))
    for result in results[1:]:
        assert result.views == results[0].views
        assert result.topics == results[0].topics
        assert result.ledger == results[0].ledger
