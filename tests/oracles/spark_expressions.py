"""Expressions computed by Spark and by DuckDB, row by row, so that an error of one row hides no other.

An error is a value here: `FAILED`. Values are compared exactly, doubles by their bits but for the payload of NaN.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow as pa

from riverrun import ddl
from riverrun.ddl import Struct, Type
from riverrun.expressions import Translated, connect, translate

FAILED = "an error"
UNKNOWN = "another value tomorrow"
ROWS = "r"
"""The columns are those of a table of this name in DuckDB, and of a struct of this name in Spark."""


# Thousands of expressions are not worth compiling.
_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # What BETWEEN and nullif look at twice would be computed before everything else, whether it is needed or not.
    "spark.sql.legacy.duplicateBetweenInput": "true",
    "spark.sql.alwaysInlineCommonExpr": "true",
    # a * b in one expression and b * a in another would be computed once, in one order: null, or an error, for both.
    "spark.sql.subexpressionElimination.enabled": "false",
}


@dataclass(frozen=True)
class Computed:
    """The type of an expression, and its value in every row."""

    type: str
    values: list[Any]


def plain(array: pa.Array | pa.ChunkedArray) -> list[Any]:
    """Values that are equal if and only if they are the same, for Arrow has values that Python has not."""
    if isinstance(array, pa.ChunkedArray):
        return [value for chunk in array.chunks for value in plain(chunk)]
    kind = array.type
    if pa.types.is_struct(kind):
        columns = [plain(column) for column in array.flatten()]
        rows = zip(array.is_valid().to_pylist(), *columns, strict=True)
        return [values if valid else None for valid, *values in rows]
    if pa.types.is_list(kind) or pa.types.is_map(kind):
        return [plain(item.values) if item.is_valid else None for item in array]
    if pa.types.is_date(kind):
        return array.cast(pa.int32()).to_pylist()
    if pa.types.is_timestamp(kind):
        return array.cast(pa.int64()).to_pylist()
    if pa.types.is_floating(kind):
        return [None if value is None else "NaN" if math.isnan(value) else repr(value) for value in array.to_pylist()]
    return array.to_pylist()


class SparkSide:
    """Computes expressions in a Spark session, many in one job."""

    def __init__(self, spark: Any, rows: pa.Table) -> None:
        from pyspark.sql import functions as F

        from riverrun.spark.types import spark_schema

        session = spark.newSession()
        for name, value in _SETTINGS.items():
            session.conf.set(name, value)
        self._functions = F
        self._jvm = session._jvm
        columns = [F.col(name) for name in rows.column_names]
        self._frame = (
            session.createDataFrame(rows, spark_schema(rows.schema))
            .select(F.struct(*columns).alias(ROWS))
            .repartition(1)
            .cache()
        )

    def computed(self, expressions: Sequence[str]) -> list[Computed | str | None]:
        """Of each expression what it comes to, or why Spark does not accept it; None if it fails before any row is read."""
        try:
            return list(self._together(expressions))
        except Exception as error:  # one of them is not accepted
            if len(expressions) == 1:
                refused = "AnalysisException" in type(error).__name__ or "ParseException" in type(error).__name__
                return [str(error).split("SQLSTATE")[0].strip() if refused else None]
            half = len(expressions) // 2
            return [*self.computed(expressions[:half]), *self.computed(expressions[half:])]

    def _together(self, expressions: Sequence[str]) -> list[Computed]:
        frame = self._frame.select(*(self._attempt(sql).alias(f"c{n}") for n, sql in enumerate(expressions)))
        types = [field.dataType["v"].dataType.simpleString() for field in frame.schema.fields]
        table = pa.Table.from_batches(frame._collect_as_arrow())  # toArrow() takes a null struct for an error
        found = []
        for kind, column in zip(types, table.columns, strict=True):
            values = plain(column)
            found.append(Computed(kind, [FAILED if value is None else value[0] for value in values]))
        return found

    def _attempt(self, sql: str) -> Any:
        """A struct with the value, null where the expression fails: Spark's own `TryEval`, which SQL has no name for."""
        from pyspark.sql.classic.column import Column

        utils = self._jvm.org.apache.spark.sql.classic.ExpressionUtils
        expressions = self._jvm.org.apache.spark.sql.catalyst.expressions
        nullable = expressions.KnownNullable(utils.expression(self._functions.expr(sql)._jc))
        value = self._functions.struct(Column(utils.column(nullable)).alias("v"))
        return Column(utils.column(expressions.TryEval(utils.expression(value._jc))))


class DuckSide:
    """Computes translated expressions in DuckDB."""

    def __init__(self, rows: pa.Table) -> None:
        self.db = connect()
        self.rows = rows
        self.types = {field.name: ddl.from_arrow(field.type) for field in rows.schema}

    def column(self, column: Any) -> Type | None:
        _, name, *inner = (part.name for part in column.parts)
        kind: Type | None = self.types[name]
        for step in inner:
            fields = kind.fields if isinstance(kind, Struct) else ()
            kind = next((field.type for field in fields if field.name == step), None)
        return kind

    def translate(self, sql: str) -> Translated:
        return translate(sql, self.column)

    def difference(self, translated: Translated, expected: Computed, approximate: bool = False) -> str | None:
        """What is not as Spark has it. Of the rows that fail in Spark, a few are tried."""
        if str(translated.type) != expected.type:
            return f"the type is {expected.type}, not {translated.type}"
        fine = [row for row, value in enumerate(expected.values) if value != FAILED]
        values = self._values(translated, fine)
        for row, value in zip(fine, values, strict=True):
            if not same(value, expected.values[row], approximate):
                return f"row {row}: {value!r}, in Spark {expected.values[row]!r}"
        failing = [row for row, value in enumerate(expected.values) if value == FAILED]
        for row in random.Random(len(translated.sql)).sample(failing, min(3, len(failing))):
            value = self._values(translated, [row])[0]
            if value not in (FAILED, UNKNOWN):
                return f"row {row}: {value!r}, in Spark an error"
        if failing and not translated.may_fail:
            return "it may fail, and does not say so"
        return self._difference_as_condition(translated, fine, values)

    def _difference_as_condition(self, translated: Translated, rows: list[int], values: list[Any]) -> str | None:
        """A condition of a query is evaluated in another way than a result."""
        if str(translated.type) != "boolean" or not rows or FAILED in values:
            return None
        kept = self._query("SELECT row", rows, f" WHERE {translated.sql}")
        wanted = [row for row, value in enumerate(values) if value]
        return None if kept.to_pylist() == wanted else f"as a condition it keeps {kept.to_pylist()}, not {wanted}"

    def _values(self, translated: Translated, rows: list[int]) -> list[Any]:
        if not rows:
            return []
        try:
            found = self._query(f"SELECT {translated.sql}", rows)
        except duckdb.Error as error:
            if isinstance(error, duckdb.BinderException | duckdb.ParserException | duckdb.InternalException):
                raise
            if len(rows) == 1:
                return [UNKNOWN if "that of today" in str(error) else FAILED]
            half = len(rows) // 2
            return self._values(translated, rows[:half]) + self._values(translated, rows[half:])
        kind = ddl.from_arrow(found.type)
        assert str(kind) == str(translated.type), f"{translated.sql} is {kind} in DuckDB, not {translated.type}"
        return plain(found)

    def _query(self, select: str, rows: list[int], condition: str = "") -> pa.ChunkedArray:
        used = [name for name in self.rows.column_names if f'"{name}"' in select + condition]
        columns = {name: self.rows.column(name).take(rows) for name in used}
        numbered = pa.table({"row": pa.array(range(len(rows))), **columns})
        self.db.register(ROWS, numbered)
        try:
            return self.db.sql(f"{select} FROM {ROWS}{condition}").to_arrow_table().column(0)
        finally:
            self.db.unregister(ROWS)


def same(one: Any, other: Any, approximate: bool = False) -> bool:
    """Whether two values are the same; `approximate` allows two units of the last place."""
    if one == UNKNOWN:
        return True
    if one == other or not approximate or not isinstance(one, str) or not isinstance(other, str):
        return bool(one == other)
    if FAILED in (one, other) or "NaN" in (one, other):
        return False
    left, right = float(one), float(other)
    return abs(left - right) <= 2 * math.ulp(max(abs(left), abs(right))) if math.isfinite(left - right) else False
