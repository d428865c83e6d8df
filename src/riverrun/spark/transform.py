"""`transform(fn)`: plain Spark on rows of a flow. What rows carry unseen stays with them, whatever `fn` selects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from riverrun import ddl
from riverrun.columns import CARRIED, OFFSET, PARTITION, RECEIVED, TIME, WEIGHT
from riverrun.errors import Invalid
from riverrun.flow.operators.transform import Transform
from riverrun.runtime.compile.row_id import partition_by_way

ROW = "_row"
"""The column with everything that a row carries: its time, its weight, where it stands in the log."""

_SIBLINGS = np.uint64(20)  # bits: a transform makes fewer than a million rows of one


def carried(struct: str, received: bool, way: int, time: str | None) -> str:
    """The `ROW` of an origin's rows, which come this way; `time` where they have another event time than they had."""
    values = {name: f"{struct}.`{name}`" for name in (*CARRIED, *([RECEIVED] if received else []))}
    values[PARTITION] = partition_by_way(values[PARTITION], way)
    values[TIME] = time or values[TIME]
    fields = ", ".join(f"'{name}', {value}" for name, value in values.items())
    return f"named_struct({fields}) AS {ROW}"


def apply(node: Transform, rows: DataFrame) -> DataFrame:
    """The DataFrame that the function makes, with `ROW`."""
    try:
        made = node.function(_carrying(rows))
    except PySparkException as error:
        raise Invalid(f"{node.place}: Spark refuses {node.label}: {str(error).splitlines()[0]}") from None
    if not isinstance(made, DataFrame):
        raise Invalid(
            f"{node.place}: {node.label} gave {type(made).__name__}, not a DataFrame", hint="Return what it makes"
        )
    plain = _plain(made)
    if ROW not in plain.columns:
        raise Invalid(
            f"{node.place}: {node.label} lost the column {ROW}, which ties results to rows",
            hint=f"It may only look at one row at a time; where it names its columns itself, let {ROW} through",
        )
    return plain


def as_struct(rows: DataFrame, name: str, columns: pa.Schema, packed: Sequence[str]) -> DataFrame:
    """Rows of a transform in the shape of a stage's rows: nothing packed, and its columns as one struct."""
    fields = []
    for field in columns:
        source = f"{ROW}.`{RECEIVED}`" if field.name == RECEIVED else ddl.backquoted(field.name)
        fields.append(f"{ddl.literal(field.name)}, CAST({source} AS {ddl.from_arrow(field.type)})")
    fields += [f"'{name}', {ROW}.`{name}`" for name in CARRIED]
    return rows.selectExpr(*packed, f"named_struct({', '.join(fields)}) AS {name}")


class Siblings:
    """Tells rows apart that a transform made of one row: they come next to each other, each with the place of that row
    in the log, and get places of their own. Of a row that is taken back they get the same ones again."""

    def __init__(self) -> None:
        self._last: tuple[int, int, int] | None = None
        self._number = 0

    def told_apart(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The next rows of a task."""
        parts = [rows.column(name).to_numpy(zero_copy_only=False) for name in (PARTITION, OFFSET, WEIGHT)]
        first = np.ones(rows.num_rows, bool)
        first[1:] = np.logical_or.reduce([part[1:] != part[:-1] for part in parts])
        begun = self._number + 1 if self._last == tuple(int(part[0]) for part in parts) else 0
        places = np.arange(rows.num_rows)
        numbers = places - np.maximum.accumulate(np.where(first, places, 0))
        numbers[np.cumsum(first) == 1] += begun
        self._last, self._number = tuple(int(part[-1]) for part in parts), int(numbers[-1])  # type: ignore[assignment]
        offsets = (parts[1].astype(np.uint64) << _SIBLINGS | numbers.astype(np.uint64)) & np.uint64(2**63 - 1)
        at = rows.schema.get_field_index(OFFSET)
        return rows.set_column(at, rows.schema.field(at), pa.array(offsets.astype(np.int64)))


def _plain(rows: DataFrame) -> DataFrame:
    return rows._carried_by if isinstance(rows, Carrying) else rows


class Carrying:
    """Stands before a DataFrame: `select` keeps `ROW`, and so does everything made of its results."""

    _carried_by: DataFrame


def _carrying(rows: DataFrame) -> Any:
    """The same rows as a DataFrame of which `ROW` is neither seen nor lost."""
    base: type = type(rows)

    class CarryingFrame(Carrying, base):  # type: ignore[misc]
        def __getattribute__(self, name: str) -> Any:
            if name.startswith("_"):
                return super().__getattribute__(name)
            if name == "columns":
                return [column for column in self._carried_by.columns if column != ROW]
            return _wrapped(getattr(self._carried_by, name), name)

    made: Any = CarryingFrame(rows._jdf, rows.sparkSession)
    object.__setattr__(made, "_carried_by", rows)
    return made


def _wrapped(found: Any, name: str) -> Any:
    if not callable(found) or not hasattr(found, "__self__"):
        return found

    def call(*arguments: Any, **options: Any) -> Any:
        given = [_plain(a) if isinstance(a, Carrying) else a for a in arguments]
        made = found(*given, **options)
        if not isinstance(made, DataFrame):
            return made
        if name in ("select", "selectExpr") and ROW not in made.columns:
            chosen = list(given[0]) if len(given) == 1 and isinstance(given[0], list) else given
            made = found(*chosen, ROW)
        return _carrying(made)

    return call
