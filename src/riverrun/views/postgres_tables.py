"""Tables of views in PostgreSQL: types as people expect them, and how kept values become them and back.

Keys are unique with NULLS NOT DISTINCT. Text is compared by its bytes. PostgreSQL's text has no NUL character: it is
stored as U+FFFD. A key longer than about 2,700 bytes does not fit into an index and is refused.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from riverrun.errors import Invalid
from riverrun.views.catalogue import ViewRow
from riverrun.views.columns import Kept, is_nested
from riverrun.views.layout import Layout, quoted
from riverrun.views.spec import ViewSpec

if TYPE_CHECKING:
    import polars as pl

_LONGEST_NAME = 63
_KEPT = {Kept.WHOLE: "bigint", Kept.DOUBLE: "double precision", Kept.TEXT: "text", Kept.BYTES: "bytea"}
_DAY = 86_400_000_000


def table(view: ViewRow) -> str:
    """The table of a view's rows."""
    return f'"riverrun:rows:{view.rows}"'


def stage(view: ViewRow) -> str:
    """The connection's own table that rows are copied into first."""
    return f"pg_temp.{_stage(view)}"


def _stage(view: ViewRow) -> str:
    return f'"riverrun:stage:{view.rows}"'


def check_names(spec: ViewSpec) -> None:
    """`Invalid` for names that PostgreSQL would cut off."""
    for name in (spec.name, *spec.names):
        if len(name.encode()) > _LONGEST_NAME:
            raise Invalid(
                f"view {spec.name!r}: PostgreSQL cuts names after {_LONGEST_NAME} bytes, {name!r} is longer",
                hint="Choose a shorter name",
            )


def _types(layout: Layout) -> list[pa.DataType]:
    types = [field.type for field in layout.spec.arrow]
    return types + [pa.int64()] * (len(layout.columns) - len(types))


def _type(kind: pa.DataType) -> str:
    is_ = pa.types
    if is_.is_nested(kind):
        return "json"
    if is_.is_decimal(kind):
        return f"numeric({kind.precision},{kind.scale})"
    if is_.is_timestamp(kind):
        return "timestamptz" if kind.tz else "timestamp"
    names = {
        pa.bool_(): "boolean",
        pa.int8(): "smallint",
        pa.int16(): "smallint",
        pa.int32(): "integer",
        pa.int64(): "bigint",
        pa.float32(): "real",
        pa.float64(): "double precision",
        pa.date32(): "date",
        pa.binary(): "bytea",
    }
    return names.get(kind, 'text collate "C"')


def create(view: ViewRow, layout: Layout) -> list[str]:
    """The statements that make the table and its key."""
    columns = ", ".join(f"{name} {_type(kind)}" for name, kind in zip(layout.columns, _types(layout), strict=True))
    return [
        f"create table {table(view)} ({columns}) with (fillfactor = 70)",  # room for updates in place
        f"create unique index on {table(view)} ({', '.join(layout.key)}) nulls not distinct",
    ]


def create_stage(view: ViewRow, layout: Layout) -> str:
    """The statement that makes the stage, once per connection; it is empty in every new transaction."""
    columns = ", ".join(f"{name} {_KEPT[kind]}" for name, kind in zip(layout.columns, layout.kinds, strict=True))
    return f"create temporary table if not exists {_stage(view)} ({columns}) on commit delete rows"


def kept(column: str, kind: pa.DataType) -> str:
    """SQL for the kept value of a typed column."""
    is_ = pa.types
    if is_.is_timestamp(kind):
        return f"(extract(epoch from {column}) * 1000000)::bigint"
    if is_.is_date(kind):
        return f"({column} - date 'epoch')::bigint"
    if is_.is_boolean(kind) or is_.is_integer(kind):
        return f"{column}::int::bigint" if is_.is_boolean(kind) else f"{column}::bigint"
    if is_.is_floating(kind):
        return f"{column}::double precision"
    if is_.is_decimal(kind) or is_nested(kind):
        return f"{column}::text"
    return column


def _typed(column: str, kind: pa.DataType) -> str:
    is_ = pa.types
    if is_.is_timestamp(kind):
        # Days and seconds apart: one number of microseconds would lose digits on its way through a double.
        days = f"floor({column}::numeric / {_DAY})::int"
        rest = f"({column} - floor({column}::numeric / {_DAY}) * {_DAY})::double precision / 1000000"
        return f"({_type(kind)} 'epoch' + make_interval(days => {days}, secs => {rest}))"
    if is_.is_date(kind):
        return f"(date 'epoch' + {column}::int)"
    if is_.is_boolean(kind):
        return f"({column} <> 0)"
    if _type(kind).startswith("text"):
        return column
    return f"{column}::{_type(kind)}"


def kept_columns(layout: Layout, prefix: str = "{}") -> str:
    """All columns as they are kept; `prefix` makes the name the column has in the query."""
    pairs = zip(layout.columns, _types(layout), strict=True)
    return ", ".join(kept(prefix.format(name), kind) for name, kind in pairs)


def shown(view: ViewRow, layout: Layout) -> str:
    """The columns as people see them in SQL, without the hidden ones."""
    pairs = zip(view.spec.names, layout.columns, strict=False)
    return ", ".join(f"{column} as {quoted(name)}" for name, column in pairs if name not in view.spec.hidden)


def given(view: ViewRow, layout: Layout, rows: pl.DataFrame) -> tuple[str, list[list[Any]]]:
    """A query of kept rows that are not in a table, shown as those that are, each with its number from 1 in "riverrun:n";
    and the query's parameters, which are written `%s`."""
    arrays = ", ".join(f"%s::{_KEPT[layout.kind(name)]}[]" for name in rows.columns)
    typed = (
        f"{_typed(name, kind)} as {quoted(shown.replace('%', '%%'))}"
        for name, kind, shown in zip(rows.columns, _types(layout), view.spec.names, strict=False)
    )
    listed = [[without_nul(value) for value in rows[name].to_list()] for name in rows.columns]
    source = f"unnest({arrays}) with ordinality as given ({', '.join(rows.columns)}, n)"
    return f'select n as "riverrun:n", {", ".join(typed)} from {source}', listed


def without_nul(value: Any) -> Any:
    """A kept value that PostgreSQL takes."""
    return value.replace("\0", "\ufffd") if isinstance(value, str) else value


def merge(view: ViewRow, layout: Layout) -> str:
    """The statement that puts the staged rows in place of those with their keys."""
    pairs = zip(layout.columns, _types(layout), strict=True)
    values = ", ".join(_typed(name, kind) for name, kind in pairs)
    changed = [f"{name} = excluded.{name}" for name in layout.columns if name not in layout.key]
    action = f"update set {', '.join(changed)}" if changed else "nothing"
    return (
        f"insert into {table(view)} ({', '.join(layout.columns)}) select {values} from {stage(view)}"
        f" on conflict ({', '.join(layout.key)}) do {action}"
    )


def same_key(layout: Layout, keys: pl.DataFrame) -> Iterator[str]:
    """Conditions under which a row `t` has the key of a staged row `s`, one for each way parts of a key are null.

    `is not distinct from` would say it in one, but cannot use an index.
    """
    types = dict(zip(layout.columns, _types(layout), strict=True))
    choices = []
    for name in layout.key:
        equal = f"t.{name} = {_typed(f's.{name}', types[name])}"
        null = f"t.{name} is null and s.{name} is null"
        nulls = keys[name].null_count()
        choices.append([equal] * (nulls < keys.height) + [null] * (nulls > 0))
    for chosen in product(*choices):
        yield " and ".join(chosen)


def one_key(layout: Layout, key: Sequence[Any]) -> tuple[str, list[Any]]:
    """The condition for one key, and its parameters."""
    types = dict(zip(layout.columns, _types(layout), strict=True))
    conditions, parameters = [], []
    for name, part in zip(layout.key, key, strict=True):
        if part is None:
            conditions.append(f"{name} is null")
        else:
            holder = f"%s::{_KEPT[layout.kind(name)]}"
            conditions.append(f"{name} = (select {_typed('v', types[name])} from (select {holder} as v) as given)")
            parameters.append(without_nul(part))
    return " and ".join(conditions), parameters


def compared(layout: Layout, column: int) -> tuple[str, str]:
    """SQL for a column and for a kept value that is compared with it."""
    name, kind = f"t.{layout.columns[column]}", layout.spec.arrow.field(column).type
    holder = f"?::{_KEPT[layout.kinds[column]]}"
    return name, f"(select {_typed('v', kind)} from (select {holder} as v) as given)"


def csv(layout: Layout, rows: pl.DataFrame) -> bytes:
    """Kept rows as COPY reads them: nulls are empty, everything else is in quotes."""
    import polars as pl
    from pyarrow import csv as arrow_csv

    columns = []
    for name in rows.columns:
        column = rows[name]
        if layout.kind(name) is Kept.BYTES:
            column = "\\x" + column.bin.encode("hex")
        elif layout.kind(name) is Kept.TEXT and column.str.contains("\0", literal=True).any():
            column = column.str.replace_all("\0", "\ufffd", literal=True)
        columns.append(column.alias(name))
    out = io.BytesIO()
    options = arrow_csv.WriteOptions(include_header=False, quoting_style="all_valid")
    arrow_csv.write_csv(pl.DataFrame(columns).to_arrow(), out, options)
    return out.getvalue()
