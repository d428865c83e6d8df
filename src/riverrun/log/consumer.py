"""A consumer: one member of a group, reading the partitions that the group gives it.

    with topic.consumer("billing") as consumer:
        for batch in consumer:          # a pyarrow.RecordBatch
            charge(batch)
            consumer.commit()

Every group gets every row; within a group a row goes to one member. Delivery is at least once: what was not committed
when a member dies is delivered again to another one. How a log keeps its groups is its own matter:
`riverrun.log.coordinated_consumer` for the embedded one, `riverrun.log.kafka.consumer` for Kafka.

Where it begins: `start="committed"` is where the group is, or the earliest row if it never committed. Any other start
is for the group as a whole: it counts for the first member of a group that nobody else is in, whatever was committed
before. A member that joins a running group goes on where the group is. Topics found later begin at their earliest row.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Self

import pyarrow as pa

from riverrun.columns import check_name
from riverrun.durations import Duration
from riverrun.errors import Closed, Invalid
from riverrun.log.assignment import Slot
from riverrun.log.read_range import check_range
from riverrun.position import Position

if TYPE_CHECKING:
    from riverrun.log.topic import Topic


class Consumer(ABC):
    """Iterate over it, or call `poll`. For one thread; another thread, or a forked process, takes one of its own."""

    def __init__(self, group: str, topics: dict[str, Topic], timeout: float | None) -> None:
        self.group = check_name(group, "group")
        self.topic: str | None = None  # of the batch yielded last; also in batch.schema.metadata[b"topic"]
        self._topics = topics
        self._timeout = timeout
        self._pid = os.getpid()
        self._closed = False

    def __repr__(self) -> str:
        return f"<consumer of group {self.group}: {', '.join(self._topics) or 'no topics yet'}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> pa.RecordBatch:
        batch = self.poll(self._timeout)
        if batch is None:
            raise StopIteration
        return batch

    @property
    @abstractmethod
    def assignment(self) -> dict[str, list[int]]:
        """The partitions that this member reads now, by topic."""

    @property
    @abstractmethod
    def position(self) -> Position:
        """After everything that was yielded from the partitions this member reads."""

    @abstractmethod
    def poll(self, timeout: Duration | None = None) -> pa.RecordBatch | None:
        """The next rows of one topic, waiting for them if need be; None when the time is up. No time waits for ever."""

    @abstractmethod
    def commit(self, position: Mapping[str, Mapping[int, int]] | None = None) -> None:
        """Record that everything yielded so far (or everything before `position`) is dealt with.

        All of it or nothing. Raises Fenced if one of the partitions went to another member meanwhile; those rows are
        delivered again, and this consumer may go on.
        """

    @abstractmethod
    def close(self) -> None:
        """Leave the group at once; what was not committed goes to the others. A second close does nothing."""

    def _check_position(self, offsets: Mapping[Slot, int]) -> None:
        for (name, partition), offset in offsets.items():
            if name not in self._topics:
                raise Invalid(f"this consumer of group {self.group} does not read topic {name}")
            ends = self._topics[name].ends()
            check_range(name, {partition: offset}, dict.fromkeys(ends, 0), ends)

    def _check_usable(self) -> None:
        if self._pid != os.getpid():
            raise Invalid(
                f"a consumer of group {self.group} was made in process {self._pid} and used in its fork {os.getpid()}",
                hint="Make the consumer in the process that uses it",
            )
        if self._closed:
            raise Closed(f"the consumer of group {self.group} is closed")
