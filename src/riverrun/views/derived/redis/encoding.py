"""Rows of views as Redis has them, and back: a hash whose fields are the texts of the visible columns (`key_text` says which
text a value has). A column that is null has no field; a row without any has one with an empty name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from riverrun.errors import Corrupt
from riverrun.views.derived.key_text import key_part, key_texts, texts_of, values_of
from riverrun.views.layout import DELETE, INSERT, NEW, OP
from riverrun.views.settled import Settled
from riverrun.views.spec import ViewSpec


class KeyedRows(NamedTuple):
    """Changes of a view: the keys of rows that are gone, and rows as a key and its values, None where there is none."""

    gone: list[str]
    rows: list[tuple[Any, ...]]


def encoded(spec: ViewSpec, part: Settled, most: int) -> Iterator[KeyedRows]:
    """Settled changes of a view, at most so many at a time."""
    changes = pa.Table.from_batches([part.batch])
    op = changes.column(OP)
    gone = changes.filter(pc.equal(op, DELETE))
    there = changes.filter(pc.is_in(op, pa.array([INSERT, NEW], pa.int8())))
    for start in range(0, gone.num_rows, most):
        yield KeyedRows(key_texts(spec, gone.slice(start, most)).to_pylist(), [])
    for start in range(0, there.num_rows, most):
        rows = there.slice(start, most)
        columns = [
            texts_of(rows.column(f"c{i}"), spec.arrow.field(i).type) for i in map(spec.names.index, spec.visible)
        ]
        keys = key_texts(spec, rows)
        yield KeyedRows([], list(zip(keys.to_pylist(), *(column.to_pylist() for column in columns), strict=True)))


def decoded(spec: ViewSpec, keys: Sequence[bytes], rows: Sequence[Mapping[bytes, bytes]]) -> pa.Table:
    """Rows with every column, from the texts of their keys and their fields; a hidden column that is in no key is null.
    `Corrupt` for what was never written."""
    try:
        columns = {}
        for name in spec.names:
            if name not in spec.hidden:
                field = name.encode()
                texts = [row.get(field) for row in rows]
            else:
                texts = [key_part(spec, key, name) if name in spec.key else None for key in keys]
            columns[name] = values_of(texts, spec.arrow.field(name).type)
        return pa.table(columns, schema=spec.arrow)
    except (pa.ArrowException, ValueError, KeyError, IndexError) as error:
        raise Corrupt(
            f"rows of view {spec.name!r} in Redis are not as they were written: {str(error).splitlines()[0]}",
            hint="Rebuild the view: riverrun run FLOW.py --rebuild",
        ) from error
