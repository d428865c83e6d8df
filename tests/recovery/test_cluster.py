"""A flow on a Spark cluster of two workers: the same results, also when executors and drivers are killed."""

from __future__ import annotations

import random
import time

import pytest

from recovery.conftest import ClusterShop

pytestmark = [pytest.mark.spark, pytest.mark.recovery, pytest.mark.timeout(1800)]


def test_two_workers_come_to_what_one_machine_does(a_cluster_shop: ClusterShop) -> None:
    shop = a_cluster_shop
    shop.feed(3)
    shop.complete()
    shop.feed(3)
    shop.drain()


def test_executors_and_drivers_killed(a_cluster_shop: ClusterShop) -> None:
    shop, dice = a_cluster_shop, random.Random(3)
    run = shop.start("--follow")
    run.says("started")
    for number in range(6):
        shop.feed(2)
        time.sleep(dice.uniform(0.5, 3))
        if number % 3 == 2:
            run.kill()
            run = shop.start("--follow")
            run.says("started")
        elif executors := shop.cluster.executors():
            dice.choice(executors).kill()
    run.kill()
    shop.drain()
