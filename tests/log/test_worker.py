"""A worker gives every message to a function, until it is stopped: what raises comes again, later and later."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from riverrun.errors import Invalid
from riverrun.log.queue import Message
from riverrun.log.topic import Topic
from riverrun.log.worker import QueueWorker
from riverrun.river import River
from waiting import until


@pytest.fixture
def topic(tmp_path: Path) -> Iterator[Topic]:
    with River(tmp_path / "river") as river:
        yield river.topic("mails", "n bigint", fsync="os")


def test_threads_share_the_messages_and_end_when_there_are_none(topic: Topic) -> None:
    topic.append([{"n": n} for n in range(100)])
    seen: list[int] = []
    with topic.queue("send") as queue:
        worker = QueueWorker(queue, lambda message: seen.append(message.row["n"]), threads=4, until_empty=True)
        assert worker.wait(30)
        assert worker.counts.done == 100
    assert sorted(seen) == list(range(100))


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize(
    ("raised", "reason"),
    [
        (FileNotFoundError("orders/\udcff"), r"FileNotFoundError: orders/\udcff"),
        (asyncio.CancelledError(), "CancelledError"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
        (Unspeakable(), "Unspeakable"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_whatever_is_raised_is_a_failed_attempt(
    topic: Topic, tmp_path: Path, raised: BaseException, reason: str
) -> None:
    topic.append([{"n": 1}, {"n": 2}])

    def send(message: Message) -> None:
        if message.row["n"] == 1:
            raise raised

    with topic.queue("send", attempts=1) as queue:
        worker = QueueWorker(queue, send, until_empty=True)
        assert worker.wait(30)
        assert (worker.counts.done, worker.counts.dead, worker.failure) == (1, 1, None)
        assert queue.receive(0) is None
    with River(tmp_path / "river") as river:
        assert river.topic("mails.dead.send").read()["dead_reason"].to_pylist() == [reason]


def test_a_worker_that_cannot_go_on_says_so(topic: Topic, monkeypatch: pytest.MonkeyPatch) -> None:
    topic.append([{"n": 1}])
    with topic.queue("send") as queue:

        def refuse(message: Message) -> None:
            raise MemoryError("nothing left")

        monkeypatch.setattr(Message, "ack", refuse)
        worker = QueueWorker(queue, lambda message: None, threads=3)
        assert worker.wait(30)  # all of them, though two had nothing to do
        assert isinstance(worker.failure, MemoryError)


def test_what_raises_comes_again_with_growing_pauses_and_ends_as_a_dead_letter(topic: Topic, tmp_path: Path) -> None:
    topic.append([{"n": 1}, {"n": 2}])
    tried: list[float] = []

    def send(message: Message) -> None:
        if message.row["n"] == 2:
            tried.append(time.monotonic())
            raise ValueError("no such address")

    with topic.queue("send", attempts=4) as queue:
        worker = QueueWorker(queue, send, backoff="50 ms", longest="100 ms", until_empty=True)
        assert worker.wait(30)
    assert (worker.counts.done, worker.counts.failed, worker.counts.dead) == (1, 4, 1)
    pauses = [later - earlier for earlier, later in itertools.pairwise(tried)]
    assert [pause >= least for pause, least in zip(pauses, (0.05, 0.1, 0.1), strict=True)] == [True] * 3
    with River(tmp_path / "river") as river:
        (letter,) = river.topic("mails.dead.send").read().to_pylist()
    assert (letter["n"], letter["dead_reason"]) == (2, "ValueError: no such address")


def test_a_lease_is_kept_for_as_long_as_the_function_works(topic: Topic) -> None:
    topic.append({"n": 1})
    leave, begun = threading.Event(), threading.Event()
    attempts: list[int] = []

    def send(message: Message) -> None:
        attempts.append(message.attempt)
        begun.set()
        leave.wait(30)

    with topic.queue("send", lease="200 ms") as queue, QueueWorker(queue, send) as worker:
        assert begun.wait(30)
        with topic.queue("send", lease="200 ms") as another:
            assert another.receive(timeout="700 ms") is None
        leave.set()
        until(lambda: worker.counts.done == 1)
    assert attempts == [1]


def test_stopped_it_finishes_what_it_has_and_takes_nothing_new(topic: Topic) -> None:
    topic.append([{"n": n} for n in range(10)])
    leave, begun = threading.Event(), threading.Event()

    def send(message: Message) -> None:
        begun.set()
        leave.wait(30)

    with topic.queue("send") as queue:
        worker = QueueWorker(queue, send)
        assert begun.wait(30)
        assert not worker.stop(patience=0.01)
        leave.set()
        assert worker.stop()
        assert worker.counts.done == 1
    with topic.queue("send") as queue:
        assert len(list(iter(lambda: queue.receive(timeout=0), None))) == 9


def test_the_rate_holds_for_all_threads_together(topic: Topic) -> None:
    topic.append([{"n": n} for n in range(10)])
    began = time.monotonic()
    with topic.queue("send") as queue:
        assert QueueWorker(queue, lambda message: None, threads=3, rate=50, until_empty=True).wait(30)
    assert time.monotonic() - began >= 9 / 50
    with topic.queue("send") as queue, pytest.raises(Invalid, match="a rate above 0"):
        QueueWorker(queue, lambda message: None, rate=0)
