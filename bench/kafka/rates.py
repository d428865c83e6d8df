"""B11: rows into topics on Kafka and out of them, beside the plain client with the same encoding, by turns.

An append returns when its rows can be read, each one a transaction; the plain client knows nothing of transactions and waits
once, at the end. What both wrote is read back and compared. The broker is the tests' own, on this machine, and takes its part
of the processors from both.
"""

from __future__ import annotations

import shutil
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any

import pyarrow as pa

from bench.effort import Effort
from bench.figure import Figure, Stopwatch, Took, alternate, check, rates
from bench.kafka import counting, plain
from bench.log import events
from bench.servers import broker_missing, kafka_broker
from riverrun.log.topic import Topic
from riverrun.river import River

TARGET = 0.8
APPEND = 10_000
_numbers = count(1)


@dataclass(frozen=True)
class KafkaCase:
    """What is appended, and how."""

    format: str
    source: str = "Arrow"
    transactional: bool = False  # the reference

    def __str__(self) -> str:
        given = "" if self.format == "arrow" else f" of {self.source}"
        return f"append {self.format.capitalize()}{given}, {APPEND // 1000} k rows each"


CASES = (
    KafkaCase("json"),
    KafkaCase("json", "dicts"),
    KafkaCase("avro"),
    KafkaCase("avro", "dicts"),
    KafkaCase("arrow"),
    KafkaCase("json", transactional=True),
)


def run(directory: str, effort: Effort) -> Iterator[Figure]:
    problem = broker_missing()
    if problem:
        print(f"kafka: not measured: {problem}", file=sys.stderr)
        return
    with kafka_broker() as server:
        with River(f"{directory}/river", log=server.url) as river:
            for case in CASES:
                yield _append(river, server.brokers, case, effort)
            yield _sends(river, server.brokers, effort)
            for format in ("json", "avro", "arrow"):
                yield _consume(river, server.brokers, format, effort)
        yield from counting.figures(f"{directory}/counting", server, effort)
    shutil.rmtree(f"{directory}/river")


def _make(river: River, format: str) -> Topic:
    # A batch of Arrow is one message, or one for each partition where rows have keys: plain clients have no such keys.
    key = None if format == "arrow" else "user"
    name = f"events-{next(_numbers)}"
    return river.topic(name, events.SCHEMA, key=key, time="at", format=format, partitions=4)


def _batches(rows: int, source: str = "Arrow") -> list[Any]:
    given = events.pieces(100, APPEND, source)
    return [given[i % len(given)] for i in range(max(1, rows // APPEND))]


def _append(river: River, brokers: str, case: KafkaCase, effort: Effort) -> Figure:
    mine, other = _make(river, case.format), _make(river, case.format)
    batches = _batches(effort.kafka_rows, case.source)
    rows = sum(map(len, batches))

    def append() -> Took:
        watch = Stopwatch()
        for batch in batches:
            mine.append(batch)
        return watch.read()

    reference = partial(plain.produce, brokers, other.name, case.format, batches, case.transactional)
    times = alternate(append, reference, effort.rounds)
    for topic in (mine, other):
        events.verify(topic, events.expected(100, rows * (effort.rounds + 1)))
        river.drop_topic(topic.name)
    against = "plain, a transaction each" if case.transactional else "plain"
    target = None if case.transactional else TARGET
    name = f"{case} / transactions" if case.transactional else str(case)
    return rates("kafka", name, rows, times, reference=against, target=target, target_is_ratio=target is not None)


def _sends(river: River, brokers: str, effort: Effort) -> Figure:
    """Row by row, as events come: a producer gathers them."""
    mine, other = _make(river, "json"), _make(river, "json")
    rows = [row for batch in _batches(effort.kafka_rows, "dicts") for row in batch]

    def send() -> Took:
        with mine.producer() as producer:
            watch = Stopwatch()
            for row in rows:
                producer.send(row)
            producer.flush()
            return watch.read()

    singly = [[row] for row in rows]
    times = alternate(send, lambda: plain.produce(brokers, other.name, "json", singly), effort.rounds)
    for topic in (mine, other):
        events.verify(topic, events.expected(100, len(rows) * (effort.rounds + 1)))
        river.drop_topic(topic.name)
    return rates("kafka", "send JSON of dicts, row by row", len(rows), times, reference="plain")


def _consume(river: River, brokers: str, format: str, effort: Effort) -> Figure:
    topic = _make(river, format)
    batches = _batches(2 * effort.kafka_rows)
    for batch in batches:
        topic.append(batch)
    rows = sum(map(len, batches))
    want = events.expected(100, rows)

    def mine() -> Took:
        found: list[pa.RecordBatch] = []
        with topic.consumer(uuid.uuid4().hex, start="earliest", timeout="60 seconds") as consumer:
            first = seen = 0
            watch = Stopwatch()
            for batch in consumer:
                found.append(batch)
                seen += batch.num_rows
                if not first:
                    first, watch = seen, Stopwatch()
                if seen >= rows:
                    break
            took = watch.read()
            consumer.commit()
        check(want, events.totals(pa.Table.from_batches(found)), "rows consumed")
        return _scaled(took, rows, rows - first)

    def other() -> Took:
        took, behind, found = plain.consume(brokers, topic.name, format, rows)
        check(want, _totals(found, format), "rows consumed by the plain client")
        return _scaled(took, rows, behind)

    times = alternate(mine, other, effort.rounds)
    river.drop_topic(topic.name)
    return rates(
        "kafka",
        f"consume {format.capitalize()}",
        rows,
        times,
        reference="plain",
        target=TARGET,
        target_is_ratio=True,
    )


def _scaled(took: Took, rows: int, counted: int) -> Took:
    """For all rows what it took for those behind the first ones: how many come first differs, and joining a group counts not."""
    factor = rows / max(counted, 1)
    return Took(took.seconds * factor, None if took.processor is None else took.processor * factor)


def _totals(found: list[Any], format: str) -> events.Totals:
    if format == "arrow":
        return events.totals(pa.concat_tables(found))
    if format == "avro":
        return events.Totals(len(found), sum(row["device"] for row in found), sum(row["quantity"] for row in found))
    return events.Totals(len(found), sum(row.device for row in found), sum(row.quantity for row in found))
