"""Kafka goes away, comes back, is elsewhere, or refuses: calls wait, or give one clear error; nothing is lost or doubled."""

from __future__ import annotations

import signal
import socket
import subprocess
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kafka_server import KafkaServer, new_kafka
from riverrun.errors import NotFound, RecordTooLarge, Transient, Unavailable
from riverrun.log.kafka.backend import KafkaBackend
from riverrun.river import River
from riverrun.settings import Settings

pytest.importorskip("confluent_kafka", reason="the Kafka client is not installed: pip install '.[kafka]'")

SCHEMA = "k string, n bigint"


@pytest.fixture(scope="module")
def server() -> Iterator[KafkaServer]:
    """A broker that may be killed."""
    made = new_kafka()
    yield made
    made.remove()


@pytest.fixture
def url(server: KafkaServer) -> str:
    return f"{server.url}?prefix=f-{uuid.uuid4().hex[:8]}."


@pytest.fixture
def river(url: str, tmp_path: Path) -> Iterator[River]:
    with River(tmp_path / "river", log=url) as opened:
        yield opened


def rows(first: int, count: int) -> list[dict[str, Any]]:
    return [{"k": f"k{n % 17}", "n": n} for n in range(first, first + count)]


def test_nobody_there(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = Settings.load(environ={}, kafka_timeout="1 second")
    began = time.monotonic()
    with River(tmp_path / "river", log=f"kafka://127.0.0.1:{port}", settings=settings) as river:
        for call in (river.topics, lambda: river.topic("t", SCHEMA), river.groups.list):
            with pytest.raises(
                Transient, match=rf"Kafka at 127.0.0.1:{port} does not answer \(.*\)\. Is the broker running"
            ):
                call()
    assert time.monotonic() - began < 20


def test_a_host_that_does_not_exist(tmp_path: Path) -> None:
    settings = Settings.load(environ={}, kafka_timeout="1 second")
    with (
        River(tmp_path / "river", log="kafka://nowhere.invalid", settings=settings) as river,
        pytest.raises(Transient, match=r"Kafka at nowhere\.invalid:9092 does not answer \(.*resolve"),
    ):
        river.topics()


def test_an_unknown_topic_is_found_at_once(river: River) -> None:
    river.topic("orders", SCHEMA)
    began = time.monotonic()
    with pytest.raises(NotFound, match=r"there is no topic 'ordres'\. Did you mean 'orders'\?"):
        river.topic("ordres")
    assert time.monotonic() - began < 5


@pytest.mark.parametrize(
    ("numbered", "kills"),
    [
        pytest.param(True, 1, id="numbered"),
        pytest.param(True, 4, id="numbered-often", marks=pytest.mark.recovery),
        pytest.param(False, 4, id="unnamed-often", marks=pytest.mark.recovery),
    ],
)
def test_a_broker_that_is_killed(server: KafkaServer, river: River, numbered: bool, kills: int) -> None:
    """Appends go on when it is back. One that says that nothing was appended is done again, and no row is there twice."""
    topic = river.topic("t", SCHEMA, key="k", partitions=3)
    stop, failures, done = threading.Event(), [], 0

    def append() -> None:
        nonlocal done
        while not stop.is_set():
            claim: dict[str, Any] = {"producer": "app", "sequence": done} if numbered else {}
            try:
                topic.append(rows(done * 50, 50), **claim)
                done += 1
            except Transient as error:
                failures.append(error)
            except Unavailable as error:  # only who has no number may be left without an answer
                assert not numbered and "not known" in error.message
                return

    thread = threading.Thread(target=append)
    thread.start()
    try:
        for _ in range(kills):
            before = done
            while done < before + 5:
                assert thread.is_alive()
                time.sleep(0.01)
            server.stop(signal.SIGKILL)
            time.sleep(0.5)
            server.start()
        before = done
        while done < before + 3 and thread.is_alive():
            time.sleep(0.01)
    finally:
        stop.set()
        thread.join(120)
    found = Counter(topic.read().column("n").to_pylist())
    assert set(found.values()) == {1}
    assert sorted(found)[: done * 50] == list(range(done * 50))


def test_a_broker_that_stands_still(server: KafkaServer, tmp_path: Path, url: str) -> None:
    settings = Settings.load(environ={}, kafka_timeout="2 seconds")
    with River(tmp_path / "river", log=url, settings=settings) as river:
        topic = river.topic("t", SCHEMA, partitions=1)
        topic.append(rows(0, 1), producer="app", sequence=0)
        server.pause()
        try:
            began = time.monotonic()
            with pytest.raises(Transient, match="nothing was appended"):
                topic.append(rows(1, 1), producer="app", sequence=1)
            with pytest.raises(Transient):
                topic.read()
            assert time.monotonic() - began < 60
        finally:
            server.resume()
    with River(tmp_path / "river", log=url) as river:
        topic = river.topic("t")
        topic.append(rows(1, 1), producer="app", sequence=1)
        assert topic.read().column("n").to_pylist() == [0, 1]


def test_a_message_that_is_too_large(river: River) -> None:
    topic = river.topic("t", SCHEMA, partitions=1)
    assert isinstance(topic.backend, KafkaBackend)
    connection = topic.backend.cluster.connection
    connection.create(f"{connection.address.prefix}small", 1, {"max.message.bytes": 1000})
    small = river.topic("small", SCHEMA)
    with pytest.raises(RecordTooLarge, match="larger than Kafka takes"):
        small.append([{"k": "a", "n": 1}, {"k": "x" * 5000, "n": 2}])
    small.append({"k": "a", "n": 3})
    assert small.read().column("n").to_pylist() == [3]


def test_an_open_transaction_of_somebody_else_is_waited_for(server: KafkaServer, river: River) -> None:
    import confluent_kafka

    topic = river.topic("t", SCHEMA, partitions=1)
    assert isinstance(topic.backend, KafkaBackend)
    other = confluent_kafka.Producer({"bootstrap.servers": server.brokers, "transactional.id": uuid.uuid4().hex})
    other.init_transactions(30)
    other.begin_transaction()
    other.produce(topic.backend.topic, value=b'{"k":"foreign","n":7}', partition=0)
    other.flush(30)
    ended: list[Any] = []
    thread = threading.Thread(target=lambda: ended.append(topic.append(rows(0, 1))))
    thread.start()
    thread.join(1)
    assert ended == [] and topic.read().num_rows == 0
    other.abort_transaction(30)
    thread.join(30)
    assert ended and topic.read().column("n").to_pylist() == [0]


def test_a_consumer_that_dies_is_replaced_within_ten_seconds(
    river: River, url: str, tmp_path: Path, program: Callable[..., subprocess.Popen[str]]
) -> None:
    topic = river.topic("t", SCHEMA, key="k", partitions=2)
    topic.append(rows(0, 100))
    first = program("consume_kafka.py", tmp_path / "other", url, "t", "g")
    assert first.stdout is not None and int(first.stdout.readline()) > 0
    with topic.consumer("g") as second:
        second.poll("1 second")
        first.kill()
        began, got = time.monotonic(), 0
        while got < 100:
            batch = second.poll("20 seconds")
            assert batch is not None
            got += batch.num_rows
        assert time.monotonic() - began < 10
        second.commit()
