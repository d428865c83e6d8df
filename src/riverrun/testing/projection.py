"""The SQL of a job's branches, run by DuckDB instead of Spark."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import duckdb
import pyarrow as pa
from sqlglot import exp

from riverrun import ddl
from riverrun.columns import CARRIED, TIME
from riverrun.ddl import Struct, Type
from riverrun.errors import Invalid
from riverrun.flow.expressions import expression
from riverrun.flow.nodes import Transform
from riverrun.flow.schema import Schema
from riverrun.runtime.blob import PACKED, Packer
from riverrun.runtime.branch import Item
from riverrun.runtime.job import Branch, Job, struct_name
from riverrun.testing.translation import HINT, translated
from riverrun.views.sql.conditions import quoted

Batches = Iterable[pa.RecordBatch]


_opened = threading.local()


def database() -> duckdb.DuckDBPyConnection:
    """This thread's DuckDB, opened when it is first needed: it takes longer to open than a small flow to run."""
    if not hasattr(_opened, "db"):
        _opened.db = duckdb.connect(":memory:", config={"threads": 1})
        _opened.db.execute("SET TimeZone = 'UTC'")
    db: duckdb.DuckDBPyConnection = _opened.db
    return db


class DuckProjection:
    """Runs what is between an origin and a target."""

    def types(self, origin: str, fields: pa.Schema, items: Sequence[Item]) -> Mapping[str, pa.DataType]:
        """Types of expressions that the flow could not infer. They are DuckDB's, which may be wider than Spark's."""
        chosen = ", ".join(f"{_duckdb(item.sql, fields)} AS {quoted(item.name)}" for item in items)
        made = _select(origin, fields.empty_table(), chosen, None)
        return {field.name: field.type for field in made.schema}

    def transformed(self, node: Transform, columns: pa.Schema) -> pa.Schema:
        raise Invalid(f"{node.place}: transform is plain Spark", hint='Run the flow with engine="spark"')

    def packed(self, job: Job, origins: Sequence[str], batches: Batches) -> Iterator[pa.RecordBatch]:
        """What was packed already, and the rows of structs, projected and packed."""
        branches = [b for origin in origins for b in job.from_origin.get(origin, ()) if not b.trivial]
        for batch in batches:
            blobs = batch.filter(batch.column("branch").is_valid()).select(PACKED.names)
            yield pa.RecordBatch.from_arrays(blobs.columns, schema=PACKED)
            packer = Packer(job.shards)
            for branch in branches:
                structs = batch.column(struct_name(branch.origin)).drop_null()
                if len(structs):
                    rows = pa.Table.from_arrays(structs.flatten(), schema=pa.schema(list(structs.type)))
                    packer.rows(branch, self._rows(branch, rows))
            yield packer.batch()

    def _rows(self, branch: Branch, rows: pa.Table) -> pa.RecordBatch:
        kinds = {field.name: _duckdb_type(ddl.from_arrow(field.type)) for field in branch.schema}
        items = [f"CAST({_duckdb(i.sql, rows.schema)} AS {kinds[i.name]}) AS {quoted(i.name)}" for i in branch.items]
        items += [f"epoch_us({quoted(n)})" if n == TIME else f"{quoted(n)}" for n in CARRIED]
        condition = _duckdb(branch.condition, rows.schema) if branch.condition else None
        made = _select(branch.origin, rows, ", ".join(items), condition).rename_columns(branch.schema.names)
        table = made.cast(branch.schema).combine_chunks()
        empty = pa.RecordBatch.from_arrays([pa.array([], f.type) for f in branch.schema], schema=branch.schema)
        return table.to_batches()[0] if table.num_rows else empty


def _select(origin: str, rows: pa.Table, items: str, condition: str | None) -> pa.Table:
    name = struct_name(origin)
    db = database()
    db.register(name, rows)
    try:
        where = f" WHERE {condition}" if condition else ""
        return db.sql(f"SELECT {items} FROM {quoted(name)}{where}").to_arrow_table()
    except duckdb.Error as error:
        why = str(error).splitlines()[0]
        raise Invalid(f"DuckDB cannot run an expression behind {origin}: {why}", hint=HINT) from None
    finally:
        db.unregister(name)


def compute(sql: Sequence[str], rows: pa.Table) -> pa.Table:
    """Expressions of Spark SQL over the columns of a table, a column for each."""
    origin = struct_name("rows")
    schema = Schema(tuple((field.name, ddl.from_arrow(field.type)) for field in rows.schema))
    prefixed = [expression(text, schema).over(lambda name: f"`{origin}`.{ddl.backquoted(name)}") for text in sql]
    items = ", ".join(f"{_duckdb(text, rows.schema)} AS c{number}" for number, text in enumerate(prefixed))
    return _select("rows", rows, items, None)


@lru_cache(maxsize=1024)
def _duckdb(sql: str, fields: pa.Schema) -> str:
    return translated(sql, _typing(fields))


def _typing(fields: pa.Schema) -> Callable[[exp.Expression], Type | None]:
    """Types of `struct`.`column`, and of fields inside."""

    def of(column: exp.Expression) -> Type | None:
        assert isinstance(column, exp.Column)
        _, name, *inner = (part.name for part in column.parts)
        known: Any = ddl.from_arrow(fields.field(name).type)
        for step in inner:
            if not isinstance(known, Struct):
                return None
            known = next((part.type for part in known.fields if part.name.lower() == step.lower()), None)
        return known  # type: ignore[no-any-return]

    return of


@lru_cache(maxsize=1024)
def _duckdb_type(kind: Type) -> str:
    return str(exp.DataType.build(str(kind), dialect="spark").sql(dialect="duckdb"))
