"""Expressions in the task: all branches of an origin that are computed on Arrow, by DuckDB, in one statement.

Columns that a branch only picks never go through it. Each expression of each branch is a column of the statement, each
condition one more; rows are chosen afterwards. An expression that may fail is computed for rows that meet the branch's
condition, and for no others. The statement is prepared once and kept as long as the worker lives.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from riverrun import ddl
from riverrun.columns import TIME, WEIGHT
from riverrun.errors import Invalid
from riverrun.expressions import translate
from riverrun.expressions.statement import Statement
from riverrun.expressions.typing import column_types
from riverrun.flow.composition import WrittenExpression
from riverrun.runtime.compile.job import MOMENT, Branch, struct_name
from riverrun.runtime.failing_row import Whereabouts, failing_row, first_failing

# What DuckDB says before the reason: which kind of error, and that a function of ours raised it.
_WRAPPING = re.compile(r"^(?:\w+ )+Error: (?:.*executing the UDF: \w+: )?")


class Computed:
    """One branch: which of the statement's columns it takes. Conditions and expressions are there once."""

    def __init__(self, branch: Branch, fields: pa.Schema, columns: dict[str, int]) -> None:
        self.branch = branch

        def add(sql: str) -> int:
            return columns.setdefault(sql, len(columns))

        self._typing = typing = column_types(fields)
        self.condition: int | None = None
        condition = None
        if branch.condition:
            condition = translate(branch.condition, typing).sql
            self.condition = add(condition)
        self.columns: dict[str, int] = {}
        wanted = {item.name: item.sql for item in branch.items if item.column is None}
        if branch.time is not None:
            wanted[TIME] = branch.time
        for name, sql in wanted.items():
            translated = translate(sql, typing)
            value = translated.sql
            if translated.type != (kind := ddl.from_arrow(branch.schema.field(name).type)) and name != TIME:
                value = translate(f"CAST({sql} AS {kind})", typing).sql
            if condition and translated.may_fail:
                value = f"CASE WHEN {condition} THEN {value} END"
            self.columns[name] = add(value)

    def suspects(self) -> Iterator[tuple[WrittenExpression, str]]:
        """What the user wrote that may fail, in the order in which rows pass it, as DuckDB computes it by itself."""
        for written in self.branch.written:
            translated = translate(written.sql, self._typing)
            if translated.may_fail:
                passed = translate(written.condition, self._typing).sql if written.condition else None
                yield written, f"CASE WHEN {passed} THEN {translated.sql} END" if passed else translated.sql


class Projection:
    """The branches of one origin; `at` is what people call it."""

    def __init__(self, branches: Sequence[Branch], fields: pa.Schema, at: Whereabouts) -> None:
        self._at = at
        self._picking = [branch for branch in branches if branch.picks]
        columns: dict[str, int] = {}
        self._computed = [Computed(branch, fields, columns) for branch in branches if not branch.picks]
        self._expressions = list(columns)
        used = [field for field in fields if any(_quoted(field.name) in sql for sql in columns)]
        # With literals only, something has to say how many rows there are.
        self._fields = pa.schema(used or [(WEIGHT, pa.int8())])
        self._name = struct_name(branches[0].origin) if branches else ""
        self._statement: Statement | None = None

    def rows(self, rows: pa.RecordBatch) -> Iterator[tuple[Branch, pa.RecordBatch]]:
        """The rows of each branch, of rows with the origin's columns and the carried ones."""
        if not rows.num_rows:
            return
        for branch in self._picking:
            yield branch, _pick(branch, rows, {}, None)
        if not self._computed:
            return
        values = self._run(rows)
        for computed in self._computed:
            chosen = None
            if computed.condition is not None:
                mask = values[computed.condition]
                chosen = pc.fill_null(mask, False) if mask.null_count else mask
            columns = {name: values[number] for name, number in computed.columns.items()}
            yield computed.branch, _pick(computed.branch, rows, columns, chosen)

    def _run(self, rows: pa.RecordBatch) -> list[pa.Array]:
        if self._statement is None:
            self._statement = Statement(self._name, self._fields, self._expressions)
        try:
            table = self._statement.run(_as_fields(rows, self._fields))
        except duckdb.Error as error:
            raise self._failure(rows, error) from None
        return [column.combine_chunks() for column in table.columns]

    def _failure(self, rows: pa.RecordBatch, error: duckdb.Error) -> Invalid:
        """What failed, and on which row: each expression is tried by itself, on fewer and fewer rows."""
        for computed in self._computed:
            for written, sql in computed.suspects():
                statement = Statement(self._name, self._fields, [sql])
                found = first_failing(rows.num_rows, partial(_try, statement, _as_fields(rows, self._fields)))
                if found is not None:
                    return failing_row(self._at, rows.slice(found[0], 1), written, _reason(found[1]))
        return Invalid(f"an expression on rows of {self._at.name} fails: {_reason(error)}")


def _as_fields(rows: pa.RecordBatch, fields: pa.Schema) -> pa.RecordBatch:
    columns = []
    for field in fields:
        column = rows.column(field.name)
        columns.append(column.view(MOMENT) if field.name == TIME else column)
    return pa.RecordBatch.from_arrays(columns, schema=fields)


def _pick(
    branch: Branch, rows: pa.RecordBatch, computed: dict[str, pa.Array], chosen: pa.Array | None
) -> pa.RecordBatch:
    """The columns of a branch: computed ones, and others as they are in the rows."""
    plain = {item.name: item.column for item in branch.items if item.column is not None}
    columns = []
    for field in branch.schema:
        if field.name in computed:
            column = computed[field.name]
        else:
            column = rows.column(plain.get(field.name, field.name))
        columns.append(_typed(column, field.type))
    whole = pa.RecordBatch.from_arrays(columns, schema=branch.schema)
    return whole if chosen is None else whole.filter(chosen)


def _try(statement: Statement, rows: pa.RecordBatch, low: int, high: int) -> duckdb.Error | None:
    """How a statement fails on some of the rows."""
    try:
        statement.run(rows.slice(low, high - low))
    except duckdb.Error as error:
        return error
    return None


def _reason(error: duckdb.Error) -> str:
    return _WRAPPING.sub("", str(error).splitlines()[0])


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _typed(column: pa.Array, kind: pa.DataType) -> pa.Array:
    return column if column.type == kind else column.cast(kind)
