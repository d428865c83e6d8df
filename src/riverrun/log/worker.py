"""Workers of a queue: threads that give each message to a function. What returns is done; what raises comes again.

    with topic.queue("emails") as queue, QueueWorker(queue, send) as worker:
        worker.wait()

The pause before a message comes again doubles with every attempt. Its lease is kept up for as long as the function works
on it. A worker that is stopped takes no new message, and finishes those it has.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Self

from riverrun.durations import Duration, micros, show
from riverrun.errors import Closed, Fenced, Invalid, RiverrunError
from riverrun.log.queue import Message, Queue

log = logging.getLogger("riverrun.worker")

_GLANCE = 0.5  # seconds between two looks whether to stop
_PAUSE = 2.0  # seconds after an error of the river itself


def pause_after(attempt: int, first: int, longest: int) -> int:
    """Microseconds until a message comes again after an attempt that failed.

    >>> [pause_after(attempt, 1_000_000, 60_000_000) // 1_000_000 for attempt in range(1, 9)]
    [1, 2, 4, 8, 16, 32, 60, 60]
    """
    return min(first << min(attempt - 1, 40), longest)


@dataclass
class WorkCounts:
    """Messages that were done, attempts that failed, and those of them that were the last."""

    done: int = 0
    failed: int = 0
    dead: int = 0


class QueueWorker:
    """Works until it is stopped. `rate` is how many messages are begun in a second at most, by all threads together."""

    def __init__(
        self,
        queue: Queue,
        handle: Callable[[Message], Any],
        *,
        threads: int = 1,
        backoff: Duration = "1 second",
        longest: Duration = "5 minutes",
        rate: float | None = None,
        until_empty: bool = False,
    ) -> None:
        if threads < 1 or (rate is not None and rate <= 0):
            raise Invalid("a worker needs a thread, and a rate above 0")
        self.counts = WorkCounts()
        self._queue = queue
        self._handle = handle
        self._backoff, self._longest = micros(backoff), micros(longest)
        self._interval = 1 / rate if rate else 0.0
        self._until_empty = until_empty
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._next = 0.0  # when the rate allows another message
        self._held: set[Message] = set()
        self.failure: BaseException | None = None  # of a thread of its own: it stopped for that
        # Not `join`: a signal in the middle of that makes Python take the thread for ended.
        self._ended = threading.Condition()
        self._running = threads
        for number in range(threads):
            threading.Thread(target=self._run, name=f"riverrun-worker-{number}", daemon=True).start()
        threading.Thread(target=self._keep_leases, name="riverrun-worker-leases", daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def wait(self, timeout: float | None = None) -> bool:
        """Whether all threads have ended, waiting so long for it."""
        with self._ended:
            return self._ended.wait_for(lambda: self._running == 0, timeout)

    def stop(self, patience: float = 7.0) -> bool:
        """Take nothing new, and finish what is being worked on; whether that was done within so many seconds. What was not
        is given back when the queue is closed."""
        self._stopping.set()
        return self.wait(patience)

    def _run(self) -> None:
        try:
            self._work()
        except BaseException as error:
            log.error("the worker cannot go on: %s", _describe(error))
            log.debug("", exc_info=True)
            self.failure = error
            self._stopping.set()
        finally:
            with self._ended:
                self._running -= 1
                self._ended.notify_all()

    def _work(self) -> None:
        while not self._stopping.is_set():
            try:
                self._wait_for_the_rate()
                message = self._queue.receive(timeout=_GLANCE)
                if message is not None:
                    self._deal_with(message)
                elif self._until_empty and not self._queue.deliveries.outlook().unfinished:
                    return
            except Closed:
                return
            except RiverrunError as error:  # a disk that is full, a row that retention removed: the queue goes on
                log.warning("%s", error)
                self._stopping.wait(_PAUSE)

    def _deal_with(self, message: Message) -> None:
        with self._lock:
            self._held.add(message)
        try:
            self._handle(message)
        except BaseException as error:  # in a thread, none of them is for the process
            self._give_back(message, _describe(error))
        else:
            self._acknowledge(message)
        finally:
            with self._lock:
                self._held.discard(message)

    def _acknowledge(self, message: Message) -> None:
        try:
            message.ack()
        except Fenced as error:
            log.warning("%s", error)  # somebody else has it; it will be done twice
        with self._lock:
            self.counts.done += 1

    def _give_back(self, message: Message, reason: str) -> None:
        last = message.attempt >= self._queue.attempts
        pause = 0 if last else pause_after(message.attempt, self._backoff, self._longest)
        then = f"it goes to {self._queue.dead_letters}" if last else f"again in {show(pause)}"
        log.warning("%s, attempt %d: %s; %s", message.position, message.attempt, reason, then)
        try:
            message.nack(reason, delay=pause / 1e6)
        except Fenced as error:
            log.warning("%s", error)
        with self._lock:
            self.counts.failed += 1
            self.counts.dead += last

    def _keep_leases(self) -> None:
        """Of messages that are worked on, for as long as that takes. And a worker that waits for its rate is there, too."""
        while not self.wait(min(self._queue.lease / 3e6, 5.0)):
            with self._lock:
                held = list(self._held)
            for message in held:
                try:
                    message.extend()
                except RiverrunError:
                    continue  # it was settled just now, or is lost; whoever works on it will learn that
            with suppress(RiverrunError):  # it is told again
                self._queue.tell()

    def _wait_for_the_rate(self) -> None:
        if not self._interval:
            return
        with self._lock:
            now = time.monotonic()
            self._next = max(self._next + self._interval, now)
            pause = self._next - now
        self._stopping.wait(pause)


def _describe(error: BaseException) -> str:
    """Its kind and what it says, as far as that can be printed."""
    try:
        said = f": {error}".rstrip(": ")
    except Exception:  # it was written by somebody else
        said = ""
    return f"{type(error).__name__}{said}".encode(errors="backslashreplace").decode()
