"""Rows of messages that an address never took: "<topic>.dead", with the reason. Each arrives once per address."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from riverrun import ddl
from riverrun.alerts.message import SHOWN
from riverrun.alerts.stretch import Stretch, clip_to_kept
from riverrun.errors import NotFound
from riverrun.log.dead_letters import COLUMNS, with_missing
from riverrun.log.spec import TopicSpec
from riverrun.log.topic import Topic
from riverrun.position import Position
from riverrun.river import River

_ROWS = 4096  # put aside at once


def bury(river: River, topic: Topic, stretch: Stretch, name: str, reason: str, attempts: int) -> int:
    """Put the rows of a stretch aside; how many. `name` is the address as people may see it. It may be repeated."""
    dead = _opened(river, topic)
    there = clip_to_kept(topic, stretch)
    count = 0
    # Sequences follow the offsets, so that a repeat after a crash has no effect.
    sequence = sum(stretch.start.values())
    for partition, begin in sorted(stretch.start.items()):
        for low in range(begin, stretch.end[partition], _ROWS):
            high = min(low + _ROWS, stretch.end[partition])
            sequence += high - low
            first = max(low, there.start.get(partition, high))
            if first < high:
                batches = topic.batches({partition: first}, {partition: high})
                letters = [_letters(dead, topic, batch, f"{name}: {reason}", attempts) for batch in batches]
                if letters:
                    dead.append(pa.concat_tables(letters), producer=f"alerts:{name}", sequence=sequence, fence=1)
                count += sum(table.num_rows for table in letters)
    return count


@dataclass(frozen=True)
class Letters:
    """Dead letters next to each other that one address did not take: the address as people may see it, from where to before
    where in their topic, and the first of them as they were."""

    name: str
    start: int
    end: int
    rows: list[dict[str, Any]]


def take_letters(dead: Topic, columns: Sequence[str], begin: int, end: int) -> Letters:
    """The first of the dead letters in a range that are for one address."""
    whole = pa.Table.from_batches(list(dead.batches({0: begin}, {0: min(end, begin + _ROWS)})))
    names = [str(reason).partition(": ")[0] for reason in whole.column("dead_reason").to_pylist()]
    count = next((number for number, name in enumerate(names) if name != names[0]), len(names))
    there = [name for name in columns if name in whole.column_names]  # the alert may have grown since
    return Letters(names[0], begin, begin + count, whole.slice(0, min(count, SHOWN)).select(there).to_pylist())


def bury_again(dead: Topic, letters: Letters, reason: str) -> None:
    """Letters that were not taken, either, behind the others. It may be repeated."""
    whole = pa.Table.from_batches(list(dead.batches({0: letters.start}, {0: letters.end})))
    told = {
        "dead_reason": [f"{letters.name}: {reason}"] * whole.num_rows,
        "dead_attempts": [(attempts or 0) + 1 for attempts in whole.column("dead_attempts").to_pylist()],
        "dead_at": [datetime.now(UTC)] * whole.num_rows,
    }
    columns = [
        pa.array(told[field.name], field.type) if field.name in told else whole.column(field.name)
        for field in dead.schema
    ]
    dead.append(pa.table(columns, schema=dead.schema), producer="alerts:again", sequence=letters.end, fence=1)


def _letters(dead: Topic, topic: Topic, rows: pa.RecordBatch, reason: str, attempts: int) -> pa.Table:
    """The rows as they were, with what became of them."""
    places = zip(rows.column("_partition").to_pylist(), rows.column("_offset").to_pylist(), strict=True)
    told = {
        "dead_reason": [reason] * rows.num_rows,
        "dead_attempts": [attempts] * rows.num_rows,
        "dead_position": [str(Position({topic.name: {p: offset}})) for p, offset in places],
        "dead_at": [datetime.now(UTC)] * rows.num_rows,
    }
    columns = [
        pa.array(told[field.name], field.type) if field.name in told else rows.column(field.name)
        for field in dead.schema
        if field.name in told or field.name in rows.schema.names
    ]
    names = [field.name for field in dead.schema if field.name in told or field.name in rows.schema.names]
    return pa.table(columns, names=names)


def _opened(river: River, topic: Topic) -> Topic:
    """Their topic: the columns of the source, and what became of the rows. Kept until somebody drops it."""
    name, wanted = f"{topic.name}.dead", with_missing(ddl.parse(topic.spec.schema), COLUMNS)
    try:
        there = ddl.parse(river.topic(name).spec.schema)
    except NotFound:
        return river.topic(TopicSpec(name, ddl.render(wanted), partitions=1, retention=None))
    # The source may have grown since; a schema only grows at its end.
    return river.topic(TopicSpec(name, ddl.render(with_missing(there, wanted))))
