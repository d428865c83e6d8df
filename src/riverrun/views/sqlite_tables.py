"""Tables of views in SQLite: how values are bound, and how people see them in SQL.

A key column holds no NULL, since SQLite takes two NULLs of a unique key for different: in key columns a null is an
empty blob (in binary ones an empty text), values no column of the type can have. NaN, which SQLite would turn into
NULL, is the text 'NaN'. Tables have no types and no rowid: rows lie in key order, the order they are written in.

Under the view's own name there is an SQL VIEW for people, where timestamps are text ("2026-01-31 12:00:00.25", UTC: each
moment has one text, and text has the order of time), dates are text, and decimals are numbers (rounded to 15 digits or so;
`rows`, `get` and `arrow` give the exact ones). `sqlite_values` makes what people compare them with the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, islice
from math import isnan, nan
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from riverrun.views.catalogue import ViewRow
from riverrun.views.columns import Kept
from riverrun.views.layout import Layout, quoted

if TYPE_CHECKING:
    import polars as pl

ROWS_PER_STATEMENT = 300
_MOST_PARAMETERS = 32_000
_NAN = "NaN"


def table(view: ViewRow) -> str:
    """The table of a view's rows."""
    return f'"riverrun:rows:{view.rows}"'


def create(view: ViewRow, layout: Layout) -> str:
    """The statement that makes the table."""
    columns, key = ", ".join(layout.columns), ", ".join(layout.key)
    return f"create table {table(view)} ({columns}, primary key ({key})) without rowid"


def upsert(view: ViewRow, layout: Layout, rows: int) -> str:
    """A statement for so many rows. Nothing but the key is unique, so to replace a row is to update it."""
    values = ", ".join([_marks(len(layout.columns))] * rows)
    return f"replace into {table(view)} values {values}"


def having(layout: Layout) -> str:
    """A condition for one key."""
    return " and ".join(f"{name} = ?" for name in layout.key)


def find(view: ViewRow, layout: Layout, rows: int) -> str:
    """The rows of so many keys. Written so that SQLite takes key by key: of `(a, b) in (values …)` it scans the table."""
    values = ", ".join([_marks(len(layout.key))] * rows)
    columns = ", ".join(f"rows.{name}" for name in layout.columns)
    on = " and ".join(f"rows.{name} = keys.{name}" for name in layout.key)
    return (
        f"with keys ({', '.join(layout.key)}) as (values {values})"
        f" select {columns} from keys cross join {table(view)} as rows on {on}"
    )


def _marks(count: int) -> str:
    return f"({', '.join('?' * count)})"


def bound(layout: Layout, rows: pl.DataFrame) -> Iterator[list[Any]]:
    """Parameters of statements, for `ROWS_PER_STATEMENT` rows each, the last for the rest."""
    flat = chain.from_iterable(tuples(layout, rows))
    while part := list(islice(flat, rows_per_statement(rows.width) * rows.width)):
        yield part


def tuples(layout: Layout, rows: pl.DataFrame) -> Iterator[tuple[Any, ...]]:
    """Rows as SQLite keeps them."""
    return zip(*(_values(rows[name], layout.kind(name), name in layout.key) for name in rows.columns), strict=True)


def rows_per_statement(columns: int) -> int:
    """How many rows of so many columns one statement takes."""
    return max(1, min(ROWS_PER_STATEMENT, _MOST_PARAMETERS // columns))


def _no_value(kind: Kept) -> str | bytes:
    return "" if kind is Kept.BYTES else b""


def _values(column: pl.Series, kind: Kept, is_key: bool) -> list[Any]:
    values = column.to_list()
    if kind is Kept.DOUBLE and column.is_nan().any():
        values = [_NAN if value is not None and isnan(value) else value for value in values]
    if is_key and column.null_count():
        none = _no_value(kind)
        values = [none if value is None else value for value in values]
    return values


def bound_key(layout: Layout, key: Sequence[Any]) -> list[Any]:
    """One key as parameters."""
    kinds = [layout.kind(name) for name in layout.key]
    values = [_no_value(kind) if part is None else part for part, kind in zip(key, kinds, strict=True)]
    return [_NAN if isinstance(value, float) and isnan(value) else value for value in values]


def fetched(view: ViewRow, layout: Layout, rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    """Kept rows from rows of SQLite."""
    columns: list[list[Any]] = [list(map(itemgetter(i), rows)) for i in range(len(layout.columns))]
    for i, (name, kind) in enumerate(zip(layout.columns, layout.kinds, strict=True)):
        if name in view.nulls:
            none = _no_value(kind)
            columns[i] = [None if value == none else value for value in columns[i]]
        if kind is Kept.DOUBLE and _NAN in columns[i]:
            columns[i] = [nan if value == _NAN else value for value in columns[i]]
    return layout.table(columns)


def shown(view: ViewRow, layout: Layout) -> str:
    """The columns as people see them in SQL, without the hidden ones."""
    spec = view.spec
    parts = []
    for name, field, column, kind in zip(spec.names, spec.arrow, layout.columns, layout.kinds, strict=False):
        if name not in spec.hidden:
            # Only where there are nulls: an expression would keep conditions on the key from using it.
            none = "''" if kind is Kept.BYTES else "x''"
            raw = f"nullif({column}, {none})" if column in view.nulls else column
            parts.append(f"{_shown(raw, field.type)} as {quoted(name)}")
    return ", ".join(parts)


def equal(view: ViewRow, layout: Layout, column: int) -> tuple[str, str]:
    """SQL for a column, null where the row has no value, and for a value that may be equal to it."""
    name, kind = layout.columns[column], layout.kinds[column]
    none = "''" if kind is Kept.BYTES else "x''"
    raw = f"nullif(t.{name}, {none})" if name in view.nulls else f"t.{name}"
    # sqlite3 would bind a NaN as null.
    return raw, "ifnull(?, 'NaN')" if kind is Kept.DOUBLE else "?"


def ordered(view: ViewRow, layout: Layout, column: int) -> tuple[str, str]:
    """The same for what comes first: decimals are kept as text and have the order of numbers."""
    raw, given = equal(view, layout, column)
    if pa.types.is_decimal(layout.spec.arrow.field(column).type):
        return f"cast({raw} as real)", f"cast({given} as real)"
    return raw, given


def sorted_by(view: ViewRow, layout: Layout, column: str, written: str) -> list[str]:
    """SQL that sorts rows by a key column as its type is sorted, nulls last; its name is `written` so.

    Most columns lie in that order already. A null among bytes is text, which comes before them.
    """
    name, number = written.format(column), layout.columns.index(column)
    if number < len(layout.spec.arrow) and pa.types.is_decimal(layout.spec.arrow.field(number).type):
        return [f"cast(nullif({name}, x'') as real) nulls last", name]
    if layout.kind(column) is Kept.BYTES and column in view.nulls:
        return [f"{name} = ''", name]
    return [name]


def _shown(column: str, kind: pa.DataType) -> str:
    if pa.types.is_timestamp(kind):
        micros = f"(({column} % 1000000 + 1000000) % 1000000)"
        seconds = f"datetime(({column} - {micros}) / 1000000, 'unixepoch')"
        fraction = f"rtrim('.' || printf('%06d', {micros}), '0')"
        return f"iif({column} % 1000000 = 0, {seconds}, {seconds} || {fraction})"
    if pa.types.is_date(kind):
        return f"date({column} * 86400, 'unixepoch')"
    if pa.types.is_decimal(kind):
        return f"cast({column} as real)"
    return column
