"""Approximate aggregates in bounded memory: sketches of Apache DataSketches, a few kilobytes per cell at most.

HyperLogLog counts different values within about 2 %; a t-digest answers quantiles, best near the ends. Both are
deterministic for the same rows in the same order. They cannot forget a value, so their input must not retract.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from datasketches import hll_sketch, hll_union, tdigest_double, tgt_hll_type

from riverrun.kernels.aggregates.agg import Agg
from riverrun.kernels.aggregates.parts import Grouping, Part

_LOG_REGISTERS = 12


@dataclass(frozen=True)
class Sketch:
    """A sketch per cell; `name?` holds the values of rows that are not in it yet."""

    name: str
    digest: bool

    @property
    def columns(self) -> Mapping[str, pl.DataType]:
        return {self.name: pl.Binary()}

    def grouping(self, rows: pl.DataFrame) -> Grouping:
        fresh = f"{self.name}?"
        if fresh not in rows.columns:
            return [], [pl.col(self.name).drop_nulls()]
        values = pl.col(fresh).drop_nulls()
        return [], [values if self.digest else values.unique(maintain_order=True)]

    def reduced(self, groups: pl.DataFrame) -> list[pl.Series]:
        if self.name in groups.columns:
            merge = _merged_digest if self.digest else _merged_counter
            found = [merge(sketches) for sketches in groups[self.name].to_list()]
        else:
            build = _digest if self.digest else _counter
            found = [build(values) for values in groups[f"{self.name}?"]]
        return [pl.Series(self.name, found, dtype=pl.Binary)]


@dataclass(frozen=True)
class Sketched:
    """approx_distinct and approx_quantile."""

    agg: Agg

    @property
    def _name(self) -> str:
        return f"{self.agg.name}#k"

    @property
    def parts(self) -> Sequence[Part]:
        return (Sketch(self._name, self.agg.fn == "approx_quantile"),)

    def columns(self, rows: pl.DataFrame) -> list[pl.Series]:
        value = pl.col(self.agg.column or "")
        kind = rows.schema[self.agg.column or ""]
        if self.agg.fn == "approx_quantile":
            value = value.cast(pl.Float64)
        elif kind.is_temporal():
            value = value.to_physical()
        elif kind == pl.Binary:
            value = value.bin.encode("hex")
        elif not (kind.is_integer() or kind.is_float() or kind == pl.String):
            value = value.cast(pl.String)
        value = pl.when(self.agg.counted()).then(value)
        return [rows.select(value.alias(f"{self._name}?")).to_series()]

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
