"""What the tour's processes do: `python -m riverrun.demo.tour.roles ROLE RIVER REPORT NAME …`, started by `stage`."""

from __future__ import annotations

import json
import os
import random
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from riverrun.errors import Fenced
from riverrun.river import River

Tell = Callable[[dict[str, Any]], None]

USERS = 500
BATCH = 10_000
ATTEMPTS = 3
LOST = "nowhere.example"


def produce(river: River, tell: Tell, name: str, stop: str) -> None:
    """Send orders one by one, about ten thousand a second."""
    chance, number = random.Random(name), 0
    with river.topic("orders").producer(name=name, linger="20 ms") as producer:
        while not os.path.exists(stop):
            for _ in range(200):
                at = datetime.now(UTC)
                user = f"user-{chance.randrange(USERS)}"
                amount = chance.randrange(1, 10_000) / 100
                producer.send({"sender": name, "number": number, "user": user, "amount": amount, "at": at})
                number += 1
            time.sleep(0.02)
        producer.flush()
    tell({"sent": number, "appended": producer.stats.appended})


def consume(river: River, tell: Tell, name: str, group: str, stop: str) -> None:
    """Be a member of a group: read, work a little, commit."""
    with river.topic("orders").consumer(group) as consumer:
        while not os.path.exists(stop):
            batch = consumer.poll("200 ms")
            if batch is None:
                continue
            spans = _spans(batch)
            tell({"read": spans})
            time.sleep(0.05)
            try:
                consumer.commit()
                tell({"committed": spans})
            except Fenced:
                tell({"fenced": spans})


def append(river: River, tell: Tell, name: str, sequence: str) -> None:
    """Append one batch over all partitions as a producer with a sequence, and say so when it is acknowledged."""
    at = pa.scalar(datetime.now(UTC), pa.timestamp("us", "UTC"))
    rows = pa.table(
        {
            "sender": pa.repeat(name, BATCH),
            "number": pa.array(range(BATCH), pa.int64()),
            "user": [f"user-{i % USERS}" for i in range(BATCH)],
            "amount": pa.repeat(1.0, BATCH),
            "at": pa.repeat(at, BATCH),
        }
    )
    position = river.topic("orders").append(rows, producer=name, sequence=int(sequence))
    tell({"acknowledged": str(position)})


def work(river: River, tell: Tell, name: str, group: str, stop: str) -> None:
    """Be a worker of a queue. Addresses that do not exist are given back, every time."""
    with river.topic("emails").queue(group, lease="10 s", attempts=ATTEMPTS) as queue:
        while not os.path.exists(stop):
            message = queue.receive(timeout=0.2)
            if message is None:
                continue
            tell({"taken": message.row["id"], "attempt": message.attempt})
            if message.row["address"].endswith(LOST):
                message.nack("no such address")
            else:
                message.ack()
                tell({"done": message.row["id"]})


def hoard(river: River, tell: Tell, name: str, group: str) -> None:
    """Take a message and never come back to it."""
    with river.topic("emails").queue(group, lease="10 s", attempts=ATTEMPTS) as queue:
        message = queue.receive(timeout=30)
        if message is not None:
            tell({"taken": message.row["id"], "attempt": message.attempt})
            time.sleep(600)


ROLES: dict[str, Callable[..., None]] = {
    "produce": produce,
    "consume": consume,
    "append": append,
    "work": work,
    "hoard": hoard,
}


def _spans(batch: pa.RecordBatch) -> list[tuple[int, int, int]]:
    """(partition, first offset, next offset) of what is in a batch."""
    pairs = pa.Table.from_batches([batch.select(["_partition", "_offset"])])
    ends = pairs.group_by("_partition").aggregate([("_offset", "min"), ("_offset", "max")])
    columns = (ends.column("_partition"), ends.column("_offset_min"), pc.add(ends.column("_offset_max"), 1))
    return list(zip(*(column.to_pylist() for column in columns), strict=True))


def main(role: str, path: str, report: str, *arguments: str) -> None:
    with open(report, "a", encoding="utf-8", buffering=1) as file, River(path) as river:
        ROLES[role](river, lambda told: file.write(json.dumps(told) + "\n"), *arguments)


if __name__ == "__main__":
    main(*sys.argv[1:])
