"""Approximate aggregates in bounded memory: sketches of Apache DataSketches, a few kilobytes per cell at most.

HyperLogLog counts different values within about 2 %; a t-digest answers quantiles, best near the ends. Both are
deterministic for the same rows in the same order. They cannot forget a value, so their input must not retract.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl
from datasketches import hll_sketch, hll_union, tdigest_double, tgt_hll_type

from riverrun.kernels.aggregates.agg import Agg
from riverrun.kernels.aggregates.parts import Part, by_group
from riverrun.state.frames import cast, null_unless, pick
from riverrun.state.keys import KeyGroups

_LOG_REGISTERS = 12


@dataclass(frozen=True)
class Sketch:
    """A sketch per cell; `name?` holds the values of rows that are not in it yet."""

    name: str
    digest: bool

    @cached_property
    def columns(self) -> Mapping[str, pl.DataType]:
        return {self.name: pl.Binary()}

    def reduced(self, rows: pl.DataFrame, groups: KeyGroups) -> list[pl.Series]:
        fresh = f"{self.name}?"
        if fresh in rows.columns:
            values = pl.col(fresh).drop_nulls()
            each = by_group(pick(rows, [fresh]), groups, values if self.digest else values.unique(maintain_order=True))
            build = _digest if self.digest else _counter
            sketches = [build(values) for values in each.to_series()]
        else:
            each = by_group(pick(rows, [self.name]), groups, pl.col(self.name).drop_nulls())
            merge = _merged_digest if self.digest else _merged_counter
            sketches = [merge(several) for several in each.to_series().to_list()]
        return [pl.Series(self.name, sketches, dtype=pl.Binary)]


@dataclass(frozen=True)
class Sketched:
    """approx_distinct and approx_quantile."""

    agg: Agg

    @property
    def _name(self) -> str:
        return f"{self.agg.name}#k"

    @cached_property
    def parts(self) -> Sequence[Part]:
        return (Sketch(self._name, self.agg.fn == "approx_quantile"),)

    def columns(self, rows: pl.DataFrame) -> list[pl.Series]:
        value, counted = rows.get_column(self.agg.column or ""), self.agg.counted(rows)
        kind = value.dtype
        if self.agg.fn == "approx_quantile":
            value = cast(value, pl.Float64())
        elif kind.is_temporal():
            value = value.to_physical()
        elif kind == pl.Binary:
            value = value.bin.encode("hex")
        elif not (kind.is_integer() or kind.is_float() or kind == pl.String):
            value = value.cast(pl.String)
        value = value.alias(f"{self._name}?")
        return [value if counted is None else null_unless(value, counted)]

    def result(self, cells: pl.DataFrame) -> pl.Series:
        sketches = cells[self._name].to_list()
        if self.agg.fn == "approx_quantile":
            found = [tdigest_double.deserialize(s).get_quantile(self.agg.q) if s else None for s in sketches]
            return pl.Series(self.agg.name, found, dtype=pl.Float64)
        counts = [round(hll_sketch.deserialize(s).get_estimate()) if s else 0 for s in sketches]
        return pl.Series(self.agg.name, counts, dtype=pl.Int64)


def _counter(values: pl.Series) -> bytes | None:
    if values.is_empty():
        return None
    sketch = hll_sketch(_LOG_REGISTERS, tgt_hll_type.HLL_8)
    for value in values.to_list():
        sketch.update(value)
    return bytes(sketch.serialize_compact())


def _merged_counter(sketches: list[bytes]) -> bytes | None:
    if len(sketches) < 2:
        return sketches[0] if sketches else None
    union = hll_union(_LOG_REGISTERS)
    for sketch in sketches:
        union.update(hll_sketch.deserialize(sketch))
    return bytes(union.get_result(tgt_hll_type.HLL_8).serialize_compact())


def _digest(values: pl.Series) -> bytes | None:
    numbers = values.to_numpy()
    numbers = numbers[~np.isnan(numbers)]
    if not len(numbers):
        return None
    sketch = tdigest_double()
    sketch.update(numbers)
    return bytes(sketch.serialize())


def _merged_digest(sketches: list[bytes]) -> bytes | None:
    if len(sketches) < 2:
        return sketches[0] if sketches else None
    total = tdigest_double.deserialize(sketches[0])
    for sketch in sketches[1:]:
        total.merge(tdigest_double.deserialize(sketch))
    return bytes(total.serialize())
