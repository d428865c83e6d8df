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
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from riverrun.durations import Duration, micros, seconds
from riverrun.errors import Closed, Invalid, RiverrunError, TimedOut, Transient, did_you_mean
from riverrun.log.leftovers import named_leftovers, take_name, unnamed_leftovers
from riverrun.log.outbox import Outbox, Outgoing
from riverrun.log.packing import Packing

if TYPE_CHECKING:
    from riverrun.log.topic import Topic

log = logging.getLogger("riverrun.log")

POLICIES = ("block", "drop", "spill")
LAST_CALL = "10 seconds"  # how long the end of a program waits for rows that cannot be appended

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
        self,
        topic: Topic,
        packing: Packing,
        on_full: str = "block",
        linger: Duration = "5 ms",
        name: str | None = None,
    ) -> None:
        if on_full not in POLICIES:
            raise Invalid(f"on_full cannot be {on_full!r}", hint=did_you_mean(str(on_full), POLICIES))
        self.topic = topic
        self.on_full = on_full
        self.name = name
        self._linger = micros(linger) / 1e6
        self._packing = packing
        self._pack = packing.pack
        if name is not None:
            claim = take_name(topic, name)
            self._fence = claim.fence
            self._start(Outbox(topic, name, claim.fence, named_leftovers(topic, claim)))
        else:
            self._fence = 0
            self._start(Outbox(topic, None, 0, unnamed_leftovers(topic) if on_full == "spill" else ()))
        if self._outbox.has_left:
            self._ensure_thread()
        _open.add(self)

    def _start(self, outbox: Outbox) -> None:
        self._lock = threading.Lock()
        self._work = threading.Condition(self._lock)  # for the thread: something to do
        self._news = threading.Condition(self._lock)  # for everybody else: something was done
        self._thread: threading.Thread | None = None
        self._outbox = outbox
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
        outbox = self._outbox
        with self._lock:
            return ProducerStats(
                sent=outbox.sent,
                appended=outbox.appended,
                dropped=outbox.dropped,
                spilled=outbox.spilled,
                recovered=outbox.recovered,
                pending_rows=outbox.unsent,
                pending_bytes=outbox.held,
                batches=self._batches,
                retries=self._retries,
                errors=self._errors,
                last_error=str(self._last_error) if self._last_error else None,
            )

    def send(self, row: Mapping[str, Any], timeout: Duration | None = None) -> None:
        """Check the row and take it. Waits only when memory is full and the policy says so, at most `timeout`."""
        packed = self._pack(row)
        with self._lock:
            if self._closing or self._failure:
                self._refuse()
            if not self._outbox.has_room(packed) and not self._make_room(packed, timeout):
                return
            self._outbox.put(packed)
            if self._resting or (self._lingering and self._outbox.has_enough()):
                self._resting = self._lingering = False
                self._work.notify()
            elif self._thread is None:
                self._ensure_thread()

    def flush(self, timeout: Duration | None = None) -> None:
        """Return when every row sent before is appended."""
        outbox = self._outbox
        with self._lock:
            accepted = outbox.sent - outbox.dropped
            self._hurried += 1
            self._work.notify()
            try:
                done = self._news.wait_for(
                    lambda: self._failure or (outbox.appended >= accepted and not outbox.has_left), seconds(timeout)
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
            done = self._news.wait_for(lambda: self._failure or self._outbox.is_drained, seconds(timeout))
            self._abandoned = not done
            self._work.notify()
        if self._thread is not None:
            self._thread.join()
        _open.discard(self)
        self._outbox.close()
        if not done:
            raise self._timed_out()
        if self._failure and not self._outbox.is_drained:
            self._refuse()

    def _make_room(self, packed: bytes, timeout: Duration | None) -> bool:
        """Whether the row goes into memory; False when it was dropped or spilled. Holds the lock."""
        if self.on_full == "drop":
            if not self._outbox.dropped:
                log.warning("topic %s: a producer's memory is full, rows are dropped", self.topic.name)
            self._outbox.drop()
            return False

        spilled = False

        def settled() -> bool:
            nonlocal spilled
            if self._closing or self._failure or self._outbox.has_room(packed):
                return True
            spilled = self._put_aside(packed)
            return spilled

        if not self._news.wait_for(settled, seconds(timeout)):
            raise TimedOut(f"topic {self.topic.name}: a producer's memory was full for {timeout}", hint=self._why())
        if not spilled and (self._closing or self._failure):
            self._refuse()
        return not spilled

    def _put_aside(self, packed: bytes) -> bool:
        if self.on_full != "spill" or not self._outbox.put_on_disk(packed):
            return False
        self._ensure_thread()
        return True

    def _refuse(self) -> None:
        error, unsent = self._failure, self._outbox.unsent
        if error is None:
            raise Closed(f"{self!r} is closed")
        if not isinstance(error, RiverrunError) or not unsent:
            raise error
        raise type(error)(f"{error.message}; {unsent} rows that were sent are not in the topic", hint=error.hint)

    def _timed_out(self) -> TimedOut:
        unsent = self._outbox.unsent
        return TimedOut(f"topic {self.topic.name}: {unsent} rows are not appended yet", hint=self._why())

    def _why(self) -> str | None:
        return f"The last error was: {self._last_error}" if self._last_error else None

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
            while (outgoing := self._next()) is not None:
                self._append(outgoing)
        except BaseException as error:
            with self._lock:
                self._errors += 1
                self._last_error = self._failure = error
                self._news.notify_all()
            log.error("topic %s: a producer stopped: %s", self.topic.name, error)

    def _next(self) -> Outgoing | None:
        """Wait for what to append next; None when there is nothing left and the producer is closed."""
        with self._lock:
            while self._outbox.is_drained:
                if self._closing:
                    return None
                self._resting = True
                self._work.wait()
                self._resting = False
            if self._linger and not (self._closing or self._hurried or self._outbox.is_urgent()):
                self._lingering = True
                self._work.wait(self._linger)
                self._lingering = False
            return self._outbox.take()

    def _append(self, outgoing: Outgoing) -> None:
        """Append it, trying again for as long as the error may pass."""
        if outgoing.rows:
            batch = self._packing.batch(outgoing.rows)
            pause = _FIRST_PAUSE
            while not self._try_append(batch, outgoing, pause):
                pause = min(pause * 2, _LONGEST_PAUSE)
        with self._lock:
            outgoing.settle()
            self._news.notify_all()

    def _try_append(self, batch: pa.RecordBatch, outgoing: Outgoing, pause: float) -> bool:
        try:
            self.topic.backend.append(batch, outgoing.claim)
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
            return False
        self._batches += 1
        return True

    def after_fork(self) -> None:
        """In the child: an empty buffer. The name stays with the parent, whose sequences the child would repeat."""
        self._outbox.let_go()
        self._start(Outbox(self.topic, self.name, self._fence))
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
