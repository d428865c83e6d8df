"""Rows that came without the values that did not change: these are taken from the row before them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from riverrun.columns import DELETED, ENVELOPE, ERROR, POSITION, TIME
from riverrun.state.frames import Mask, beside, keep, pick, stack
from riverrun.state.keys import group_rows
from riverrun.state.order import Indexes
from riverrun.state.table import StateTable

_UNKNOWN = (
    "sent without {}, which did not change, and the row before it is not known (the flow did not read it, or compaction"
    " removed it): let the source send whole rows (ALTER TABLE … REPLICA IDENTITY FULL), or snapshot the table again"
)


def completed(
    arrived: pl.DataFrame, table: StateTable, key: Sequence[str], columns: Sequence[str]
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The rows, complete; and for the quarantine those of which the row before is not known, as they were sent."""
    partial = arrived.get_column(ENVELOPE).is_not_null().to_numpy()
    held, _ = table.probe(pick(keep(arrived, partial), key).unique(maintain_order=True))
    known = pick(held, columns)
    rows = stack([known, pick(arrived, columns).cast(dict(known.schema))])  # type: ignore[arg-type]
    whole = np.zeros(known.height, np.bool_)  # what is held lacks nothing
    after = np.concatenate([whole, partial])
    deleted = np.concatenate([whole, arrived.get_column(DELETED).to_numpy()])
    groups = group_rows(rows, key)
    # The newest row that came whole, or deletion, up to each row of a key: what it comes to is known unless it is none.
    base = _last(groups.order, groups.starts, ~after)
    unknown = after & ((base < 0) | deleted[base])
    kept = arrived.get_column(ENVELOPE).struct.field("kept")
    made = []
    for name in columns:
        lacks = np.concatenate([whole, kept.list.contains(name).fill_null(False).to_numpy()])
        column = rows.get_column(name)
        if lacks.any():
            source = _last(groups.order, groups.starts, ~lacks & ~unknown)
            column = column.gather(np.where(source < 0, 0, source))
        made.append(column[known.height :])
    lost = unknown[known.height :]
    return keep(beside(arrived, made), ~lost), _as_sent(keep(arrived, lost))


def _last(order: Indexes, starts: Indexes, chosen: Mask) -> Indexes:
    """For each row the last chosen one of its group up to it, itself included; -1 where there is none."""
    places = np.arange(len(order))
    begin = np.zeros(len(order), np.int64)
    begin[starts] = starts
    newest = np.maximum.accumulate(np.where(chosen[order], places, -1))
    found = np.empty(len(order), np.int64)
    found[order] = np.where(newest >= np.maximum.accumulate(begin), order[newest], -1)
    return found


def _as_sent(rows: pl.DataFrame) -> pl.DataFrame:
    """Messages as they came, where they stand, and what is wrong with them."""
    sent = rows.get_column(ENVELOPE).struct
    errors = [_UNKNOWN.format(", ".join(names)) for names in sent.field("kept")]
    return pl.DataFrame(
        [
            sent.field("key"),
            sent.field("json"),
            sent.field("position").alias(POSITION),
            pl.Series(ERROR, errors, pl.String),
            rows.get_column(TIME),
        ]
    )
