"""Single rows through a lingering producer; against one write a row into a buffered file."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

from bench.effort import Effort
from bench.figure import Figure, Stopwatch, Took, alternate, check, rates
from bench.log import events
from riverrun.river import River

TARGET = 150_000.0


def run(directory: str, effort: Effort) -> Iterator[Figure]:
    yield _figure(directory, effort, "os", "5 ms")
    yield _figure(directory, effort, "batch", "5 ms")
    if effort.every_case:
        yield _figure(directory, effort, "os", "50 ms")


def _figure(directory: str, effort: Effort, fsync: str, linger: str) -> Figure:
    size = 0

    def send() -> Took:
        nonlocal size
        took, size = _send(f"{directory}/river", effort.sends, fsync, linger)
        return took

    times = alternate(send, lambda: _write(f"{directory}/plain", size, effort.sends), effort.rounds)
    case = f"100 B, one by one, linger={linger}, fsync={fsync}"
    target = TARGET if fsync == "os" else None
    return rates("sends", case, effort.sends, times, reference="plain", target=target)


def _send(path: str, sends: int, fsync: str, linger: str) -> tuple[Took, int]:
    """Until everything is appended; and the bytes that one row took."""
    rows = events.pieces(100, 1, "dicts")
    count = len(rows)
    with River(path) as river:
        topic = events.make(river, "events", fsync)
        watch = Stopwatch()
        with topic.producer(linger=linger) as producer:
            for i in range(sends):
                producer.send(rows[i % count])
        took = watch.read()
        check((sends, sends), (producer.stats.sent, producer.stats.appended), "rows sent and appended")
        events.verify(topic, events.expected(100, sends))
        size = topic.describe()["bytes"] // sends
    shutil.rmtree(path)
    return took, size


def _write(path: str, size: int, times: int) -> Took:
    row = bytes(size)
    watch = Stopwatch()
    with open(path, "wb") as file:
        for _ in range(times):
            file.write(row)
    took = watch.read()
    os.unlink(path)
    return took
