"""A river: its topics are opened once, closed with it, and gone for everybody when they are dropped."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import Popen

import pytest

from riverrun import failpoints
from riverrun.doctor import examine
from riverrun.errors import Closed, Invalid, NotFound
from riverrun.failpoints import Crashed
from riverrun.river import River
from riverrun.views import open_store


@pytest.fixture
def river(tmp_path: Path) -> Iterator[River]:
    with River(tmp_path / "river") as river:
        yield river


@pytest.fixture
def elsewhere(river: River) -> Iterator[River]:
    """The same river, as another process has it."""
    with River(river.path) as other:
        yield other


def test_secrets_in_an_address_are_in_no_error(tmp_path: Path) -> None:
    """A refused address was printed with its password."""
    with pytest.raises(Invalid, match="checkpoints: an address in s3:// has no login. Give it by") as refused:
        River(tmp_path / "river", checkpoints="s3a://ADALOVELACE:hunter2@bucket/flows")
    assert "hunter2" not in str(refused.value)
    assert "ADALOVELACE" not in str(refused.value)


@pytest.mark.parametrize("log", ["kafka://ada:hunter2@host", "rabbit://ada:hunter2@host"])
def test_secrets_in_the_address_of_a_log_are_in_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log: str
) -> None:
    monkeypatch.setenv("RIVERRUN_LOG", log)
    with pytest.raises(Invalid, match="Write kafka://HOST:9092") as refused:
        River(tmp_path / "river")
    assert "hunter2" not in str(refused.value)
    checks = list(examine(str(tmp_path / "river")))
    assert "failed" in {check.status for check in checks}
    assert "hunter2" not in str(checks)


def test_the_login_that_only_reads_views_is_a_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[object] = []
    empty = open_store(tmp_path / "views.db")
    monkeypatch.setattr("riverrun.views.open_store", lambda *given, **named: opened.append((*given, named)) or empty)
    monkeypatch.setenv("RIVERRUN_VIEWS", "postgresql://owner@host/db")
    monkeypatch.setenv("RIVERRUN_VIEWS_READ", "postgresql://viewer@host/db")
    with River(tmp_path / "river") as river:
        assert river.store
    assert opened == [("postgresql://owner@host/db", {"read": "postgresql://viewer@host/db"})]


@pytest.mark.parametrize("place", ["prepared", "written"])
def test_a_river_whose_maker_was_killed_is_made_by_the_next(tmp_path: Path, place: str) -> None:
    failpoints.arm(f"river.{place}=crash")
    with pytest.raises(Crashed):
        River(tmp_path / "river")
    failpoints.arm("")
    with River(tmp_path / "river") as river:
        river.topic("orders", "n bigint").append({"n": 1})
    with River(tmp_path / "river") as river:
        assert river.topics() == ["orders"]


def test_several_processes_may_make_the_same_river(tmp_path: Path, program: Callable[..., Popen[str]]) -> None:
    for attempt in range(3):
        path = tmp_path / f"river{attempt}"
        makers = [program("make.py", path, n) for n in range(4)]
        for maker in makers:
            assert maker.stdout is not None
            assert maker.stdout.readline() == "ready\n"
        (tmp_path / f"river{attempt}.go").touch()
        for maker in makers:
            _, err = maker.communicate(timeout=30)
            assert maker.returncode == 0, err
        with River(path) as river:
            assert sorted(river.topic("orders").read().column("n").to_pylist()) == [0, 1, 2, 3]


def test_a_topic_is_opened_once(river: River) -> None:
    orders = river.topic("orders", "n bigint")
    assert river.topic("orders") is river.topic("orders", "n bigint", partitions=4) is orders


def test_a_topic_that_was_closed_is_opened_again(river: River) -> None:
    with river.topic("orders", "n bigint") as orders:
        orders.append({"n": 1})
    assert river.topic("orders").read().num_rows == 1


def test_a_handle_from_before_the_schema_grew_is_closed_too_and_its_producers_send(tmp_path: Path) -> None:
    with River(tmp_path / "river") as river:
        before = river.topic("orders", "n bigint")
        before.producer(linger="1 hour").send({"n": 1})
        river.topic("orders", "n bigint, note string")
    with pytest.raises(Closed):
        before.append({"n": 2})
    with River(tmp_path / "river") as river:
        assert river.topic("orders").read().column("n").to_pylist() == [1]


@pytest.mark.parametrize("fsync", ["batch", "50 ms", "os"])
def test_a_topic_dropped_elsewhere_takes_no_rows_into_nowhere(river: River, elsewhere: River, fsync: str) -> None:
    orders = river.topic("orders", "n bigint", key="n", time=None, fsync=fsync)
    orders.append({"n": 1})
    elsewhere.drop_topic("orders")
    uses: list[Callable[[], object]] = [
        lambda: orders.append({"n": 2}),
        lambda: orders.delete(1),
        orders.read,
        orders.describe,
        orders.compact,
        lambda: orders.latest,
    ]
    for use in uses:
        with pytest.raises(NotFound, match="topic orders was dropped"):
            use()
    with pytest.raises(NotFound, match="no topic 'orders'"):
        river.topic("orders")


def test_a_topic_made_again_elsewhere_is_another_one(river: River, elsewhere: River) -> None:
    before = river.topic("orders", "n bigint", fsync="os")
    before.append({"n": 1})
    elsewhere.drop_topic("orders")
    elsewhere.topic("orders", "n bigint").append({"n": 2})
    with pytest.raises(NotFound, match="was dropped"):
        before.append({"n": 3})
    river.topic("orders").append({"n": 4})
    assert sorted(elsewhere.topic("orders").read().column("n").to_pylist()) == [2, 4]


def test_a_consumer_of_a_topic_dropped_elsewhere_says_so(river: River, elsewhere: River) -> None:
    orders = river.topic("orders", "n bigint")
    with orders.consumer("billing") as consumer:
        elsewhere.drop_topic("orders")
        with pytest.raises(NotFound, match="topic orders was dropped"):
            consumer.poll("5 seconds")


def test_a_consumer_by_pattern_goes_on_with_the_others(river: River, elsewhere: River) -> None:
    river.topic("shop.a", "n bigint")
    river.topic("shop.b", "n bigint")
    with river.consumer("billing", topics="shop.*") as consumer:
        elsewhere.drop_topic("shop.a")
        elsewhere.topic("shop.b").append({"n": 1})
        batch = consumer.poll("5 seconds")
        assert batch is not None
        assert (consumer.topic, batch.num_rows) == ("shop.b", 1)


@pytest.mark.parametrize("place", ["renamed", "removed", "forgotten"])
def test_a_drop_that_was_interrupted_is_finished_by_whoever_comes_next(tmp_path: Path, place: str) -> None:
    with River(tmp_path / "river") as river:
        river.topic("orders", "n bigint").append({"n": 1})
        failpoints.arm(f"drop.{place}=crash")
        with pytest.raises(Crashed):
            river.drop_topic("orders")
        failpoints.arm("")
    with River(tmp_path / "river") as river:
        with pytest.raises(NotFound):
            river.topic("orders")
        assert river.topics() == []
        assert os.listdir(f"{river.path}/topics") == []
        assert river.topic("orders", "v string").read().num_rows == 0
