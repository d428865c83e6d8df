"""Clocks of devices that are wrong, as the status shows them."""

from __future__ import annotations

import pyarrow as pa

from riverrun.columns import RECEIVED
from riverrun.runtime.compile.job import Correction
from riverrun.runtime.device_clocks import SHOWN, clock_offsets

MOMENT = pa.timestamp("us", "UTC")


def offsets(devices, sent, received, **more):
    columns = {"device": devices, **more, "sent": pa.array(sent, MOMENT), RECEIVED: pa.array(received, MOMENT)}
    return clock_offsets(Correction("clock", "occurred", "sent", ("device", *more)), pa.table(columns))


def test_the_last_row_of_a_device_counts_and_the_worst_comes_first():
    assert list(offsets(["a", "b", "a"], [10, 500, 30], [20, 100, 35]).items()) == [("b", -400), ("a", 5)]


def test_rows_that_do_not_say_when_they_were_sent_say_nothing():
    assert offsets(["a", "b"], [None, 10], [20, 15]) == {"b": 5}
    assert offsets([], [], []) == {}


def test_a_device_may_have_several_columns_and_no_name():
    assert offsets(["a", None], [1, 2], [2, 4], line=[7, 8]) == {", 8": 2, "a, 7": 1}


def test_only_the_worst_are_kept():
    many = offsets([str(i) for i in range(100)], [0] * 100, list(range(100)))
    assert list(many) == [str(i) for i in range(99, 99 - SHOWN, -1)]
