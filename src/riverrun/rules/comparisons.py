"""Conditions that compare one column with constants. They are most of what rules ask of a row, and NumPy answers each for a
whole batch in some microseconds; the rest is left to DuckDB."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from riverrun.ddl import Type
from riverrun.flow.schema import BOOLEAN, DOUBLE, STRING, Schema, is_integral
from riverrun.flow.syntax import Call, Constant, Name, Tree
from riverrun.state.frames import Mask, numbers, present
from riverrun.state.order import Indexes

_SWAPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}
_OPERATIONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
    "=": np.equal,
}
_LARGEST = 1 << 63


@dataclass(frozen=True)
class Comparison:
    """A column is compared with constants; null is never true. `how` is an operation, or in, not in, null, not null."""

    column: str
    how: str
    values: tuple[Any, ...] = ()


def comparisons(tree: Tree, schema: Schema) -> tuple[Comparison, ...] | None:
    """The comparisons that a condition is, all of which must be true; None where it is something else."""
    match tree:
        case Name((name,)) if _kind(name, schema) == BOOLEAN:
            return (Comparison(schema.resolve(name), "=", (True,)),)
        case Call("isnull" | "isnotnull" as how, (Name((name,)),)) if name in schema:
            return (Comparison(schema.resolve(name), "null" if how == "isnull" else "not null"),)
        case Call("not", (Name((name,)),)) if _kind(name, schema) == BOOLEAN:
            return (Comparison(schema.resolve(name), "=", (False,)),)
        case Call("not", (Call("=", (Name() as name, Constant() as value)),)):
            return _made("not in", name, [value], schema)
        case Call("not", (Call("in", (Name() as name, *values)),)):
            return _made("not in", name, values, schema)
        case Call("in", (Name() as name, *values)):
            return _made("in", name, values, schema)
        case Call("between", (Name() as name, low, high)):
            low_made, high_made = _made(">=", name, [low], schema), _made("<=", name, [high], schema)
            return None if low_made is None or high_made is None else low_made + high_made
        case Call(how, (Name() as name, Constant() as value)) if how in _OPERATIONS:
            return _made(how, name, [value], schema)
        case Call(how, (Constant() as value, Name() as name)) if how in _OPERATIONS:
            return _made(_SWAPPED[how], name, [value], schema)
    return None


def _kind(name: str, schema: Schema) -> Any:
    return schema[name] if name in schema else None


def _made(how: str, name: Name, given: Sequence[Tree], schema: Schema) -> tuple[Comparison, ...] | None:
    if len(name.parts) != 1 or name.parts[0] not in schema:
        return None
    column = schema.resolve(name.parts[0])
    kind, values = schema[column], []
    for one in given:
        if not isinstance(one, Constant) or one.value is None or isinstance(one.value, bool):
            return None
        value = _constant(kind, one, how)
        if value is None:
            return None
        values.append(value)
    return (Comparison(column, how, tuple(values)),)


def _constant(kind: Type | None, constant: Constant, how: str) -> Any:
    """A constant as values of a column are compared with it; None where that is left to DuckDB."""
    value, is_whole = constant.value, is_integral(constant.type)
    if kind == STRING:
        return value if constant.type == STRING and how in ("=", "in", "not in") else None
    if is_integral(kind):
        return value if is_whole else None
    if kind == DOUBLE and (isinstance(value, float | Decimal) or is_whole):
        return float(value)  # type: ignore[arg-type]
    return None


class ComparedColumn:
    """One column of a batch, as it is compared. `constants` are the strings that it is going to be compared with."""

    def __init__(self, column: pl.Series, constants: Sequence[str]) -> None:
        self._column = column
        self._constants = constants
        self._present = present(column)

    @cached_property
    def _codes(self) -> tuple[Any, dict[str, int]]:
        """Strings as numbers: those of the rows, and of the constants; what no row has is -2."""
        array = self._column.rechunk().to_arrow(compat_level=pl.CompatLevel.oldest())
        encoded = array.dictionary_encode()
        wanted = pa.array(self._constants, encoded.dictionary.type)
        found = pc.fill_null(pc.index_in(wanted, value_set=encoded.dictionary), -2).to_pylist()
        codes = pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False)
        return codes, dict(zip(self._constants, found, strict=True))

    @cached_property
    def _values(self) -> Any:
        return numbers(self._column)

    @cached_property
    def _nan(self) -> Mask | None:
        """Where a number is NaN: for Spark it equals itself, and is larger than all others."""
        found = np.isnan(self._values) if self._column.dtype.is_float() else None
        return found if found is not None and found.any() else None

    def where(self, comparison: Comparison, places: Indexes | None = None) -> Mask:
        """Where a comparison is true, of all rows or of those at some places."""
        there = self._present if places is None or self._present is None else self._present[places]
        if comparison.how in ("null", "not null"):
            many = len(self._column) if places is None else len(places)
            everywhere = np.ones(many, np.bool_) if there is None else there
            return everywhere if comparison.how == "not null" else ~everywhere
        if comparison.how in ("in", "not in"):
            truth = self._compared("=", comparison.values[0], places)
            for value in comparison.values[1:]:
                truth = truth | self._compared("=", value, places)
            truth = ~truth if comparison.how == "not in" else truth
        else:
            truth = self._compared(comparison.how, comparison.values[0], places)
        return truth if there is None else truth & there

    def _compared(self, how: str, value: Any, places: Indexes | None) -> Mask:
        values, other = self._values_of(value)
        values = values if places is None else values[places]
        if isinstance(other, int) and not isinstance(other, bool) and not -_LARGEST <= other < _LARGEST:
            return np.full(len(values), how in (("<", "<=") if other > 0 else (">", ">=")))
        truth: Mask = _OPERATIONS[how](values, other)
        if self._nan is None or how not in (">", ">="):
            return truth  # a constant is never NaN
        return truth | (self._nan if places is None else self._nan[places])

    def _values_of(self, value: Any) -> tuple[Any, Any]:
        if isinstance(value, str):
            codes, known = self._codes
            return codes, known[value]
        # a smaller type would be compared in itself, and a constant may not fit
        values = self._values if isinstance(value, float | bool) else self._values.astype(np.int64, copy=False)
        return values, value
