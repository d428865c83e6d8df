"""What every implementation of state must do; a backend's test inherits this and says how to open one."""

import math

import polars as pl
import pytest

from riverrun.errors import Invalid, NotFound
from riverrun.state.table import TableSpec

SCHEMA = {"key": pl.String(), "start": pl.Int64(), "item": pl.Int64(), "value": pl.Float64()}
WINDOWS = TableSpec(SCHEMA, ("key", "start", "item"), ("key",), "start")
PLAIN = TableSpec(SCHEMA, ("key", "item"), ("key",))


def frame(*rows):
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def keys(*rows):
    return pl.DataFrame(rows, schema={"key": pl.String(), "start": pl.Int64()}, orient="row")


def rows(found):
    return sorted(found.select(list(SCHEMA)).rows(), key=repr)


def asked(found, wanted, on=("key", "start")):
    """The rows that a probe found; each is of the key at the place that is said."""
    rows, places = found
    for name in on:
        assert wanted[name][places.tolist()].eq_missing(rows[name]).all()
    return rows


class StateContract:
    def open(self, specs):
        """A new, empty state."""
        raise AssertionError("a subclass opens its state")

    def settle(self, state):
        """The state as the next epoch sees it."""
        return state

    @pytest.fixture
    def windows(self):
        return self.open({"t": WINDOWS})

    def test_new_table_is_empty(self, windows):
        assert windows["t"].scan().is_empty()
        assert windows["t"].scan().schema == pl.Schema(SCHEMA)
        assert windows["t"].probe(keys(("a", 1)))[0].is_empty()
        assert windows["t"].probe_range(keys(("a", 1)), 0, 9)[0].is_empty()

    def test_probe_finds_every_row_of_key_and_bucket(self, windows):
        windows["t"].put(frame(("a", 1, 1, 1.0), ("a", 1, 2, 2.0), ("a", 2, 1, 3.0), ("b", 1, 1, 4.0)))
        for state in (windows, self.settle(windows)):
            one, some = keys(("a", 1)), keys(("b", 2), ("a", 2), ("c", 1))
            assert rows(asked(state["t"].probe(one), one)) == [("a", 1, 1, 1.0), ("a", 1, 2, 2.0)]
            assert rows(asked(state["t"].probe(some), some)) == [("a", 2, 1, 3.0)]

    def test_probe_range_is_half_open(self, windows):
        windows["t"].put(frame(*[("a", start, 0, 0.0) for start in range(5)], ("b", 2, 0, 0.0)))
        for state in (windows, self.settle(windows)):
            wanted = keys(("c", 0), ("a", 0))
            found = asked(state["t"].probe_range(wanted, 1, 3), wanted, ["key"])
            assert rows(found) == [("a", 1, 0, 0.0), ("a", 2, 0, 0.0)]

    def test_scan_is_half_open(self, windows):
        windows["t"].put(frame(*[("a", start, 0, 0.0) for start in range(5)]))
        for state in (windows, self.settle(windows)):
            assert sorted(state["t"].scan(1, 3)["start"]) == [1, 2]
            assert sorted(state["t"].scan(hi=2)["start"]) == [0, 1]
            assert sorted(state["t"].scan(lo=3)["start"]) == [3, 4]

    def test_put_replaces_the_row_with_that_key(self, windows):
        windows["t"].put(frame(("a", 1, 1, 1.0), ("b", 1, 1, 1.0)))
        state = self.settle(windows)
        state["t"].put(frame(("a", 1, 1, 2.0)))
        for seen in (state, self.settle(state)):
            assert rows(seen["t"].scan()) == [("a", 1, 1, 2.0), ("b", 1, 1, 1.0)]

    def test_remove_and_put_again(self, windows):
        windows["t"].put(frame(("a", 1, 1, 1.0), ("a", 1, 2, 2.0)))
        state = self.settle(windows)
        state["t"].remove(frame(("a", 1, 1, 0.0), ("x", 7, 7, 0.0)).drop("value"))
        assert rows(state["t"].scan()) == [("a", 1, 2, 2.0)]
        state = self.settle(state)
        assert rows(state["t"].probe(keys(("a", 1)))[0]) == [("a", 1, 2, 2.0)]
        state["t"].put(frame(("a", 1, 1, 3.0)))
        for seen in (state, self.settle(state)):
            assert rows(seen["t"].scan()) == [("a", 1, 1, 3.0), ("a", 1, 2, 2.0)]

    def test_put_then_remove_in_one_step_leaves_nothing(self, windows):
        windows["t"].put(frame(("a", 1, 1, 1.0)))
        windows["t"].remove(frame(("a", 1, 1, 1.0)))
        for state in (windows, self.settle(windows)):
            assert state["t"].scan().is_empty()

    def test_released_rows_are_gone_for_good(self, windows):
        windows["t"].put(frame(*[("a", start, 0, 0.0) for start in range(5)]))
        state = self.settle(windows)
        state["t"].release(2)
        state["t"].put(frame(("a", 1, 0, 9.0), ("a", 4, 0, 9.0)))
        state["t"].release(1)
        for seen in (state, self.settle(state)):
            assert rows(seen["t"].scan()) == [("a", 2, 0, 0.0), ("a", 3, 0, 0.0), ("a", 4, 0, 9.0)]
            assert seen["t"].probe(keys(("a", 1)))[0].is_empty()
            assert sorted(seen["t"].probe_range(keys(("a", 0)), -9, 3)[0]["start"]) == [2]

    def test_nulls_nan_and_zeros_are_keys_like_others(self):
        spec = TableSpec({"k": pl.Float64(), "s": pl.String(), "n": pl.Int64()}, ("k", "s"), ("k", "s"))
        state = self.open({"t": spec})
        first = pl.DataFrame({"k": [math.nan, None, 0.0, 1.0], "s": ["x", None, "", None], "n": [1, 2, 3, 4]})
        state["t"].put(first)
        state = self.settle(state)
        state["t"].put(pl.DataFrame({"k": [math.nan, None, -0.0], "s": ["x", None, ""], "n": [5, 6, 7]}))
        for seen in (state, self.settle(state)):
            assert sorted(seen["t"].scan()["n"]) == [4, 5, 6, 7]
            wanted = pl.DataFrame({"k": [-math.nan, None], "s": ["x", None]}, schema_overrides={"k": pl.Float64()})
            assert sorted(asked(seen["t"].probe(wanted), wanted, ["k", "s"])["n"]) == [5, 6]

    def test_table_without_bucket(self):
        state = self.open({"t": PLAIN})
        state["t"].put(frame(("a", 1, 1, 1.0), ("a", 2, 2, 2.0), ("b", 1, 1, 1.0)))
        state["t"].put(frame(("a", 9, 1, 9.0)))
        for seen in (state, self.settle(state)):
            assert rows(seen["t"].probe(keys(("a", 0)))[0]) == [("a", 2, 2, 2.0), ("a", 9, 1, 9.0)]
            assert len(seen["t"].scan()) == 3

    def test_tables_of_a_state_are_apart(self):
        state = self.open({"one": PLAIN, "two": PLAIN})
        state["one"].put(frame(("a", 1, 1, 1.0)))
        state = self.settle(state)
        assert len(state["one"].scan()) == 1
        assert state["two"].scan().is_empty()

    def test_unknown_table_is_named(self, windows):
        with pytest.raises(NotFound, match="'x'"):
            windows["x"]

    def test_lookup_answers_in_the_order_asked(self):
        spec = TableSpec(SCHEMA, ("key",), ("key",), "start")
        state = self.open({"t": spec})
        state["t"].put(frame(("a", 1, 1, 1.0), ("a", 2, 2, 2.0), ("b", 1, 3, 3.0)))
        state = self.settle(state)
        state["t"].remove(frame(("b", 1, 0, 0.0)))
        state["t"].put(frame(("c", 1, 5, None)))
        for seen in (state, self.settle(state)):
            found = seen["t"].lookup(keys(("c", 1), ("x", 1), ("a", 2), ("b", 1), ("a", 1)))
            assert found.columns == ["item", "value", "_found"]
            assert found.rows() == [
                (5, None, True),
                (None, None, False),
                (2, 2.0, True),
                (None, None, False),
                (1, 1.0, True),
            ]

    def test_lookup_wants_one_row_per_address(self, windows):
        with pytest.raises(Invalid, match="probed"):
            windows["t"].lookup(keys(("a", 1)))
