"""A buffered sender for single rows.

    with topic.producer(linger="5 ms") as producer:
        producer.send({"user": "ada", "amount": 9.5, "at": now})

`send` checks the row, puts it into memory and returns. A thread appends what has come together after `linger`, or
sooner when there is enough of it. `flush` and `close` return when everything is appended, or raise what went wrong.

When memory is full (setting `producer_memory`), `on_full` decides: "block" waits, "drop" leaves the row out and counts
it, "spill" puts it into a file in the topic's directory (setting `spill_bytes`), to be sent later, in order.

Errors that may pass (a full disk, a held lock) are tried again. Any other stops the producer and is raised by every
call that follows. With a `name`, a repeated append has no effect, and a newer producer of the name shuts out the older.
What a crash leaves in a spill file is sent, once, by the next producer of the name; without a name, by the next one
that spills on this topic. Rows that were only in memory are lost in a crash, like any write that was not flushed.
"""

from __future__ import annotations

import atexit
import logging
import os
import sys
import threading
import weakref
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from riverrun.durations import Duration, micros, seconds
from riverrun.errors import Closed, Invalid, RiverrunError, TimedOut, Transient, did_you_mean
from riverrun.log import leftovers
from riverrun.log.leftovers import Leftover, sequence_of
from riverrun.log.producers import Claim
from riverrun.log.spill import Spill

if TYPE_CHECKING:
    from riverrun.log.topic import Topic

log = logging.getLogger("riverrun.log")

POLICIES = ("block", "drop", "spill")
LAST_CALL = "10 seconds"  # how long the end of a program waits for rows that cannot be appended

_ROW = 48  # bytes that a row takes in the buffer beside its own
_BATCH_ROWS = 8192
_BATCH_BYTES = 4 << 20
_FIRST_PAUSE, _LONGEST_PAUSE = 0.01, 1.0


@dataclass(frozen=True, slots=True)
class ProducerStats:
    """What became of the rows: sent = appended + dropped + pending_rows."""

    sent: int
    appended: int
    dropped: int
    spilled: int  # of those sent, how many had to wait on disk
    recovered: int  # rows of a crashed producer that were sent too
    pending_rows: int
    pending_bytes: int  # in memory
    batches: int
    retries: int
    errors: int
    last_error: str | None


class Producer:
    """See the module. Threads may share one. A forked child has an empty buffer; its parent's rows are sent once."""

    def __init__(
        self, topic: Topic, on_full: str = "block", linger: Duration = "5 ms", name: str | None = None
    ) -> None:
        if on_full not in POLICIES:
            raise Invalid(f"on_full cannot be {on_full!r}", hint=did_you_mean(str(on_full), POLICIES))
        self.topic = topic
        self.on_full = on_full
        self.name = name
        self._linger = micros(linger) / 1e6
        self._limit = topic.settings.producer_memory
        self._enough = min(_BATCH_BYTES, self._limit // 2)  # so much need not linger
        self._pack = topic.packing.pack
        claim = leftovers.take_over(topic, name) if name is not None else None
        self._fence = claim.fence if claim else 0
        self._start()
        if claim:
            self._left.extend(leftovers.named_leftovers(topic, claim))
        elif on_full == "spill":
            self._left.extend(leftovers.unnamed_leftovers(topic))
        if self._left:
            self._ensure_thread()
        topic.producers_open.add(self)
        _open.add(self)

    def _start(self) -> None:
        self._lock = threading.Lock()
        self._work = threading.Condition(self._lock)  # for the thread: something to do
        self._news = threading.Condition(self._lock)  # for everybody else: something was done
        self._thread: threading.Thread | None = None
        self._buffer: deque[bytes] = deque()
        self._held = 0  # bytes in memory, including those that are being appended
        self._spill: Spill | None = None
        self._left: deque[Leftover] = deque()
        self._spill_name = leftovers.spill_name(self.name, self._fence)
        self._sent = self._appended = self._dropped = self._spilled = self._recovered = 0
        self._batches = self._retries = self._errors = 0
        self._last_error: BaseException | None = None
        self._failure: BaseException | None = None
        self._resting = self._lingering = False
        self._closing = self._abandoned = False
        self._hurried = 0  # how many wait for a flush

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<producer {self.name} of {self.topic.name}>" if self.name else f"<producer of {self.topic.name}>"

    @property
    def stats(self) -> ProducerStats:
        with self._lock:
            return ProducerStats(
                sent=self._sent,
                appended=self._appended,
                dropped=self._dropped,
                spilled=self._spilled,
                recovered=self._recovered,
                pending_rows=self._unsent,
                pending_bytes=self._held,
                batches=self._batches,
                retries=self._retries,
                errors=self._errors,
                last_error=str(self._last_error) if self._last_error else None,
            )

    def send(self, row: Mapping[str, Any], timeout: Duration | None = None) -> None:
        """Check the row and take it. Waits only when memory is full and the policy says so, at most `timeout`."""
        packed = self._pack(row)
        size = len(packed) + _ROW
        with self._lock:
            if self._closing or self._failure:
                self._refuse()
            if (self._held + size > self._limit or self._spill) and not self._make_room(packed, size, timeout):
                return
            self._buffer.append(packed)
            self._held += size
            self._sent += 1
            if self._resting or (self._lingering and self._has_enough()):
                self._resting = self._lingering = False
                self._work.notify()
            elif self._thread is None:
                self._ensure_thread()

    def flush(self, timeout: Duration | None = None) -> None:
        """Return when every row sent before is appended."""
        with self._lock:
            accepted = self._sent - self._dropped
            self._hurried += 1
            self._work.notify()
            try:
                done = self._news.wait_for(
                    lambda: self._failure or (self._appended >= accepted and not self._left), seconds(timeout)
                )
            finally:
                self._hurried -= 1
            if self._failure:
                self._refuse()
            if not done:
                raise self._timed_out()

    def close(self, timeout: Duration | None = None) -> None:
        """Flush and end; a second close does nothing. What `timeout` leaves unsent is an error that says how much."""
        with self._lock:
            if self._closing:
                return
            self._closing = True
            self._work.notify()
            self._news.notify_all()
            done = self._news.wait_for(lambda: self._failure or self._is_drained(), seconds(timeout))
            self._abandoned = not done
            self._work.notify()
        if self._thread is not None:
            self._thread.join()
        self.topic.producers_open.discard(self)
        _open.discard(self)
        for spill in self._spills():
            spill.close()
        if not done:
            raise self._timed_out()
        if self._failure and not self._is_drained():
            self._refuse()

    # Taking rows. All of this holds the lock.

    def _make_room(self, packed: bytes, size: int, timeout: Duration | None) -> bool:
        """Whether the row goes into memory; False when it was dropped or spilled."""
        if self.on_full == "drop":
            if self._held:
                if not self._dropped:
                    log.warning("topic %s: a producer's memory is full, rows are dropped", self.topic.name)
                self._sent += 1
                self._dropped += 1
            return not self._held

        def settled() -> bool:
            return bool(self._closing or self._failure or self._fits(size) or self._put_aside(packed))

        before = self._spilled
        if not self._news.wait_for(settled, seconds(timeout)):
            raise TimedOut(f"topic {self.topic.name}: a producer's memory was full for {timeout}", hint=self._why())
        if self._spilled == before and (self._closing or self._failure):
            self._refuse()
        return self._spilled == before

    def _fits(self, size: int) -> bool:
        # Where rows wait on disk, this one comes after them.
        return self._spill is None and (self._held == 0 or self._held + size <= self._limit)

    def _put_aside(self, packed: bytes) -> bool:
        if self.on_full != "spill":
            return False
        if self._spill is None:
            self._spill = Spill.create(self.topic.spill_directory, self._spill_name, self.topic.settings.spill_bytes)
        if not self._spill.add(sequence_of(self._fence, self._sent - self._dropped + 1), packed):
            return False
        self._sent += 1
        self._spilled += 1
        self._ensure_thread()
        return True

    def _refuse(self) -> None:
        error = self._failure
        if error is None:
            raise Closed(f"{self!r} is closed")
        if not isinstance(error, RiverrunError) or not self._unsent:
            raise error
        raise type(error)(f"{error.message}; {self._unsent} rows that were sent are not in the topic", hint=error.hint)

    def _timed_out(self) -> TimedOut:
        return TimedOut(f"topic {self.topic.name}: {self._unsent} rows are not appended yet", hint=self._why())

    def _why(self) -> str | None:
        return f"The last error was: {self._last_error}" if self._last_error else None

    def _spills(self) -> list[Spill]:
        return [*([self._spill] if self._spill else []), *(spill for spill, _ in self._left)]

    # Appending, in the thread.

    def _ensure_thread(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=f"riverrun-send-{self.topic.name}", daemon=True)
            self._thread.start()
            if "multiprocessing.util" in sys.modules:
                # Children of multiprocessing end without atexit.
                from multiprocessing.util import Finalize

                Finalize(self, _last_call, args=(weakref.ref(self),), exitpriority=10)

    def _run(self) -> None:
        try:
            while self._next():
                pass
        except BaseException as error:
            with self._lock:
                self._errors += 1
                self._last_error = self._failure = error
                self._news.notify_all()
            log.error("topic %s: a producer stopped: %s", self.topic.name, error)

    def _has_enough(self) -> bool:
        return len(self._buffer) >= _BATCH_ROWS or self._held >= self._enough

    @property
    def _unsent(self) -> int:
        return self._sent - self._dropped - self._appended

    def _is_drained(self) -> bool:
        return not self._unsent and not self._left

    def _next(self) -> bool:
        """Append one batch; False when there is nothing left and the producer is closed."""
        with self._lock:
            while self._is_drained():
                if self._closing:
                    return False
                self._resting = True
                self._work.wait()
                self._resting = False
            hurry = self._closing or self._hurried or self._left or self._spill or self._has_enough()
            if self._linger and not hurry:
                self._lingering = True
                self._work.wait(self._linger)
                self._lingering = False
            spill = None if self._left or self._buffer else self._spill
        if self._left:
            self._append_leftover()
        elif spill is not None:
            self._append_spilled(spill)
        else:
            self._append_buffered()
        return True

    def _append_buffered(self) -> None:
        rows: list[bytes] = []
        size = 0
        while self._buffer and len(rows) < _BATCH_ROWS and size < _BATCH_BYTES:
            rows.append(self._buffer.popleft())
            size += len(rows[-1])
        claim = (
            Claim(self.name, sequence_of(self._fence, self._appended + len(rows)), self._fence) if self.name else None
        )
        self._append(rows, claim)
        with self._lock:
            self._held -= size + _ROW * len(rows)
            self._appended += len(rows)
            self._news.notify_all()

    def _append_spilled(self, spill: Spill) -> None:
        with self._lock:  # rows are being added to it
            chunk = spill.front(_BATCH_BYTES)
        claim = Claim(self.name, fence=self._fence) if self.name else leftovers.unnamed_claim(spill)
        self._append(chunk.rows, replace(claim, sequence=chunk.number))
        with self._lock:
            spill.release(chunk.end)
            self._appended += len(chunk.rows)
            if spill.is_empty:
                spill.close()
                self._spill = None
            self._news.notify_all()

    def _append_leftover(self) -> None:
        spill, claim = self._left[0]
        chunk = spill.front(_BATCH_BYTES, claim.sequence)
        if chunk.rows:
            self._append(chunk.rows, replace(claim, sequence=chunk.number))
        spill.release(chunk.end)
        with self._lock:
            self._recovered += len(chunk.rows)
            if spill.is_empty:
                spill.close()
                self._left.popleft()
            self._news.notify_all()

    def _append(self, rows: list[bytes], claim: Claim | None) -> None:
        batch = self.topic.packing.batch(rows)
        pause = _FIRST_PAUSE
        while True:
            try:
                self.topic.append_batch(batch, claim)
            except Transient as error:
                with self._lock:
                    if self._abandoned:
                        raise
                    if pause == _FIRST_PAUSE:
                        log.warning("topic %s: trying again: %s", self.topic.name, error)
                    self._errors += 1
                    self._retries += 1
                    self._last_error = error
                    self._work.wait_for(lambda: self._abandoned, pause)
                pause = min(pause * 2, _LONGEST_PAUSE)
            else:
                self._batches += 1
                return

    def after_fork(self) -> None:
        """In the child: an empty buffer. The name stays with the parent, whose sequences the child would repeat."""
        for spill in self._spills():
            spill.let_go()
        self._start()
        if self.name is not None:
            self._failure = Closed(
                f"{self!r} belongs to the process that made it",
                hint="Make another one, with its own name, after the fork",
            )


_open: weakref.WeakSet[Producer] = weakref.WeakSet()


def _last_call(reference: weakref.ref[Producer] | None = None) -> None:
    """At the end of the program: what was sent and not flushed."""
    for producer in list(_open) if reference is None else filter(None, [reference()]):
        try:
            producer.close(LAST_CALL)
        except Exception as error:
            log.error("at exit: %s", error)


def _after_fork() -> None:
    for producer in list(_open):
        producer.after_fork()


atexit.register(_last_call)
os.register_at_fork(after_in_child=_after_fork)
