"""Runs on disk behave as state in memory does, whatever happens: commits, merges, lost commits, zombies, sweeps."""

import tempfile

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles.memory_state import MemoryState
from riverrun.state.directory import StateDirectory
from riverrun.state.shards import shard_numbers
from riverrun.state.table import TableSpec

SCHEMA = {"key": pl.String(), "start": pl.Int64(), "item": pl.Float64(), "value": pl.Int64()}
SPECS = {
    "single": TableSpec(SCHEMA, ("key",), ("key",), "start"),
    "several": TableSpec(SCHEMA, ("item",), ("key",), "start"),
    "plain": TableSpec(SCHEMA, ("item",), ("key", "start")),
    "floats": TableSpec(SCHEMA, ("item",), ("item",)),
    "by value": TableSpec(SCHEMA, (), ("key", "item"), None, route=("key",)),
    "one": TableSpec(SCHEMA, ("key",), ("start",), None, route=()),
}
KEYS = st.sampled_from(["a", "b", "", None, "long" * 40])
STARTS = st.integers(-3, 6)
ITEMS = st.sampled_from([0.0, -0.0, 1.5, float("nan"), None])
ROWS = st.lists(st.tuples(KEYS, STARTS, ITEMS, st.integers(0, 99)), min_size=1, max_size=12)
CHANGE = st.one_of(
    st.tuples(st.just("put"), ROWS),
    st.tuples(st.just("remove"), ROWS),
    st.tuples(st.just("release"), STARTS),
    st.tuples(st.just("read"), ROWS),
)
EPOCH = st.tuples(st.lists(st.tuples(st.sampled_from(list(SPECS)), CHANGE), max_size=5), st.booleans())


def frame(rows):
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def content(rows):
    # as text, since NaN differs from itself; and 0.0 is -0.0
    return sorted(repr(row).replace("-0.0", "0.0") for row in rows.select(list(SCHEMA)).rows())


def apply(state, changes):
    for name, (kind, what) in changes:
        table, spec = state[name], SPECS[name]
        if kind == "release":
            table.release(what)
        elif kind == "remove":
            table.remove(frame(what).unique(list(spec.key)))
        elif kind == "put":
            table.put(frame(what).unique(list(spec.key), keep="last", maintain_order=True))
        else:
            table.probe(frame(what).select(spec.address).unique())


def probed(found, keys, on):
    """The rows that a probe found; each is of the key at the place that is said."""
    rows, places = found
    assert all(keys[name][places.tolist()].eq_missing(rows[name]).all() for name in on)
    return content(rows)


def assert_same(state, memory, keys):
    for name, spec in SPECS.items():
        here, there = state[name], memory[name]
        assert content(here.scan()) == content(there.scan())
        assert content(here.scan(0, 3)) == content(there.scan(0, 3))
        assert_same_probes(here, there, spec, keys, -1, 4)
        if spec.single:
            found = keys.select(spec.address).hstack(here.lookup(keys).get_columns()).filter("_found")
            wanted = keys.unique(spec.address)
            assert content(found.unique(spec.address)) == probed(here.probe(wanted), wanted, spec.address)


def assert_same_probes(here, there, spec, keys, lo, hi):
    wanted = keys.unique(spec.address)
    assert probed(here.probe(wanted), wanted, spec.address) == probed(there.probe(wanted), wanted, spec.address)
    if spec.bucket:
        wanted = keys.unique(spec.probe)
        mine, other = here.probe_range(wanted, lo, hi), there.probe_range(wanted, lo, hi)
        assert probed(mine, wanted, spec.probe) == probed(other, wanted, spec.probe)


@settings(max_examples=50, deadline=None)
@given(st.lists(EPOCH, min_size=1, max_size=8), st.sampled_from([0, 400, 3000]), ROWS)
def test_same_as_memory(epochs, inline_bytes, wanted):
    keys = frame(wanted)
    with tempfile.TemporaryDirectory() as place:
        directory = StateDirectory(place, inline_bytes=inline_bytes)
        memory = MemoryState(SPECS)
        entries = {}
        for number, (changes, lost) in enumerate(epochs):
            if lost:  # a task that wrote its files and died, or lost against a newer run
                zombie = directory.open(entries, SPECS, "node", 0)
                apply(zombie, changes[::-1])
                zombie.commit(number)
            state = directory.open(entries, SPECS, "node", 0)
            apply(state, changes)
            apply(memory, changes)
            assert_same(state, memory, keys)
            entries = state.commit(number)
            directory.sweep(entries.values(), oldest=number)
        assert_same(directory.open(entries, SPECS, "node", 0), memory, keys)


@settings(max_examples=60, deadline=None)
@given(st.lists(EPOCH, min_size=1, max_size=8), st.sampled_from([0, 400, 3000]), ROWS, st.booleans())
def test_steps_over_all_shards_and_over_each(epochs, inline_bytes, wanted, again):
    """Three shards, sometimes in one step, sometimes one after the other: each row is in the shard of its route."""
    keys, shards = frame(wanted), 3
    with tempfile.TemporaryDirectory() as place:
        directory, memory, entries = StateDirectory(place, inline_bytes=inline_bytes), MemoryState(SPECS), {}
        for number, (changes, together) in enumerate(epochs):
            if again:
                directory = StateDirectory(place, inline_bytes=inline_bytes)  # a worker that has seen nothing yet
            apply(memory, changes)
            if together:
                state = directory.open(entries, SPECS, "node", None, shards)
                apply(state, changes)
                assert_same(state, memory, keys)
                entries = state.commit(number)
                continue
            after = {}
            for shard in range(shards):
                state = directory.open(entries, SPECS, "node", shard, shards)
                apply(state, [(name, of_shard(SPECS[name], change, shard, shards)) for name, change in changes])
                after |= state.commit(number)
            entries = after
        assert_same(directory.open(entries, SPECS, "node", None, shards), memory, keys)
        for name, spec in SPECS.items():
            for shard in range(shards):
                here = directory.open(entries, SPECS, "node", shard, shards)[name].scan()
                there = memory[name].scan()
                assert content(here) == content(there.filter(shard_numbers(there, route(spec), shards) == shard))


def route(spec):
    return spec.probe if spec.route is None else spec.route


def of_shard(spec, change, shard, shards):
    """What of a change one shard gets to do."""
    kind, what = change
    if kind == "release":
        return change
    rows = frame(what)
    return kind, rows.filter(shard_numbers(rows, route(spec), shards) == shard).rows()


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 3), st.integers(1, 40_000))
def test_many_segments(seed, batches, spread):
    """Enough rows that runs are cut into segments, with many buckets in each or one."""
    with tempfile.TemporaryDirectory() as place:
        directory, memory, entries = StateDirectory(place, inline_bytes=0), MemoryState(SPECS), {}
        base = pl.DataFrame({"n": range(9000)})
        for number in range(batches):
            rows = base.select(
                key=(pl.col("n").hash(seed + number) % 50).cast(pl.String),
                start=(pl.col("n").hash(seed + number + 7) % spread).cast(pl.Int64),
                item=(pl.col("n") % 3).cast(pl.Float64),
                value=pl.col("n").cast(pl.Int64),
            )
            state = directory.open(entries, SPECS, "node", 0)
            changes = [(name, ("put", rows.rows())) for name in SPECS] + [("several", ("release", spread // 9))]
            apply(state, changes)
            apply(memory, changes)
            entries = state.commit(number)
        keys = rows.sample(200, seed=1)
        state = directory.open(entries, SPECS, "node", 0)
        for name, spec in SPECS.items():
            here, there = state[name], memory[name]
            lo, hi = spread // 3, spread // 2
            assert content(here.scan(lo, hi)) == content(there.scan(lo, hi))
            assert_same_probes(here, there, spec, keys, lo, hi)
