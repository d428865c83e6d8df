"""An expression that fails on a row, as the flow's own error: what was written where, on which row, and why."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa

from riverrun.columns import OFFSET, PARTITION, RECEIVED
from riverrun.errors import Invalid
from riverrun.flow.composition import WrittenExpression
from riverrun.kernels.shown_values import shown
from riverrun.runtime.compile.job import CARRIED_FIELDS, Job, struct_name
from riverrun.runtime.compile.row_id import PARTITIONS

_HINT = "try_… functions, nullif or a where before it let such rows pass"
_MOST = 8  # columns of a row that has no position to be found by

Failure = TypeVar("Failure", bound=Exception)

_CARRIED = {RECEIVED, *(name for name, _ in CARRIED_FIELDS)}


@dataclass(frozen=True)
class Whereabouts:
    """Where rows begin, as people know it: a topic, in which a row has a position, or a node, in which it has values."""

    origin: str
    name: str
    is_topic: bool

    @classmethod
    def of(cls, job: Job, origin: str) -> Whereabouts:
        topics = {reading.origin: reading.topic for reading in job.readings}
        name = topics.get(origin) or job.names.get(origin, origin)
        return cls(origin, name, origin in topics)

    def row(self, row: pa.RecordBatch, named: list[str]) -> str:
        """One row: its position, and the values of the columns that are `named`; of a node's, those of the others too,
        the key's among them."""
        if self.is_topic:
            partition, offset = (row.column(name)[0].as_py() for name in (PARTITION, OFFSET))
            return f"row {self.name}@{partition % PARTITIONS}:{offset}" + _values(row, named)
        others = [name for name in row.schema.names if name not in _CARRIED and name not in named]
        return f"a row of {self.name}" + _values(row, [*named, *others][: max(_MOST, len(named))])


def failing_row(at: Whereabouts, row: pa.RecordBatch, written: WrittenExpression, reason: str) -> Invalid:
    """The error for an expression that fails on this row."""
    struct = struct_name(at.origin)
    named = [name for name in row.schema.names if f"`{struct}`.`{name.replace('`', '``')}`" in written.sql]
    return Invalid(f"{written.place}: {written.text} fails on {at.row(row, named)}: {reason}", hint=_HINT)


def failing_rows(written: list[WrittenExpression], where: str, reason: str) -> Invalid:
    """The error for one of these expressions, where the row is not known."""
    texts = " or ".join(dict.fromkeys(f"{one.place}: {one.text}" for one in written))
    return Invalid(f"{texts} fails on a row of {where}: {reason}", hint=_HINT)


def first_failing(rows: int, failure: Callable[[int, int], Failure | None]) -> tuple[int, Failure] | None:
    """The index of the first of so many rows that something fails on, and how; None where it does not. `failure` tries
    it on the rows from an index to before another."""
    low, high = 0, rows
    error = failure(low, high)
    if error is None:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        first = failure(low, middle)
        low, high, error = (low, middle, first) if first else (middle, high, error)
    return low, failure(low, high) or error


def _values(row: pa.RecordBatch, names: list[str]) -> str:
    values = shown({name: row.column(name)[0].as_py() for name in names})
    return f" ({values})" if values else ""
