"""From an append to its delivery in another process, against a pipe; and what a reader costs that waits for nothing."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator

import numpy as np

from bench.crew import Crew
from bench.effort import Effort
from bench.figure import Figure, check, spread
from riverrun.log.consumer import Consumer
from riverrun.river import River

TARGET = 0.020
IDLE_TARGET = 1.0
_PAUSE = 0.002  # between two, so that the reader sleeps again
_STUCK = "30 s"
_STAMP = 8


def run(directory: str, effort: Effort) -> Iterator[Figure]:
    with Crew(1) as crew:
        for fsync in ("os", "batch"):
            yield from _wakes(directory, effort, crew, fsync)
        yield _idle(directory, effort, crew)


def _wakes(directory: str, effort: Effort, crew: Crew, fsync: str) -> Iterator[Figure]:
    def log() -> np.ndarray:
        return _through_log(f"{directory}/river", crew, fsync, effort.wakes)

    def pipe() -> np.ndarray:
        return _through_pipe(f"{directory}/pipe", crew, effort.wakes)

    log(), pipe()
    rounds = [(log(), pipe()) for _ in range(effort.rounds)]
    for percentile, target in ((50, None), (99, TARGET)):
        mine, other = (
            [float(np.percentile(side, percentile)) for side in sides] for sides in zip(*rounds, strict=True)
        )
        yield Figure(
            benchmark="latency",
            case=f"append → consumer, p{percentile}, fsync={fsync}",
            unit="s",
            value=float(np.median(mine)),
            spread=spread(mine),
            reference="pipe",
            reference_value=float(np.median(other)),
            ratio=float(np.median(np.divide(mine, other))),
            target=target,
            less_is_better=True,
        )


def _through_log(path: str, crew: Crew, fsync: str, wakes: int) -> np.ndarray:
    """Seconds from just before each append to its row in the consumer's hands."""
    with River(path) as river:
        topic = river.topic("stamps", "sent bigint", fsync=fsync)
        crew.prepare(_join, path)
        crew.begin(_consume)
        sent = _pace(wakes, lambda stamp: topic.append({"sent": stamp}))
        topic.append({"sent": 0})
        (received,) = crew.results()
    shutil.rmtree(path)
    return _delays(sent, received)


def _join(number: int, path: str) -> tuple[River, Consumer]:
    river = River(path)
    return river, river.topic("stamps").consumer("readers", timeout=_STUCK)


def _consume(prepared: tuple[River, Consumer]) -> dict[int, int]:
    """When each row came, by its stamp; a zero is the last."""
    river, consumer = prepared
    came: dict[int, int] = {}
    with river, consumer:
        for batch in consumer:
            now = time.monotonic_ns()
            stamps = batch.column("sent").to_pylist()
            came.update((stamp, now) for stamp in stamps)
            if 0 in stamps:
                break
    came.pop(0, None)
    return came


def _through_pipe(path: str, crew: Crew, wakes: int) -> np.ndarray:
    """The same stamps as bytes through a named pipe."""
    os.mkfifo(path)
    holder = os.open(path, os.O_RDWR)  # so that nobody has to wait for the other end
    try:
        crew.prepare(_open_pipe, path)
        crew.begin(_read_pipe)
        sent = _pace(wakes, lambda stamp: os.write(holder, stamp.to_bytes(_STAMP, "little")))
        os.write(holder, bytes(_STAMP))
        (received,) = crew.results()
    finally:
        os.close(holder)
        os.unlink(path)
    return _delays(sent, received)


def _open_pipe(number: int, path: str) -> int:
    return os.open(path, os.O_RDONLY)


def _read_pipe(fd: int) -> dict[int, int]:
    came: dict[int, int] = {}
    try:
        while stamp := int.from_bytes(os.read(fd, _STAMP), "little"):
            came[stamp] = time.monotonic_ns()
    finally:
        os.close(fd)
    return came


def _pace(count: int, send: Callable[[int], object]) -> list[int]:
    """Send the time, again and again, with pauses; gives what was sent."""
    sent = []
    for _ in range(count):
        time.sleep(_PAUSE)
        stamp = time.monotonic_ns()
        send(stamp)
        sent.append(stamp)
    return sent


def _delays(sent: list[int], came: dict[int, int]) -> np.ndarray:
    check(sent, sorted(came), "stamps that came")
    return np.array([came[stamp] - stamp for stamp in sent]) / 1e9


def _idle(directory: str, effort: Effort, crew: Crew) -> Figure:
    """Processor time of a process whose consumer waits for a topic where nothing happens."""
    path = f"{directory}/river"
    with River(path) as river:
        river.topic("stamps", "sent bigint")
        used: list[float] = []
        for _ in range(min(effort.rounds, 3)):
            crew.prepare(_join_for, path, effort.idle_seconds)
            crew.begin(_wait_in_vain)
            used += crew.results()
    shutil.rmtree(path)
    return Figure(
        benchmark="latency",
        case="a consumer that waits: processor time",
        unit="%",
        value=float(np.median(used)),
        spread=spread(used),
        target=IDLE_TARGET,
        less_is_better=True,
    )


def _join_for(number: int, path: str, seconds: float) -> tuple[River, Consumer, float]:
    return *_join(number, path), seconds


def _wait_in_vain(prepared: tuple[River, Consumer, float]) -> float:
    river, consumer, seconds = prepared
    with river, consumer:
        consumer.poll(0)  # what happens once, when a consumer begins
        used, begin = time.process_time(), time.monotonic()
        check(None, consumer.poll(seconds), "a batch from an empty topic")
        return 100 * (time.process_time() - used) / (time.monotonic() - begin)
