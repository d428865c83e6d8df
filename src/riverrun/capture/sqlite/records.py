"""What triggers have written down → a batch of changes. Pure: rows in, Arrow out.

There are no numbers of transactions in SQLite. All that one read sees was committed, so that its end is the end of a
transaction: what one read has seen is *a* transaction, though there may have been several. When it is read again after a
kill, more may have come: so each change has its own sequence, and a topic leaves out exactly those that it has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from riverrun import ddl
from riverrun.capture.changes import CapturedTable, ChangeBatch, TableChanges, TableTrouble, Transactions
from riverrun.capture.sequences import sequence_of
from riverrun.capture.sqlite.catalog import odd_key
from riverrun.capture.sqlite.installation import MARK, ChangeLayout, position_of
from riverrun.capture.sqlite.types import converted

FIXED = 5  # n, layout, op, at, salt; then values


def batch_of(
    rows: Sequence[tuple[Any, ...]],
    layouts: Mapping[int, ChangeLayout],
    tables: Mapping[str, CapturedTable],
    part_of: int | None,
    grown: Sequence[CapturedTable] = (),
    troubles: Sequence[TableTrouble] = (),
) -> ChangeBatch:
    """The changes of one read, in order; there is at least one. Of a part, `part_of` is the sequence of the read's end.
    `troubles` are of tables that have written all they will."""
    columns = list(zip(*rows, strict=True))
    numbers, owners, ops, times = (np.array(columns[place], np.int64) for place in range(4))
    last = int(numbers[-1])
    transactions = Transactions(
        [str(last)] * len(rows),
        pa.array(numbers).cast(pa.string()).to_pylist(),
        numbers << 10 | 1023,
        np.maximum.accumulate(times),
    )
    parts: dict[str, list[TableChanges]] = {}
    found = list(troubles)
    stopped = set()
    for owner in dict.fromkeys(owners.tolist()):
        layout = layouts[owner]
        table = tables.get(layout.table)
        at = np.flatnonzero((owners == owner) & (ops != MARK))
        if table is None or layout.table in stopped or not len(at):
            continue
        changes = _changes(layout, table, columns, at, ops)
        good = _with_key(changes, table)
        if good < len(changes):
            found.append(odd_key(table.id, table.key))
            stopped.add(table.id)
            changes = changes.take(np.arange(good))
        if len(changes):
            parts.setdefault(table.id, []).append(changes)
    confirm = position_of(last, int(columns[4][-1]))
    merged = [_merged(some) for some in parts.values()]
    return ChangeBatch(transactions, merged, sequence_of(last), confirm, part_of, tuple(grown), tuple(found))


def _changes(
    layout: ChangeLayout, table: CapturedTable, columns: Sequence[Sequence[Any]], at: np.ndarray, ops: np.ndarray
) -> TableChanges:
    places = at.tolist()
    chosen = (lambda values: values) if len(at) == len(ops) else _chooser(places)
    arrays = [
        converted(chosen(columns[FIXED + place]), column.type, column.name in table.key)
        for place, column in enumerate(layout.columns)
    ]
    return TableChanges(
        layout.table,
        pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(layout.columns)),
        ops[at].astype(np.uint8),
        at,
    )


def _chooser(places: Sequence[int]) -> Callable[[Sequence[Any]], Sequence[Any]]:
    if len(places) == 1:
        return lambda values: [values[places[0]]]
    return itemgetter(*places)


def arrow_schema(columns: Sequence[Any]) -> pa.Schema:
    """The schema of rows with these columns."""
    return pa.schema([(column.name, ddl.to_arrow(ddl.parse_type(column.type))) for column in columns])


def _with_key(changes: TableChanges, table: CapturedTable) -> int:
    """How many changes there are before the first whose key is none."""
    bad = np.zeros(len(changes), np.bool_)
    for name in table.key:
        bad |= pc.is_null(changes.rows.column(name)).to_numpy(zero_copy_only=False)
    return int(np.argmax(bad)) if bad.any() else len(changes)


def _merged(parts: Sequence[TableChanges]) -> TableChanges:
    """Changes of one table under several layouts, which follow each other."""
    if len(parts) == 1:
        return parts[0]
    rows = pa.concat_tables([pa.Table.from_batches([part.rows]) for part in parts], promote_options="default")
    return TableChanges(
        parts[0].table,
        rows.combine_chunks().to_batches()[0],
        np.concatenate([part.ops for part in parts]),
        np.concatenate([part.transactions for part in parts]),
    )
