"""Errors that repeat, and positions that are gone: the run ends, with the cause in one line."""

from __future__ import annotations

import re
import time

import pytest

from oracles.recovery_shop import BASE
from riverrun.river import River

pytestmark = [pytest.mark.spark, pytest.mark.recovery, pytest.mark.timeout(1800)]


def test_a_row_that_an_expression_fails_on(a_shop):
    """It would fail every time, so it is not tried again; the last line says what to mend, and names the row."""
    a_shop.feed()
    run = a_shop.start("--follow")
    run.says("epoch 1")
    with River(a_shop.path) as river:
        river.topic("orders").append({"n": 1, "user": "u1", "amount": "many", "at": BASE})
    assert run.ends() == 1
    last = run.errors.strip().splitlines()[-1]
    assert re.match(r"Invalid: \S*recovery_flows.py:\d+: cast\(amount as double\) fails on row orders@\d:\d+ ", last), (
        last
    )
    assert "(amount = many): 'many' is not a number" in last
    assert "trying again" not in run.errors


def test_a_position_behind_retention(open_shop):
    shop = open_shop(retention="500 ms")
    shop.feed()
    shop.complete()

    def forget() -> None:
        shop.feed()
        time.sleep(0.6)
        with River(shop.path) as river:
            river.topic("orders").enforce_retention()

    # fallen behind while it ran
    run = shop.start("--follow", failpoints="plan.begin:2=stop")
    run.says("started")
    shop.feed()
    run.says("epoch 2")
    shop.feed()
    run.until(run.stopped, "plan.begin")
    forget()
    for process in run.stopped():
        process.resume()
    assert run.ends() == 1
    assert run.errors.strip().splitlines()[-1].startswith("OutOfRange: topic orders, partition 0: offset "), run.errors
    assert "is no longer kept, only " in run.errors
    assert "trying again" not in run.errors
    # and before it was started
    again = shop.start()
    assert again.ends() == 1
    assert again.errors.strip().splitlines()[-1].startswith("OutOfRange: topic orders, partition 0: offset ")


def test_a_topic_that_was_made_anew(a_shop):
    a_shop.feed()
    a_shop.complete()
    with River(a_shop.path) as river:
        spec = river.topic("orders").spec
        river.drop_topic("orders")
        river.topic(spec)
    run = a_shop.start()
    assert run.ends() == 1
    assert "OutOfRange: topic orders, partition 0: offset " in run.errors
    assert "is beyond the end" in run.errors
