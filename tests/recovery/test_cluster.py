"""A flow on a Spark cluster of two workers: the same results, whoever is killed, sleeps, is slow, or loses a disk."""

from __future__ import annotations

import random
import shutil
import signal
import time
from collections.abc import Callable

import pytest

from recovery.cluster_shops import (
    ApartShop,
    BucketShop,
    ClusterMarket,
    ClusterShop,
    ClusterWatch,
    LonelyShop,
    OnCluster,
)
from recovery.conftest import Flowing, Shop
from riverrun.doctor.places import ask_executors
from riverrun.object_folder import ObjectFolder
from riverrun.runtime.manifest import Manifest

pytestmark = [pytest.mark.spark, pytest.mark.recovery, pytest.mark.timeout(1800)]

STAGES = ("read", "stage-1", "stage-2")


@pytest.fixture
def a_cluster_shop(open_shop: Callable[..., Shop]) -> Shop:
    return open_shop(ClusterShop)


@pytest.fixture
def a_bucket_shop(open_shop: Callable[..., Shop]) -> Shop:
    return open_shop(BucketShop)


@pytest.fixture(params=[ClusterMarket, ClusterWatch])
def another_shop(request: pytest.FixtureRequest, open_shop: Callable[..., Shop]) -> Shop:
    return open_shop(request.param)


@pytest.fixture
def a_lonely_shop(open_shop: Callable[..., Shop]) -> Shop:
    return open_shop(LonelyShop)


@pytest.fixture
def an_apart_shop(open_shop: Callable[..., Shop]) -> Shop:
    return open_shop(ApartShop)


def epoch_of(run: Flowing) -> int:
    """The newest epoch that a run has told of."""
    run.says("epoch ")
    return max(int(line.split()[1]) for line in run.lines if line.startswith("epoch "))


def goes_beyond(run: Flowing, epoch: int) -> None:
    run.until(lambda: epoch_of(run) > epoch, f"an epoch after {epoch}")


def test_two_workers_come_to_what_one_machine_does(a_cluster_shop: ClusterShop) -> None:
    shop = a_cluster_shop
    del shop._environment["RIVERRUN_SHARDS"]
    shop.feed(3)
    shop.complete()
    shop.feed(3)
    shop.drain()
    with shop.river() as river:
        manifest = river.store.last("shop").manifest
        assert manifest is not None
        assert Manifest.decode(manifest).shards == 8  # four for each of two processors


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


def test_an_executor_killed_in_each_stage(a_cluster_shop: ClusterShop) -> None:
    """The same run goes on: what the executor had computed is computed again by another one."""
    shop = a_cluster_shop
    for stage in STAGES:
        shop.feed(3)
        shop.arm(stage)
        run = shop.start()
        run.until(shop.cluster.stopped, f"task in {stage}")
        ((task, executor),) = shop.cluster.stopped()
        executor.kill()
        task.kill()
        assert run.ends() == 0, run.errors
        run.vanishes()
    shop.cluster.configure()
    shop.feed(1)
    shop.drain()


def test_slow_tasks_are_overtaken_and_wake_up_again(a_cluster_shop: ClusterShop) -> None:
    """Speculation: of two attempts at a task one counts, whatever the other one still does."""
    shop = a_cluster_shop
    for stage in STAGES[1:]:
        shop.feed(3)
        eager = {"speculation": "true", "speculation__interval": "100ms", "speculation__quantile": "0.5"}
        eager |= {"speculation__multiplier": "1.1", "speculation__minTaskRuntime": "100ms"}
        armed = f"task.{stage}=stop?{shop.directory}/slow-{stage}"
        shop.cluster.configure(**eager, executorEnv__RIVERRUN_FAILPOINTS=armed)
        run = shop.start("--follow")
        begun = epoch_of(run)
        run.until(shop.cluster.stopped, f"task in {stage}")
        ((task, _),) = shop.cluster.stopped()
        goes_beyond(run, begun)
        if task.is_running():
            task.resume()  # it writes what nobody asked for any more
        shop.feed(1)
        run.finish()
        assert run.ends() == 0, run.errors
        run.vanishes()
    shop.cluster.configure()
    shop.drain()


def test_a_driver_that_slept_while_another_one_took_over(a_cluster_shop: ClusterShop) -> None:
    shop = a_cluster_shop
    for place in ("commit.begin", "commit.aside"):
        shop.feed(3)
        sleeper = shop.start("--follow", failpoints=f"{place}=stop")
        sleeper.until(sleeper.stopped, place)
        newer = shop.start("--follow")
        begun = epoch_of(newer)
        shop.feed(2)
        goes_beyond(newer, begun)
        for process in sleeper.stopped():
            process.send_signal(signal.SIGCONT)
        assert sleeper.ends() == 1
        assert "Fenced: run " in sleeper.errors
        newer.finish()
        assert newer.ends() == 0, newer.errors
        newer.vanishes()
    shop.drain()


def test_state_in_a_bucket_while_caches_and_the_drivers_disk_are_lost(a_bucket_shop: BucketShop) -> None:
    shop = a_bucket_shop
    shop.feed(3)
    shop.complete()
    assert ObjectFolder(f"{shop.bucket}/shop/state").names()
    run = shop.start("--follow")
    for _ in range(3):
        before = epoch_of(run)
        shop.feed(3)
        goes_beyond(run, before)
        caches = shop.cluster.caches()
        assert caches
        for cache in caches:
            shutil.rmtree(cache)
    run.kill()
    run.vanishes()
    shop.lose_disk()
    shop.feed(2)
    run = shop.start("--follow", failpoints="commit.aside=kill")  # topics have the epoch, views do not
    assert run.ends() == -signal.SIGKILL, run.errors
    run.vanishes()
    shop.lose_disk()
    shop.feed(1)
    shop.drain()


def test_a_bucket_that_is_away_for_a_while(a_bucket_shop: BucketShop) -> None:
    shop = a_bucket_shop
    shop.feed(3)
    run = shop.start("--follow")
    goes_beyond(run, 0)
    shop.server.stop()
    try:
        shop.feed(3)
        run.until(lambda: any("does not answer" in line for line in run.lines), "word of it")
    finally:
        shop.server.start()
    shop.feed(1)
    run.finish()
    assert run.ends() == 0, run.errors
    run.vanishes()
    shop.drain()


def test_joins_and_patterns(another_shop: OnCluster) -> None:
    shop = another_shop
    shop.begin()
    shop.feed(4)
    shop.complete()
    run = shop.start("--follow")
    for _ in range(2):
        before = epoch_of(run)
        shop.feed(2)
        goes_beyond(run, before)
        shop.cluster.executors()[0].kill()
    run.kill()
    shop.feed(1)
    shop.drain()


def test_machines_that_share_nothing(an_apart_shop: ApartShop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers see nothing of the driver's disk, and have no Python but the packed one."""
    shop = an_apart_shop
    shop.feed(3)
    run = shop.start("--follow")
    goes_beyond(run, 0)
    pythons = shop.cluster.pythons()
    assert pythons
    assert all(python.startswith(f"{shop.cluster.directory}/worker-") for python in pythons)
    shop.cluster.executors()[0].kill()
    shop.feed(2)
    run.finish()
    assert run.ends() == 0, run.errors
    run.vanishes()
    shop.lose_disk()
    shop.feed(1)
    shop.drain()
    for name, value in shop.cluster.environment.items():
        monkeypatch.setenv(name, value)
    assert {check.status for check in ask_executors(shop.cluster.url, shop.archive)} == {"ok"}
    monkeypatch.setenv("PYSPARK_PYTHON", "/usr/bin/python3")
    lacking = list(ask_executors(shop.cluster.url, None))
    assert {check.status for check in lacking} == {"failed"}
    assert all("riverrun" in check.found or "Python" in check.found for check in lacking)


def test_a_log_that_executors_do_not_see(a_lonely_shop: LonelyShop) -> None:
    shop = a_lonely_shop
    shop.feed(3)
    run = shop.start()
    assert run.ends() == 1
    last = run.errors.strip().splitlines()[-1]
    assert f"does not see {shop.path}, where its topics are" in last
    assert "Traceback" not in run.errors
