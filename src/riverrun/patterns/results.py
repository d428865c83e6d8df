"""Matches as rows: their values, times and ids."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from riverrun.patterns.coding import coded, exact_values, is_coded_column, is_exact_column
from riverrun.patterns.measures import MatchValue
from riverrun.patterns.navigation import RowOf, TotalOf
from riverrun.patterns.program import FUNCTIONS
from riverrun.patterns.tables import Found, TotalKind, Whole
from riverrun.state.frames import numbers, present, series, take, take_or_null

_ID = 10  # bytes
Hashes = Any


@dataclass(frozen=True, eq=False)
class MatchedRows:
    """What was found in a frame, one line for each match, or for each row of each match (`every_row`). `low` has for each
    match the first row of its sequence."""

    frame: pl.DataFrame
    found: Found
    names: Sequence[str]
    low: Whole
    every_row: bool

    @cached_property
    def match(self) -> Whole:
        """The match of each line."""
        sizes = np.diff(self.found.first)
        return np.repeat(np.arange(len(sizes)), sizes) if self.every_row else np.arange(len(sizes))

    @cached_property
    def place(self) -> Whole:
        """The last place, in `found.rows`, that each line knows of."""
        return np.arange(len(self.found.rows)) if self.every_row else self.found.first[1:] - 1

    @cached_property
    def row(self) -> Whole:
        """The row that each line stands at."""
        return self.found.rows[self.place]

    @cached_property
    def begin(self) -> Whole:
        """The first place of each line's match."""
        return self.found.first[:-1][self.match]

    @cached_property
    def number(self) -> Whole:
        """Where each line's row stands in its match, from 1."""
        return self.place - self.begin + 1

    def variable(self, name: str) -> pl.Series:
        """What each line's row was taken as."""
        taken = np.array(self.names, object)[self.found.variables[self.place]]
        return pl.Series(name, list(taken), dtype=pl.String)

    def value(self, value: MatchValue) -> pl.Series:
        """A value of each line's match, as it stood there."""
        if isinstance(value.asks, RowOf):
            return self._of_row(value.asks, str(value.source)).alias(value.name)
        return self._total(value.asks, value.source).alias(value.name)

    def _entries(self, variable: str | None) -> tuple[Whole, Whole]:
        """The places of a variable's rows, and for each place how many there are up to it."""
        if variable is None:
            return np.arange(len(self.found.rows)), np.arange(1, len(self.found.rows) + 1)
        of = self.found.variables == self.names.index(variable)
        return np.flatnonzero(of), np.cumsum(of)

    def _of_row(self, asks: RowOf, source: str) -> pl.Series:
        entries, count = self._entries(asks.variable)
        before = np.concatenate([[0], count])[self.begin]  # those of earlier matches
        number = count[self.place] - 1 - asks.n if asks.base == "last" else before + asks.n
        there = (number >= before) & (number < count[self.place])
        rows = np.full(len(number), -1)
        rows[there] = self.found.rows[entries[number[there]]] - asks.back
        rows[rows < self.low[self.match]] = -1
        return take_or_null(self.frame.get_column(source).to_frame(), rows).get_column(source)

    def _total(self, asks: TotalOf, source: str | None) -> pl.Series:
        variables = self.found.variables
        of = (
            np.ones(len(variables), np.bool_) if asks.variable is None else variables == self.names.index(asks.variable)
        )
        if source is None:
            counted = np.concatenate([[0], np.cumsum(of)])
            return series("", counted[self.place + 1] - counted[self.begin])
        from riverrun.patterns.totals import running  # what is compiled is loaded by flows that have patterns

        column = self.frame.get_column(source)
        known = present(column)
        there = of if known is None else of & known[self.found.rows]
        function = FUNCTIONS[asks.function]
        kind = column.dtype
        if function == TotalKind.COUNT:
            counted = np.concatenate([[0], np.cumsum(there)])
            return series("", counted[self.place + 1] - counted[self.begin])
        if is_exact_column(column):
            column = exact_values(column)
        values = coded([column], [])[0][source] if is_coded_column(column) else numbers(column)
        values = values[self.found.rows].astype(np.float64 if column.dtype.is_float() else np.int64)
        sums, counts, at = running(values, there, self.found.first, function)
        if function in (TotalKind.MIN, TotalKind.MAX):
            best = at[self.place]
            rows = np.where(best >= 0, self.found.rows[np.maximum(best, 0)], -1)
            return take_or_null(self.frame.get_column(source).to_frame(), rows).get_column(source)
        total, count = sums[self.place], counts[self.place]
        result = total / np.maximum(count, 1) if function == TotalKind.AVG else total
        made = series("", result)
        if isinstance(kind, pl.Decimal):
            made = made / 10**kind.scale if function == TotalKind.AVG else _decimals(result, kind)
        return pl.select(pl.when(series("", count > 0)).then(made)).to_series()

    def columns(self, names: Sequence[str]) -> pl.DataFrame:
        """Columns of each line's row."""
        return take(self.frame.select(names), self.row)

    def ids(self, partition: Whole, offset: Whole) -> tuple[pl.Series, Hashes]:
        """The id of each line's match: a hash of where its rows stand and of what they were taken as; and numbers that
        tell lines apart."""
        found = self.found
        kinds = np.array([zlib.crc32(name.encode()) for name in self.names], np.uint64)
        nth = (np.arange(len(found.rows)) - np.repeat(found.first[:-1], np.diff(found.first))).astype(np.uint64)
        hashes = []
        for seed in (1, 2):
            mixed = _mixed(partition[found.rows].astype(np.uint64), np.uint64(seed))
            for part in (offset[found.rows].astype(np.uint64), kinds[found.variables], nth):
                mixed = _mixed(mixed, part)
            hashes.append(_mixed(np.add.reduceat(mixed, found.first[:-1]), np.diff(found.first).astype(np.uint64)))
        text = _hex(np.stack([hash.astype(">u8") for hash in hashes], axis=1))
        return text.gather(self.match), [_mixed(hash[self.match], self.number.astype(np.uint64)) for hash in hashes]


def _decimals(unscaled: Whole, kind: pl.Decimal) -> pl.Series:
    """Sums of the whole numbers that decimals of a kind are kept as, as decimals with ten digits more."""
    wide = pa.array(unscaled).cast(pa.decimal128(38, 0))
    made = pa.Array.from_buffers(pa.decimal128(38, kind.scale), len(wide), wide.buffers())
    return pl.Series("", made).cast(pl.Decimal((kind.precision or 0) + 10, kind.scale))


def _mixed(one: Any, other: Any) -> Any:
    with np.errstate(over="ignore"):
        mixed = (one ^ (other * np.uint64(0x9E3779B97F4A7C15))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed ^= mixed >> np.uint64(29)
        mixed *= np.uint64(0x94D049BB133111EB)
        return mixed ^ (mixed >> np.uint64(32))


def _hex(hashes: Any) -> pl.Series:
    """The first bytes of each, as text."""
    cut = np.ascontiguousarray(hashes.view(np.uint8).reshape(len(hashes), -1)[:, :_ID])
    digits = cut.tobytes().hex().encode()
    offsets = np.arange(0, len(digits) + 1, 2 * _ID, dtype=np.int64)
    text = pa.LargeStringArray.from_buffers(len(hashes), pa.py_buffer(offsets), pa.py_buffer(digits))
    return pl.Series("", text)
