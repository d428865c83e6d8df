"""Appending: positions, atomicity, order, partitions."""

from __future__ import annotations

import threading
from collections import Counter
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from contracts.conftest import Log
from riverrun.errors import Invalid, RecordTooLarge
from riverrun.log.partitioner import murmur2, murmur2_column, partition_of
from riverrun.position import Position
from riverrun.settings import Settings

AT = datetime(2024, 1, 1, tzinfo=UTC)

# As Kafka's own tests have them (UtilsTest.testMurmur2).
KAFKA_MURMUR2 = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


@pytest.fixture
def settings() -> Settings:
    return Settings.load(environ={}, max_record_bytes="10 kB")


def rows(*numbers: int, user: str = "ada") -> list[dict[str, Any]]:
    return [{"user": user, "n": n, "at": AT} for n in numbers]


def numbers(table: pa.Table) -> list[int]:
    return table.column("n").to_pylist()


def test_a_new_topic_is_empty(log: Log) -> None:
    topic = log.topic(partitions=2)
    assert topic.earliest == topic.latest == Position.parse("t@0:0,1:0")
    assert topic.read().num_rows == 0


def test_the_position_is_just_behind_the_batch(log: Log) -> None:
    topic = log.topic(key="user", partitions=1)
    first, second = topic.append(rows(1, 2, 3)), topic.append(rows(4))
    offsets = topic.read().column("_offset").to_pylist()
    assert (first, second) == (Position({"t": {0: offsets[2] + 1}}), Position({"t": {0: offsets[3] + 1}}))
    assert log.ways.gaps or (first, second) == (Position.parse("t@0:3"), topic.latest)
    assert numbers(topic.read(start=first)) == [4]
    assert numbers(topic.read(start=second)) == numbers(topic.read(start=topic.latest)) == []


def test_the_position_names_every_partition_and_covers_the_batch(log: Log) -> None:
    topic = log.topic(key="user", partitions=4)
    position = topic.append([row for i in range(50) for row in rows(i, user=f"u{i}")])
    assert sorted(position["t"]) == [0, 1, 2, 3]
    assert sum(position["t"].values()) == 50
    assert numbers(topic.read(end=position)) == numbers(topic.read())


def test_offsets_are_dense_and_rise_within_a_partition(log: Log) -> None:
    topic = log.topic(key="user", partitions=3)
    for i in range(20):
        topic.append([row for j in range(i % 4) for row in rows(j, user=f"u{i}{j}")])
    table = topic.read()
    for partition in range(3):
        offsets = table.filter(pa.compute.equal(table.column("_partition"), partition)).column("_offset").to_pylist()
        assert offsets == (sorted(set(offsets)) if log.ways.gaps else list(range(len(offsets))))


def test_an_empty_batch_writes_nothing(log: Log) -> None:
    topic = log.topic()
    topic.append(rows(1))
    before = topic.latest
    assert topic.append([]) == before
    assert topic.append(topic.schema.empty_table()) == before
    assert topic.latest == before


def test_rows_of_a_key_stay_together_and_in_order(log: Log) -> None:
    topic = log.topic(key="user", partitions=4)
    for i in range(30):
        topic.append([{"user": f"u{(i + j) % 7}", "n": i * 3 + j, "at": AT} for j in range(3)])
    table = topic.read().select(["user", "n", "_partition", "_offset"]).to_pylist()
    for user in {row["user"] for row in table}:
        mine = sorted((row["_offset"], row["n"]) for row in table if row["user"] == user)
        assert len({row["_partition"] for row in table if row["user"] == user}) == 1
        assert [n for _, n in mine] == sorted(n for _, n in mine)


def test_murmur2_is_kafkas() -> None:
    keys = list(KAFKA_MURMUR2)
    signed = [h - (1 << 32) if h >= 1 << 31 else h for h in map(murmur2, keys)]
    assert signed == list(KAFKA_MURMUR2.values())
    assert murmur2_column(pa.array([key.decode() for key in keys])).astype("int32").tolist() == signed


@pytest.mark.parametrize("count", [1, 7, 200])
def test_a_key_goes_where_kafka_would_put_it(log: Log, count: int) -> None:
    topic = log.topic(key="user", partitions=5)
    users = [f"user-{i}-Ã¼ñ" for i in range(count)]
    topic.append([row for user in users for row in rows(0, user=user)])
    found = topic.read().select(["user", "_partition"]).to_pylist()
    assert {r["user"]: r["_partition"] for r in found} == {u: partition_of(u.encode(), 5) for u in users}


def test_the_key_column_is_the_keys_text(log: Log) -> None:
    topic = log.topic(schema="a string, b int, n bigint", key=["a", "b"], partitions=1)
    topic.append([{"a": 'x"y\\', "b": 7, "n": 1}])
    assert topic.read().column("_key").to_pylist() == ['["x\\"y\\\\",7]']
    single = log.topic("s", "b bigint", key="b", partitions=3)
    single.append([{"b": b} for b in range(40)])
    for row in single.read().to_pylist():
        assert row["_key"] == str(row["b"])
        assert row["_partition"] == partition_of(str(row["b"]).encode(), 3)


def test_without_a_key_a_batch_stays_whole_and_batches_go_round(log: Log) -> None:
    topic = log.topic(partitions=4)
    for i in range(8):
        topic.append(rows(*[i] * 5))
    table = topic.read().select(["n", "_partition"]).to_pylist()
    partitions = [{row["_partition"] for row in table if row["n"] == i} for i in range(8)]
    assert all(len(p) == 1 for p in partitions)
    assert sorted(p.pop() for p in partitions) == [0, 0, 1, 1, 2, 2, 3, 3]


def test_without_a_key_a_numbered_batch_has_its_partition_whoever_appends_it(log: Log) -> None:
    topic = log.topic(partitions=3)
    topic.append(rows(99))
    for i in range(6):
        topic.append(rows(i), producer="p", sequence=7 + i)
    went = {row["n"]: row["_partition"] for row in topic.read().select(["n", "_partition"]).to_pylist()}
    assert [went[i] for i in range(6)] == [(7 + i) % 3 for i in range(6)]


def test_a_batch_that_is_refused_leaves_nothing_behind(log: Log) -> None:
    topic = log.topic(key="user", time="at", partitions=4)
    good = [row for i in range(100) for row in rows(i, user=f"u{i}")]
    for bad in ({"user": "z", "n": "one", "at": AT}, {"user": None, "n": 1, "at": AT}, {"user": "z", "n": 1}):
        with pytest.raises(Invalid, match="row 100"):
            topic.append([*good, bad])
    with pytest.raises(RecordTooLarge, match=r"row 100.*limit of 10000"):
        topic.append([*good, *rows(1, user="x" * 10_001)])
    assert topic.latest == topic.earliest
    topic.append(good)
    assert topic.read().num_rows == 100


def test_many_large_rows_are_no_large_record(log: Log) -> None:
    topic = log.topic(key="user")
    topic.append(rows(*range(50), user="x" * 9_000))
    assert topic.read().num_rows == 50


def test_readers_see_whole_batches_only(log: Log) -> None:
    topic = log.topic(key="user", partitions=4)
    reader = log.reopened()
    stop = threading.Event()
    torn: list[dict[int, int]] = []
    whole = Counter(partition_of(f"u{j}".encode(), 4) for j in range(40))

    def watch() -> None:
        while not stop.is_set():
            seen = Counter(reader.read(columns=["_partition"]).column(0).to_pylist())
            batches = {seen[partition] / whole[partition] for partition in whole}
            if not all(count.is_integer() for count in batches) or (len(batches) > 1 and not log.ways.piecemeal):
                torn.append(seen)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        for i in range(30):
            topic.append([row for j in range(40) for row in rows(i, user=f"u{j}")])
    finally:
        stop.set()
        watcher.join()
    assert torn == []
    assert reader.read().num_rows == 30 * 40


def test_appends_from_several_threads_and_handles_all_arrive_once(log: Log) -> None:
    handles = [log.topic(key="user", partitions=3), log.reopened(), log.reopened()]

    def work(number: int) -> None:
        for i in range(20):
            handles[number].append(rows(number * 100 + i, user=f"u{number}"))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = numbers(log.reopened().read())
    assert sorted(found) == [number * 100 + i for number in range(3) for i in range(20)]


def test_receive_times_do_not_go_back(log: Log) -> None:
    topic = log.topic(key="user", partitions=2)
    for i in range(10):
        topic.append(rows(i, user=f"u{i}"))
    table = topic.read().sort_by("n")
    received = table.column("_received").to_pylist()
    assert received == sorted(received)


def test_a_topic_is_a_context_manager_and_a_second_close_does_nothing(log: Log) -> None:
    log.topic()
    with log.reopened() as topic:
        topic.append(rows(1))
    topic.close()
