"""Runs on disk behave as state in memory does, whatever happens: commits, merges, lost commits, zombies, sweeps."""

import tempfile

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from riverrun.state.directory import StateDirectory
from riverrun.state.memory import MemoryState
from riverrun.state.table import TableSpec

SCHEMA = {"key": pl.String(), "start": pl.Int64(), "item": pl.Float64(), "value": pl.Int64()}
SPECS = {
    "single": TableSpec(SCHEMA, ("key",), ("key",), "start"),
    "several": TableSpec(SCHEMA, ("item",), ("key",), "start"),
    "plain": TableSpec(SCHEMA, ("item",), ("key", "start")),
    "floats": TableSpec(SCHEMA, ("item",), ("item",)),
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


def assert_same(state, memory, keys):
    for name, spec in SPECS.items():
        here, there = state[name], memory[name]
        assert content(here.scan()) == content(there.scan())
        assert content(here.scan(0, 3)) == content(there.scan(0, 3))
        assert content(here.probe(keys)) == content(there.probe(keys))
        if spec.bucket:
            assert content(here.probe_range(keys, -1, 4)) == content(there.probe_range(keys, -1, 4))
        if spec.single:
            found = keys.select(spec.address).hstack(here.lookup(keys).get_columns()).filter("_found")
            assert content(found.unique(spec.address)) == content(here.probe(keys))


@settings(max_examples=50, deadline=None)
@given(st.lists(EPOCH, min_size=1, max_size=8), st.sampled_from([0, 400, 3000]), ROWS)
def test_same_as_memory(epochs, inline_bytes, wanted):
    keys = frame(wanted)
    with tempfile.TemporaryDirectory() as place:
        directory = StateDirectory(place, inline_bytes=inline_bytes)
        memory = MemoryState(SPECS)
        entry = None
        for number, (changes, lost) in enumerate(epochs):
            if lost:  # a task that wrote its files and died, or lost against a newer run
                zombie = directory.open(entry, SPECS, "node", 0)
                apply(zombie, changes[::-1])
                zombie.commit(number)
            state = directory.open(entry, SPECS, "node", 0)
            apply(state, changes)
            apply(memory, changes)
            assert_same(state, memory, keys)
            entry = state.commit(number)
            directory.sweep([entry], oldest=number)
        assert_same(directory.open(entry, SPECS, "node", 0), memory, keys)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 3), st.integers(1, 40_000))
def test_many_segments(seed, batches, spread):
    """Enough rows that runs are cut into segments, with many buckets in each or one."""
    with tempfile.TemporaryDirectory() as place:
        directory, memory, entry = StateDirectory(place, inline_bytes=0), MemoryState(SPECS), None
        base = pl.DataFrame({"n": range(9000)})
        for number in range(batches):
            rows = base.select(
                key=(pl.col("n").hash(seed + number) % 50).cast(pl.String),
                start=(pl.col("n").hash(seed + number + 7) % spread).cast(pl.Int64),
                item=(pl.col("n") % 3).cast(pl.Float64),
                value=pl.col("n").cast(pl.Int64),
            )
            state = directory.open(entry, SPECS, "node", 0)
            changes = [(name, ("put", rows.rows())) for name in SPECS] + [("several", ("release", spread // 9))]
            apply(state, changes)
            apply(memory, changes)
            entry = state.commit(number)
        keys = rows.sample(200, seed=1)
        state = directory.open(entry, SPECS, "node", 0)
        for name, spec in SPECS.items():
            here, there = state[name], memory[name]
            assert content(here.probe(keys)) == content(there.probe(keys))
            lo, hi = spread // 3, spread // 2
            assert content(here.scan(lo, hi)) == content(there.scan(lo, hi))
            if spec.bucket:
                assert content(here.probe_range(keys, lo, hi)) == content(there.probe_range(keys, lo, hi))
