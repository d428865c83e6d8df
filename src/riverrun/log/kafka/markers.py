"""Who has appended what: for each producer of a topic its fence and its last sequences, in the compacted `riverrun.markers`.

A marker is written in the same transaction as the rows it is about. A topic is meant by its id, so that one that was deleted
and made again begins without any.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import msgspec

from riverrun.log.frame import producer_id
from riverrun.log.kafka.connection import KafkaConnection
from riverrun.log.kafka.table import CompactedTable
from riverrun.log.producers import Producers
from riverrun.log.segment import ProducerMemory, SegmentSnapshot

MARKERS = "riverrun.markers"
_PARTITIONS = 8


class ProducerMarker(msgspec.Struct):
    """What is stored of a producer."""

    topic: str
    producer: str
    memory: ProducerMemory


class Markers:
    """All markers of a cluster."""

    def __init__(self, connection: KafkaConnection) -> None:
        self.table = CompactedTable(connection, MARKERS, _PARTITIONS)
        self._decode = msgspec.json.Decoder(ProducerMarker).decode
        self._encode = msgspec.json.Encoder().encode

    def key(self, topic_id: str, producer: str) -> bytes:
        return json.dumps([topic_id, producer], ensure_ascii=False, separators=(",", ":")).encode()

    def value(self, topic: str, producer: str, memory: ProducerMemory) -> bytes:
        return self._encode(ProducerMarker(topic, producer, memory))

    def producer(self, topic_id: str, producer: str) -> ProducerMemory | None:
        """What is known of one producer, as of now."""
        key = self.key(topic_id, producer)
        self.table.refresh([self.table.partition(key)])
        return self._memory(key)

    def among(self, topic_id: str, producer: str, partitions: int) -> Producers:
        """One producer as of now; where it is a new one, with all others of the topic, who may be as many as it remembers."""
        memory = self.producer(topic_id, producer)
        if memory is not None:
            return _producers({producer_id(producer): memory}, [0] * partitions)
        self.table.refresh()
        begin = self.key(topic_id, "")[:-2]
        found = {
            producer_id(json.loads(key)[1]): memory
            for key in list(self.table.rows)
            if key.startswith(begin) and (memory := self._memory(key)) is not None
        }
        return _producers(found, [0] * partitions)

    def _memory(self, key: bytes) -> ProducerMemory | None:
        found = self.table.rows.get(key)
        return self._decode(found.value).memory if found else None


def _producers(memories: dict[bytes, ProducerMemory], offsets: Sequence[int]) -> Producers:
    return Producers(SegmentSnapshot(offsets=tuple(offsets), producers=memories, appends=0, received=0))
