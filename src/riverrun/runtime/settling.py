"""Rows for an end, made ready where they are: a task that has everything of a key leaves nothing to the driver but to
write it."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl
import pyarrow as pa

from riverrun.columns import CARRIED, DELETED, RECEIVED, TIME, WEIGHT
from riverrun.runtime.compile.job import MOMENT, Branch, Job
from riverrun.runtime.exchange import InlineExchange
from riverrun.runtime.packing import arrived
from riverrun.state.frames import from_arrow
from riverrun.views.keyed_changes import net
from riverrun.views.layout import DELETE, OLD, OP
from riverrun.views.settled import settle, settle_new, settled_schema

_HERE = InlineExchange()


def settle_rows(job: Job, branch: Branch, rows: pa.RecordBatch) -> pa.RecordBatch:
    """What goes to the driver of the rows of a branch."""
    if branch.settling is None:
        return rows
    table = arrived(branch, [rows], _HERE)
    if branch.settling == "upserts":
        return _one_batch(upserts(table, job.keys[branch.target]))
    spec = job.views[branch.target]
    wanted = table.select([*spec.names, WEIGHT])
    return (settle(spec, wanted) if branch.settling == "net" else settle_new(spec, wanted)).batch


def _one_batch(table: pa.Table) -> pa.RecordBatch:
    """A table as a batch, also where nothing is left: rows that differ only in columns which the topic has not."""
    columns = [column.combine_chunks() for column in table.combine_chunks().columns]
    return pa.record_batch(columns, schema=table.schema)


def sent_schema(job: Job, branch: Branch) -> pa.Schema:
    """The columns of what `settle_rows` gives."""
    match branch.settling:
        case "net" | "new":
            return settled_schema(job.views[branch.target])
        case "upserts":
            return upserts(branch.arriving.empty_table(), job.keys[branch.target]).schema
    return branch.schema


def upserts(rows: pa.Table, key: Sequence[str]) -> pa.Table:
    """One row or tombstone for each changed key of a table, as a topic takes them."""
    names = [name for name in rows.column_names if name not in (*CARRIED, RECEIVED)]
    changes = net(from_arrow(rows.select([*names, TIME, WEIGHT])), WEIGHT, key).filter(pl.col(OP) != OLD)
    gone = pl.col(OP) == DELETE
    values = [pl.when(gone).then(None).otherwise(pl.col(name)).alias(name) for name in names if name not in key]
    moment = pl.col(TIME).cast(pl.Datetime("us", "UTC"))
    table = changes.select(*key, *values, gone.alias(DELETED), moment).to_arrow()
    kinds = [(name, rows.schema.field(name).type) for name in table.column_names if name not in (DELETED, TIME)]
    return table.cast(pa.schema([*kinds, (DELETED, pa.bool_()), (TIME, MOMENT)]))
