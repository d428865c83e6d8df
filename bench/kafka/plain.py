"""The same rows by the client alone, as somebody writes it who knows it: a fast encoder, no call for each delivery, one flush
at the end; `transactional` with a transaction around each batch."""

from __future__ import annotations

import io
import uuid
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any

import confluent_kafka
import msgspec
import pyarrow as pa
from pyarrow import ipc

from bench.figure import Stopwatch, Took
from bench.log.events import SCHEMA
from riverrun import ddl

Encoded = Sequence[tuple[bytes | None, bytes]]  # keys and values
PATIENCE = 60.0
ARROW_BYTES = 512 << 10  # in one message


class Event(msgspec.Struct):
    """A row, with the types it has."""

    user: str
    device: int
    amount: float
    quantity: int
    at: datetime
    note: str


def encoder(format: str) -> Callable[[Any], Encoded]:
    """What makes messages of a batch: a list of dicts, or an Arrow batch."""
    if format == "arrow":
        return _as_arrow
    if format == "avro":
        return _as_avro()
    encode = msgspec.json.Encoder().encode
    return lambda rows: [(row["user"].encode(), encode(row)) for row in _dicts(rows)]


def decoder(format: str) -> Callable[[Sequence[bytes]], Sequence[Any]]:
    """What makes rows of values: typed ones of JSON, dicts of Avro, tables of Arrow."""
    if format == "arrow":
        return lambda values: [ipc.open_stream(value).read_all() for value in values]
    if format == "avro":
        import fastavro

        schema = _avro_schema()
        return lambda values: [fastavro.schemaless_reader(io.BytesIO(value), schema) for value in values]
    decode = msgspec.json.Decoder(Event).decode
    return lambda values: [decode(value) for value in values]


def produce(brokers: str, topic: str, format: str, batches: Iterable[Any], transactional: bool = False) -> Took:
    """Produce batches; what is measured ends when the broker has all of them."""
    encode = encoder(format)
    options = {
        "bootstrap.servers": brokers,
        "partitioner": "murmur2_random",
        "linger.ms": 5,
        "acks": "all",
        "message.max.bytes": 64 << 20,
        "queue.buffering.max.messages": 1_000_000,
        "delivery.report.only.error": True,
    }
    if transactional:
        options["transactional.id"] = uuid.uuid4().hex
    failed: list[Any] = []

    def report(error: Any, _: Any) -> None:
        failed.append(error)

    producer = confluent_kafka.Producer({**options, "on_delivery": report})
    if transactional:
        producer.init_transactions(PATIENCE)
    producer.list_topics(topic, PATIENCE)
    send = producer.produce
    watch = Stopwatch()
    for batch in batches:
        if transactional:
            producer.begin_transaction()
        for key, value in encode(batch):
            try:
                send(topic, value, key)
            except BufferError:
                producer.poll(0.1)
                send(topic, value, key)
        producer.poll(0)
        if transactional:
            producer.commit_transaction(PATIENCE)
    left = producer.flush(PATIENCE)
    took = watch.read()
    if left or failed:
        raise RuntimeError(f"{left} messages were not sent: {failed[:1]}")
    return took


def consume(brokers: str, topic: str, format: str, rows: int) -> tuple[Took, int, list[Any]]:
    """Consume so many rows as a member of a new group. What it took after the first ones came, how many came behind them,
    and all rows."""
    decode = decoder(format)
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": brokers,
            "group.id": uuid.uuid4().hex,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 50,
            "queued.max.messages.kbytes": 32 << 10,
        }
    )
    consumer.subscribe([topic])
    found: list[Any] = []
    count = first = 0
    watch = Stopwatch()
    try:
        while count < rows:
            came = consumer.consume(8192, 0) or [consumer.poll(0.1)]
            decoded = decode([message.value() for message in came if message is not None and message.error() is None])
            found += decoded
            count += sum(table.num_rows for table in decoded) if format == "arrow" else len(decoded)
            if count and not first:
                first, watch = count, Stopwatch()
        took = watch.read()
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()
    return took, count - first, found


def _dicts(rows: Any) -> Any:
    return rows if isinstance(rows, list) else rows.to_pylist()


def _avro_schema() -> Any:
    import fastavro

    from riverrun.log.kafka.avro_values import avro_schema

    return fastavro.parse_schema(avro_schema(ddl.parse(SCHEMA)))


def _as_avro() -> Callable[[Any], Encoded]:
    import fastavro

    schema = _avro_schema()

    def encode(rows: Any) -> Encoded:
        messages = []
        for row in _dicts(rows):
            out = io.BytesIO()
            fastavro.schemaless_writer(out, schema, row)
            messages.append((row["user"].encode(), out.getvalue()))
        return messages

    return encode


def _as_arrow(rows: pa.RecordBatch) -> Encoded:
    step = max(1, rows.num_rows * ARROW_BYTES // max(rows.nbytes, 1))
    messages = []
    for at in range(0, rows.num_rows, step):
        sink = pa.BufferOutputStream()
        with ipc.new_stream(sink, rows.schema) as stream:
            stream.write_batch(rows.slice(at, step))
        messages.append((None, sink.getvalue().to_pybytes()))
    return messages
