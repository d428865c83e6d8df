"""Messages that failed too often, in a topic of their own: "<topic>.dead.<group>".

Each arrives once, also when the process dies on the way. A message is numbered in one transaction; then, under the
lock of the database, the lowest number is appended with that number as its sequence, and forgotten. Whoever comes after
a crash appends the same number again, which has no effect.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from riverrun import ddl
from riverrun.columns import check_name
from riverrun.errors import NotFound, OutOfRange
from riverrun.failpoints import failpoint
from riverrun.log.coordination import Coordination
from riverrun.log.producers import Claim
from riverrun.log.spec import TopicSpec
from riverrun.log.topic import Topic
from riverrun.position import Position

COLUMNS = ddl.parse("dead_reason string, dead_attempts int, dead_position string, dead_at timestamp")


class DeadLetters:
    """The way of one group's messages into their topic."""

    def __init__(
        self, coordination: Coordination, topic: Topic, group: str, open_topic: Callable[[TopicSpec], Topic]
    ) -> None:
        self.name = check_name(f"{topic.name}.dead.{group}")
        self._coordination = coordination
        self._source = topic
        self._group = group
        self._open_topic = open_topic
        self._topic: Topic | None = None

    def bury(self) -> int:
        """Bring every dying message to its topic, the lowest number first; how many it were."""
        count = 0
        while self._some_are_dying() and self._bury_lowest():
            count += 1
        return count

    def _some_are_dying(self) -> bool:
        with self._coordination.reading() as db:
            return db.execute(_LOWEST, (self._group, self._source.name)).fetchone() is not None

    def _bury_lowest(self) -> bool:
        topic = self._opened()  # not inside: opening it writes to the same database
        with self._coordination.transaction() as db:
            found = db.execute(_LOWEST, (self._group, self._source.name)).fetchone()
            if found is None:
                return False
            partition, offset, attempt, number, reason = found
            position = str(Position({self._source.name: {partition: offset}}))
            lost = None
            try:
                rows = list(self._source.batches({partition: offset}, {partition: offset + 1}))
            except OutOfRange as error:
                rows, lost = [], error
            failpoint("queue.dead.begin")
            if rows:  # else compaction removed it: a newer row of its key took its place
                letter = {
                    "dead_reason": reason,
                    "dead_attempts": attempt,
                    "dead_position": position,
                    "dead_at": datetime.now(UTC),
                }
                # With a fence, because sequences of producers without one are forgotten after a while.
                claim = Claim(f"dead:{self._group}:{self._source.name}", number, fence=1)
                topic.backend.append(_batch(topic.schema, rows[0], letter), claim)
            failpoint("queue.dead.appended")
            db.execute(
                "delete from messages where grp = ? and topic = ? and partition = ? and offset = ?",
                (self._group, self._source.name, partition, offset),
            )
        failpoint("queue.dead.removed")
        if lost is not None:
            raise OutOfRange(
                f"queue {self._group}: message {position} failed {attempt} times ({reason}), and retention removed it"
                " before it could become a dead letter",
                hint="The queue goes on after it. Keep the topic's rows longer than its messages take",
            ) from lost
        return True

    def _opened(self) -> Topic:
        if self._topic is None:
            self._topic = self._open()
        return self._topic

    def _open(self) -> Topic:
        try:
            topic = self._open_topic(TopicSpec(self.name))
        except NotFound:
            return self._open_topic(self._spec())
        # The source may have grown since; a schema only grows at its end.
        columns = ddl.parse(topic.spec.schema)
        grown = with_missing(columns, _letter_columns(self._source))
        return topic if grown == columns else self._open_topic(TopicSpec(self.name, ddl.render(grown)))

    def _spec(self) -> TopicSpec:
        """A topic with the columns and the key of the source, and what became of it. Kept until somebody drops it."""
        source = self._source.spec
        return TopicSpec(
            self.name,
            ddl.render(_letter_columns(self._source)),
            key=source.key,
            time=source.time,
            partitions=1,
            retention=None,
            fsync=source.fsync,
        )


_LOWEST = (
    "select partition, offset, attempt, dead, reason from messages"
    " where grp = ? and topic = ? and dead is not null order by dead limit 1"
)


def _letter_columns(source: Topic) -> list[ddl.Column]:
    """Of a queue over dead letters, some are there already."""
    return with_missing(ddl.parse(source.spec.schema), COLUMNS)


def with_missing(columns: Sequence[ddl.Column], others: Sequence[ddl.Column]) -> list[ddl.Column]:
    names = {column.name for column in columns}
    return [*columns, *(column for column in others if column.name not in names)]


def _batch(schema: pa.Schema, row: pa.RecordBatch, letter: Mapping[str, Any]) -> pa.RecordBatch:
    """The message as it was, with what became of it. It was checked when it came; no limit stops it now."""
    columns = []
    for field in schema:
        if field.name in letter:
            columns.append(pa.array([letter[field.name]], field.type))
        elif field.name in row.schema.names:
            columns.append(row.column(field.name))
        else:
            columns.append(pa.nulls(1, field.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)
