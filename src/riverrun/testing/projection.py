"""Expressions of Spark SQL over a table, computed as flows compute them."""

from __future__ import annotations

from collections.abc import Sequence

import duckdb
import pyarrow as pa

from riverrun import ddl
from riverrun.errors import Invalid
from riverrun.expressions import translate
from riverrun.expressions.statement import Statement
from riverrun.expressions.typing import column_types
from riverrun.flow.expressions import expression
from riverrun.flow.schema import Schema


def compute(sql: Sequence[str], rows: pa.Table) -> pa.Table:
    """Expressions of Spark SQL over the columns of a table, a column for each; `Invalid` if one fails on a row."""
    schema = Schema(tuple((field.name, ddl.from_arrow(field.type)) for field in rows.schema))
    prefixed = [expression(text, schema).over(lambda name: f"`rows`.{ddl.backquoted(name)}") for text in sql]
    translated = [translate(text, column_types(rows.schema)).sql for text in prefixed]
    try:
        return Statement("rows", rows.schema, translated).run(rows.combine_chunks().to_batches()[0])
    except duckdb.Error as error:
        raise Invalid(f"{', '.join(sql)}: {error}") from None
