"""What all topics of a river have in common on Kafka: the connection, the markers, and who writes."""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from riverrun.log.kafka.address import KafkaAddress
from riverrun.log.kafka.connection import LEFT_TO_THE_PARENT, KafkaConnection
from riverrun.log.kafka.markers import Markers
from riverrun.log.kafka.named_writer import NamedWriter
from riverrun.log.kafka.table import CompactedTable
from riverrun.log.kafka.watch import TopicWatch
from riverrun.log.kafka.writer import Writer
from riverrun.settings import Settings

CATALOG = "riverrun.catalog"


class Cluster:
    """A Kafka cluster as one river uses it. `directory` is where producers of this machine put what has no room."""

    def __init__(self, address: KafkaAddress, settings: Settings, directory: str) -> None:
        self.directory = directory
        self.prefix = address.prefix
        self.connection = KafkaConnection(address, settings)
        self.catalog = CompactedTable(self.connection, CATALOG, 1)
        self.markers = Markers(self.connection)
        self.watch = TopicWatch(self.connection)
        self._start()

    def _start(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._idle: list[Writer] = []
        self._named: dict[tuple[str, str], NamedWriter] = {}
        self.connection.at_close(lambda: self._let_go)

    def _check_process(self) -> None:
        """In a fork, writers of one's own: the ids of the parent's are the parent's."""
        if self._pid != os.getpid():
            LEFT_TO_THE_PARENT.extend([self._idle, self._named])
            self.connection.check()
            self._start()

    @contextmanager
    def writer(self) -> Iterator[Writer]:
        """A writer that nobody else uses meanwhile. Threads that append at the same time have one each."""
        self._check_process()
        with self._lock:
            writer = self._idle.pop() if self._idle else Writer(self.connection, f"riverrun.{uuid.uuid4().hex}")
        try:
            yield writer
        finally:
            with self._lock:
                self._idle.append(writer)

    def named(self, topic: str, topic_id: str, producer: str) -> NamedWriter:
        """The writer of a producer's name; one for all handles of this process."""
        self._check_process()
        with self._lock:
            found = self._named.get((topic_id, producer))
            if found is None:
                found = NamedWriter(self.connection, self.markers, topic, topic_id, producer)
                self._named[topic_id, producer] = found
            return found

    def close(self) -> None:
        self.connection.close()

    def _let_go(self) -> None:
        with self._lock:
            idle, named, self._idle, self._named = self._idle, self._named, [], {}
        for writer in idle:
            writer.close()
        for name in named.values():
            name.close()
        self.watch.stop()
