"""Rows of pgoutput → columns. Messages are gathered as they come and parsed once, column by column, for all of them.

Pure: no connection. A row's message is a type byte, the relation, then one or two tuples; a tuple is the number of its
columns and for each a kind (n: null, u: unchanged and not sent, t: text) and for text its length and bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from riverrun import ddl
from riverrun.capture.changes import DELETE, INSERT, TRUNCATE, UPDATE, CapturedTable, TableChanges, TableTrouble
from riverrun.capture.postgres.messages import RelationMessage
from riverrun.capture.postgres.types import converted

_OPS = np.zeros(256, np.uint8)
_OPS[ord("I")], _OPS[ord("U")], _OPS[ord("D")], _OPS[ord("T")] = INSERT, UPDATE, DELETE, TRUNCATE
_NEW, _TEXT, _UNSENT, _NULL = ord("N"), ord("t"), ord("u"), ord("n")
_PADDING = b"\0" * 8


@dataclass(frozen=True)
class TupleCells:
    """The values of a tuple's columns, for all messages: where their text is, and what kind each is."""

    begins: np.ndarray  # (column, message)
    lengths: np.ndarray
    kinds: np.ndarray
    end: np.ndarray  # (message): where the tuple ends


def decode_rows(
    payloads: Sequence[bytes],
    owners: Sequence[int],
    relations: Mapping[int, RelationMessage],
    tables: Mapping[str, CapturedTable],
) -> list[TableChanges | TableTrouble]:
    """The changes of each table that is captured, in order, or why they cannot be read.

    `payloads` are messages I, U or D, or `truncated`; `owners` has the transaction of each. Relations and tables are as they
    were for all of these rows.
    """
    if not payloads:
        return []
    data = np.frombuffer(b"".join([*payloads, _PADDING]), np.uint8)
    lengths = np.fromiter(map(len, payloads), np.int64, len(payloads))
    starts = np.cumsum(lengths) - lengths
    numbers = np.fromiter(owners, np.int64, len(owners))
    oids = _number(data, starts + 1, 4)
    found: list[TableChanges | TableTrouble] = []
    for oid in np.unique(oids).tolist():
        relation = relations[oid]
        table = tables.get(relation.id)
        if table is not None:
            mine = oids == oid
            try:
                found.append(_decode_table(data, starts[mine], numbers[mine], relation, table))
            except pa.ArrowInvalid as error:
                found.append(TableTrouble(table.id, f"a value of {table.id} cannot be read ({error})"))
    return found


def truncated(oid: int) -> bytes:
    """A message for one relation that was emptied."""
    return b"T" + oid.to_bytes(4, "big")


def _decode_table(
    data: np.ndarray, starts: np.ndarray, owners: np.ndarray, relation: RelationMessage, table: CapturedTable
) -> TableChanges:
    ops = _OPS[data[starts]]
    count, width = len(starts), len(relation.columns)
    at = starts + 5
    marks = np.where(ops == TRUNCATE, 0, data[at])
    has_old = (marks == ord("K")) | (marks == ord("O"))
    new = _blank(width, count)
    old = _blank(width, count)
    if has_old.any():
        _fill(old, _parse(data, at[has_old] + 1, width), has_old)
        at = np.where(has_old, old.end, at)
    has_new = (ops == INSERT) | (ops == UPDATE)
    _fill(new, _parse(data, at[has_new] + 1, width), has_new)
    # With all columns as the identity, what was not sent again is in the old row.
    known = (new.kinds == _UNSENT) & ((old.kinds == _TEXT) | (old.kinds == _NULL)) & (marks == ord("O"))
    for one, other in ((new.begins, old.begins), (new.lengths, old.lengths), (new.kinds, old.kinds)):
        one[known] = other[known]
    places = {column.name: place for place, column in enumerate(relation.columns)}
    gone = ops == DELETE
    arrays, unsent, old_keys = [], {}, {}
    for column in table.columns:
        place = places.get(column.source)
        if place is None:  # not there yet, or no longer
            arrays.append(pa.nulls(count, ddl.to_arrow(ddl.parse_type(column.type))))
            continue
        begins, lengths, kinds = new.begins[place], new.lengths[place], new.kinds[place]
        if column.name in table.key:
            begins, lengths = np.where(gone, old.begins[place], begins), np.where(gone, old.lengths[place], lengths)
            kinds = np.where(gone, old.kinds[place], kinds)
            if has_old.any():
                texts = _texts(data, old.begins[place], old.lengths[place], old.kinds[place])
                old_keys[column.name] = converted(texts, column.type)
        arrays.append(converted(_texts(data, begins, lengths, kinds), column.type))
        if (missing := kinds == _UNSENT).any():
            unsent[column.name] = missing
    schema = pa.schema([(column.name, ddl.to_arrow(ddl.parse_type(column.type))) for column in table.columns])
    rows = pa.RecordBatch.from_arrays(arrays, schema=schema)
    moved = _moved(rows, old_keys, table.key, has_old & (ops == UPDATE)) if old_keys else None
    keys = pa.RecordBatch.from_pydict({name: old_keys[name] for name in table.key}) if moved is not None else None
    return TableChanges(table.id, rows, ops, owners, keys, moved, unsent)


def _moved(
    rows: pa.RecordBatch, old: Mapping[str, pa.Array], key: Sequence[str], asked: np.ndarray
) -> np.ndarray | None:
    """Which updates changed the key; None: none of them."""
    differ = np.zeros(rows.num_rows, np.bool_)
    for name in key:
        other = pc.fill_null(pc.not_equal(rows.column(name), old[name]), False)
        differ |= other.to_numpy(zero_copy_only=False)
    differ &= asked
    return differ if differ.any() else None


def _blank(width: int, count: int) -> TupleCells:
    shape = (width, count)
    return TupleCells(
        np.zeros(shape, np.int64), np.zeros(shape, np.int64), np.full(shape, _NULL, np.uint8), np.zeros(count, np.int64)
    )


def _fill(cells: TupleCells, found: TupleCells, where: np.ndarray) -> None:
    cells.begins[:, where], cells.lengths[:, where] = found.begins, found.lengths
    cells.kinds[:, where], cells.end[where] = found.kinds, found.end


def _parse(data: np.ndarray, at: np.ndarray, width: int) -> TupleCells:
    """Tuples that begin at these places, all of the same width, in step."""
    cells = _blank(width, len(at))
    at = at + 2  # the number of columns, which the relation has told
    for column in range(width):
        kinds = data[at]
        is_text = kinds == _TEXT
        lengths = np.where(is_text, _number(data, np.minimum(at + 1, len(data) - 8), 4), 0)
        cells.kinds[column], cells.lengths[column], cells.begins[column] = kinds, lengths, at + 5
        at = at + 1 + np.where(is_text, 4 + lengths, 0)
    cells.end[:] = at
    return cells


def _number(data: np.ndarray, at: np.ndarray, width: int) -> np.ndarray:
    """Whole numbers in network order."""
    found = np.zeros(len(at), np.int64)
    for place in range(width):
        found = (found << 8) | data[at + place]
    return found


def _texts(data: np.ndarray, begins: np.ndarray, lengths: np.ndarray, kinds: np.ndarray) -> pa.Array:
    """The texts at these places as one array; null where there is none."""
    valid = kinds == _TEXT
    sizes = np.where(valid, lengths, 0)
    ends = np.cumsum(sizes)
    total = int(ends[-1]) if len(ends) else 0
    kind, wide = (pa.string(), np.int32) if total < 1 << 31 else (pa.large_string(), np.int64)
    source = np.arange(total) + np.repeat(begins - (ends - sizes), sizes)
    offsets = np.zeros(len(sizes) + 1, wide)
    offsets[1:] = ends
    bitmap = None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))
    buffers = [bitmap, pa.py_buffer(offsets), pa.py_buffer(data[source])]
    found = pa.Array.from_buffers(kind, len(sizes), buffers)
    return found if kind == pa.string() else found.cast(pa.string())
