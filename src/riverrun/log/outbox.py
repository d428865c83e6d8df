"""What a producer has taken and not appended yet: rows that crashed producers left, then those in memory, then those on
disk. They leave in this order, and a row leaves only when it is in the topic.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from riverrun.log.leftovers import Leftover, sequence_of, spill_name, unnamed_claim
from riverrun.log.producers import Claim
from riverrun.log.spill import Spill

if TYPE_CHECKING:
    from riverrun.log.topic import Topic

_ROW = 48  # bytes that a row takes in memory beside its own
_BATCH_ROWS = 8192
_BATCH_BYTES = 4 << 20


class Outgoing(NamedTuple):
    """Packed rows to append together, and under which claim. Call `settle` when they are in the topic."""

    rows: list[bytes]
    claim: Claim | None
    settle: Callable[[], None]


class Outbox:
    """The rows of one producer. All of it is guarded by the producer's lock."""

    def __init__(self, topic: Topic, name: str | None, fence: int, left: Iterable[Leftover] = ()) -> None:
        self.disk: Spill | None = None
        self.held = 0  # bytes in memory, including those that are being appended
        self.sent = self.appended = self.dropped = self.spilled = self.recovered = 0
        self._topic = topic
        self._name = name
        self._fence = fence
        self._spill_name = spill_name(name, fence)
        self._limit = topic.settings.producer_memory
        self._enough = min(_BATCH_BYTES, self._limit // 2)  # so much need not linger
        self._memory: deque[bytes] = deque()
        self._left = deque(left)

    @property
    def unsent(self) -> int:
        """How many rows were sent and are neither appended nor dropped."""
        return self.sent - self.dropped - self.appended

    @property
    def is_drained(self) -> bool:
        return not self.unsent and not self._left

    @property
    def has_left(self) -> bool:
        """Whether rows of crashed producers are still to be sent."""
        return bool(self._left)

    def has_enough(self) -> bool:
        """Whether there is so much that waiting for more saves nothing."""
        return len(self._memory) >= _BATCH_ROWS or self.held >= self._enough

    def is_urgent(self) -> bool:
        """Whether there is enough, or somebody waits for room."""
        return bool(self._left or self.disk or self.has_enough())

    def has_room(self, packed: bytes) -> bool:
        """Whether the row can go into memory. Where rows wait on disk, it comes after them."""
        return self.disk is None and (self.held == 0 or self.held + len(packed) + _ROW <= self._limit)

    def put(self, packed: bytes) -> None:
        """Take a row into memory."""
        self._memory.append(packed)
        self.held += len(packed) + _ROW
        self.sent += 1

    def put_on_disk(self, packed: bytes) -> bool:
        """Take a row into a file; False if there is no room in it either."""
        if self.disk is None:
            directory, limit = self._topic.backend.spill_directory, self._topic.settings.spill_bytes
            self.disk = Spill.create(directory, self._spill_name, limit)
        if not self.disk.add(sequence_of(self._fence, self.sent - self.dropped + 1), packed):
            return False
        self.sent += 1
        self.spilled += 1
        return True

    def drop(self) -> None:
        """Leave a row out, and count it."""
        self.sent += 1
        self.dropped += 1

    def take(self) -> Outgoing:
        """The next rows, about as many as one append should have; there are some."""
        if self._left:
            return self._take_left()
        if self._memory or self.disk is None:
            return self._take_from_memory()
        return self._take_from_disk(self.disk)

    def close(self) -> None:
        """Close the files, and remove those that are empty."""
        for spill in self._files():
            spill.close()

    def let_go(self) -> None:
        """In a forked child: close the files as they are. They are the parent's."""
        for spill in self._files():
            spill.let_go()

    def _files(self) -> list[Spill]:
        return [*([self.disk] if self.disk else []), *(spill for spill, _ in self._left)]

    def _take_from_memory(self) -> Outgoing:
        rows: list[bytes] = []
        size = 0
        while self._memory and len(rows) < _BATCH_ROWS and size < _BATCH_BYTES:
            rows.append(self._memory.popleft())
            size += len(rows[-1])
        claim = None
        if self._name is not None:
            claim = Claim(self._name, sequence_of(self._fence, self.appended + len(rows)), self._fence)
        return Outgoing(rows, claim, partial(self._settle_memory, len(rows), size + _ROW * len(rows)))

    def _settle_memory(self, rows: int, size: int) -> None:
        self.held -= size
        self.appended += rows

    def _take_from_disk(self, spill: Spill) -> Outgoing:
        chunk = spill.front(_BATCH_BYTES)
        claim = unnamed_claim(spill) if self._name is None else Claim(self._name, fence=self._fence)
        claim = replace(claim, sequence=chunk.number)
        return Outgoing(chunk.rows, claim, partial(self._settle_disk, spill, len(chunk.rows), chunk.end))

    def _settle_disk(self, spill: Spill, rows: int, end: int) -> None:
        spill.release(end)
        self.appended += rows
        if spill.is_empty:
            spill.close()
            self.disk = None

    def _take_left(self) -> Outgoing:
        spill, claim = self._left[0]
        chunk = spill.front(_BATCH_BYTES, claim.sequence)
        claim = replace(claim, sequence=chunk.number)
        return Outgoing(chunk.rows, claim, partial(self._settle_left, spill, len(chunk.rows), chunk.end))

    def _settle_left(self, spill: Spill, rows: int, end: int) -> None:
        spill.release(end)
        self.recovered += rows
        if spill.is_empty:
            spill.close()
            self._left.popleft()
