"""Appends under a producer's name: repeated ones have no effect, superseded ones are refused.

Kafka alone does not order our fences: whoever begins last under a transactional id wins, also an older run. So the marker
is read first, and an older fence refused before anybody is disturbed; it is read again when the id is ours, and from then on
nobody else can commit under the name without our noticing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from riverrun.durations import wall_clock
from riverrun.errors import Fenced, Transient
from riverrun.log.frame import NO_SEQUENCE, producer_id
from riverrun.log.kafka.connection import KafkaConnection
from riverrun.log.kafka.markers import MARKERS, Markers
from riverrun.log.kafka.messages import OutgoingMessages
from riverrun.log.kafka.writer import OutcomeUnknown, Superseded, Writer
from riverrun.log.producers import Claim, Producers

_TRIES = 5
Ends = Callable[[Mapping[int, int]], dict[int, int]]  # from the last offsets of a transaction to the ends after it


class NamedWriter:
    """One producer of one topic, in this process."""

    def __init__(self, connection: KafkaConnection, markers: Markers, topic: str, topic_id: str, producer: str) -> None:
        self._connection = connection
        self._markers = markers
        self._topic = topic
        self._topic_id = topic_id
        self._producer = producer
        self._id = producer_id(producer)
        place = hashlib.sha256(markers.key(topic_id, producer)).hexdigest()[:32]
        self._writer = Writer(connection, f"riverrun.{place}")
        self._known: Producers | None = None

    def close(self) -> None:
        self._writer.close()

    def append(
        self, shown: str, claim: Claim, partitions: int, messages: Callable[[], Iterable[OutgoingMessages]], ends: Ends
    ) -> tuple[dict[int, int], bool]:
        """Append the messages, or nothing where the sequence is known. The ends after it, and whether anything was written."""
        with self._writer.lock:
            for _ in range(_TRIES):
                known = self._take(shown, claim, partitions)
                repeated = known.check(shown, claim.name, self._id, claim.fence, claim.sequence)
                try:
                    if repeated is not None:
                        if known.is_raised(self._id, claim.fence):
                            self._mark(known, replace(claim, sequence=NO_SEQUENCE))
                        return dict(enumerate(repeated)), False
                    return self._write(known, claim, messages(), ends), True
                except Superseded:
                    self._let_go()
                except OutcomeUnknown as error:
                    self._let_go()
                    if claim.sequence == NO_SEQUENCE:
                        raise
                    raise Transient(error.message, hint="The same append again has no effect if it was done") from None
                except BaseException:
                    self._let_go()  # what is known has this append in it already
                    raise
            raise self._contested(shown)

    def raise_fence(self, shown: str, claim: Claim, partitions: int) -> None:
        """Let everybody with an older fence be refused."""
        with self._writer.lock:
            for _ in range(_TRIES):
                known = self._take(shown, claim, partitions)
                known.check(shown, claim.name, self._id, claim.fence, NO_SEQUENCE)
                try:
                    return self._mark(known, claim)
                except Superseded:
                    self._let_go()
            raise self._contested(shown)

    def take_over(self, shown: str, partitions: int) -> Claim:
        """The next fence, which nobody else gets: a commit fails if somebody has begun meanwhile."""
        with self._writer.lock:
            for _ in range(_TRIES):
                self._let_go()  # others may have raised it since
                fence = self._markers.producer(self._topic_id, self._producer)
                known = self._take(shown, Claim(self._producer, fence=fence.fence if fence else 0), partitions)
                claim = known.successor(self._producer, self._id)
                try:
                    self._mark(known, replace(claim, sequence=NO_SEQUENCE))
                    return claim
                except Superseded:
                    continue
            raise self._contested(shown)

    def _take(self, shown: str, claim: Claim, partitions: int) -> Producers:
        """The name is ours: what is known of it stays true until somebody takes the transactional id from us."""
        if self._known is not None and self._writer.is_open:
            return self._known
        before = self._markers.among(self._topic_id, self._producer, partitions)
        before.admit(shown, claim, self._id, self._connection.settings)
        before.check(shown, claim.name, self._id, claim.fence, NO_SEQUENCE)
        self._markers.table.make()
        self._writer.open()
        self._known = self._markers.among(self._topic_id, self._producer, partitions)
        return self._known

    def _write(
        self, known: Producers, claim: Claim, messages: Iterable[OutgoingMessages], ends: Ends
    ) -> dict[int, int]:
        reached: dict[int, int] = {}

        def marker(last: Mapping[int, int]) -> tuple[str, OutgoingMessages]:
            reached.update(ends(last))
            return MARKERS, self._marker(known, claim, reached)

        self._writer.write(self._topic, messages, marker)
        return reached

    def _mark(self, known: Producers, claim: Claim) -> None:
        self._writer.write(MARKERS, [self._marker(known, claim, {})])

    def _marker(self, known: Producers, claim: Claim, ends: Mapping[int, int]) -> OutgoingMessages:
        """The marker after an append. Should the transaction fail, what is known is read again."""
        for partition, offset in ends.items():
            known.offsets[partition] = offset
        known.note(self._id, claim.fence, claim.sequence, wall_clock())
        key = self._markers.key(self._topic_id, self._producer)
        value = self._markers.value(self._topic, self._producer, known.memories[self._id])
        return OutgoingMessages.one(self._markers.table.partition(key), key, value)

    def _let_go(self) -> None:
        self._known = None
        self._writer.close()

    def _contested(self, shown: str) -> Fenced:
        return Fenced(
            f"topic {shown}: another process appends as {self._producer!r} at the same time",
            hint="Give each process a name of its own",
        )
