"""What came of a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import polars as pl
import pyarrow as pa

from riverrun.durations import from_micros
from riverrun.kernels.kernel import MAX_TIME, MIN_TIME
from riverrun.log.codec import HIDDEN
from riverrun.log.stored_spec import StoredSpec
from riverrun.log.topic import Topic
from riverrun.views import Change, Store, View
from riverrun.views.changelog import Cursor
from riverrun.views.columns import rows_of

END = datetime.max.replace(tzinfo=UTC)
"""The watermark when the input has ended."""


class Rows(list[dict[str, Any]]):
    """Rows as dicts, and the same as tables. Rows of a topic are in log order; a tombstone has `_deleted` set."""

    def __init__(self, rows: Iterable[dict[str, Any]], arrow: pa.Table) -> None:
        super().__init__(rows)
        self.arrow = arrow

    @property
    def polars(self) -> pl.DataFrame:
        frame = pl.from_arrow(self.arrow)
        assert isinstance(frame, pl.DataFrame)
        return frame


@dataclass(frozen=True)
class EpochSeen:
    """One epoch: its number, the sources' watermarks at its end, and where its rows went."""

    number: int
    watermarks: Mapping[str, datetime | None]
    ledger: list[dict[str, Any]]
    final: bool


@dataclass(frozen=True)
class Result:
    """A finished run.

    `views` and `topics` have rows by name; `topics` are those the flow wrote: derived, late and quarantine topics.
    `ledger` is as `run.ledger()` gives it. `watermarks` has for each topic how far event time has come: None is nowhere
    yet, `END` the end of the input; a corrected clock is there under its node's id. `changes` has for each view a list
    of changes per epoch.
    """

    views: Mapping[str, Rows]
    topics: Mapping[str, Rows]
    ledger: list[dict[str, Any]]
    watermarks: Mapping[str, datetime | None]
    changes: Mapping[str, list[list[Change]]]
    epochs: list[EpochSeen]

    def ledger_of(self, node: str) -> dict[str, int]:
        """The totals of the one entry whose node's id begins so: "stream-orders", "window", …"""
        found = [entry for entry in self.ledger if entry["node"].startswith(node)]
        if len(found) != 1:
            raise LookupError(f"{len(found)} entries begin with {node!r}: {[entry['node'] for entry in self.ledger]}")
        return {name: value for name, value in found[0].items() if name not in ("node", "input")}


def moment(watermark: int) -> datetime | None:
    """A watermark as people read it."""
    if watermark <= MIN_TIME:
        return None
    return END if watermark >= MAX_TIME else from_micros(watermark)


def view_rows(store: Store, name: str) -> Rows:
    """The rows of a view, in key order."""
    table = View(store, name).arrow()
    return Rows(rows_of(table), table)


def view_changes(store: Store, name: str, epochs: int) -> list[list[Change]]:
    """The changes of a view by epoch."""
    found: list[list[Change]] = [[] for _ in range(epochs)]
    for change in store.changes(name, None):
        found[Cursor.parse(change.cursor).commit - 1].append(change)
    return found


def topic_rows(topic: Topic) -> Rows:
    """Everything in a topic, in the order it was received."""
    order = [("_received", "ascending"), ("_partition", "ascending"), ("_offset", "ascending")]
    table = topic.read().sort_by(order)
    rows = rows_of(table.select(topic.schema.names))
    for row, deleted in zip(rows, table.column("_deleted").to_pylist(), strict=True):
        if deleted:
            row["_deleted"] = True
    return Rows(rows, table)


def appendable(rows: Any, spec: StoredSpec) -> Any:
    """Rows as a topic takes them; those of another run's topic without their places in that log, and without the time
    they have there where a column says it."""
    if not isinstance(rows, Rows):
        return rows
    kept = ("_deleted",) if spec.time is not None else ("_deleted", "_time")
    return rows.arrow.drop_columns([name for name in HIDDEN if name not in kept and name in rows.arrow.column_names])
