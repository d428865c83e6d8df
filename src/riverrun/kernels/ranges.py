"""Aggregates over many overlapping ranges of sorted rows at once.

Short ranges are written out, row by row of each. Long ones are put together from blocks of 1, 2, 4, 8 … rows that are
aggregated once, so that a range costs the logarithm of its length. Nothing is ever subtracted: a huge or infinite
value harms no range that does not contain it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import polars as pl

from riverrun.columns import OFFSET, PARTITION, TIME, WEIGHT
from riverrun.kernels.aggregates import Agg, Aggregates
from riverrun.kernels.aggregates.parts import reduce
from riverrun.kernels.matching import written_out
from riverrun.state.frames import series

Numbers = npt.NDArray[np.int64]

_WINDOW = "_window"
_BLOCK = "_block"
_CHUNK = 1 << 20
_SHORT = 32
"""Mean length of ranges, roughly, from which on blocks are quicker (measured)."""


def trailing(key: Numbers, time: Numbers, at_key: Numbers, at: Numbers, size: int) -> tuple[Numbers, Numbers]:
    """For each moment `at` of a key, the range of rows (sorted by key, time) with a time in (at - size, at]."""
    moments = np.unique(time)
    width = len(moments) + 1
    rows = key * width + np.searchsorted(moments, time)
    lo = at_key * width + np.searchsorted(moments, at - size, side="right")
    hi = at_key * width + np.searchsorted(moments, at, side="right")
    return np.searchsorted(rows, lo), np.searchsorted(rows, hi)


def over_ranges(aggregates: Aggregates, rows: pl.DataFrame, lo: Numbers, hi: Numbers) -> pl.DataFrame:
    """The results of each range [lo, hi), none empty, in their order. `rows` are in the order that counts."""
    # Blocks need aggregates that can be put together from parts; the others see every row of their range.
    apart = {scalar.agg for scalar in aggregates.scalars} if (hi - lo).sum() > _SHORT * len(rows) else set[Agg]()
    found: dict[str, pl.Series] = {}
    if apart:
        results = pl.concat(_from_blocks(_only(aggregates, apart), rows, lo, hi))
        found.update((column.name, column) for column in results)
    if len(apart) < len(aggregates.aggs):
        rest = _only(aggregates, set(aggregates.aggs) - apart)
        pieces = [rest.over(piece, [_WINDOW]) for piece in in_pieces(rows, lo, hi)]
        results = pl.concat(pieces) if pieces else pl.DataFrame(schema=dict(rest.schema))
        found.update((name, results[name]) for name in rest.schema)
    return pl.DataFrame([found[name] for name in aggregates.schema])


def in_pieces(rows: pl.DataFrame, lo: Numbers, hi: Numbers) -> Iterator[pl.DataFrame]:
    """The rows of every range, with the number of the range as `_window`, in pieces of bounded size."""
    lengths = hi - lo
    pieces = np.flatnonzero(np.diff(np.cumsum(lengths) // _CHUNK, prepend=-1))
    for first, behind in pairwise([*pieces.tolist(), len(lo)]):
        ranges, places = written_out(lo[first:behind], hi[first:behind])
        yield rows[places].with_columns(series(_WINDOW, first + ranges))


def _from_blocks(aggregates: Aggregates, rows: pl.DataFrame, lo: Numbers, hi: Numbers) -> Iterator[pl.DataFrame]:
    """The results of each range from the few blocks that make it up: at most two of each size."""
    order = pl.int_range(len(rows), dtype=pl.Int64, eager=True)
    same = [pl.lit(0, pl.Int64).alias(name) for name in (TIME, PARTITION)]
    single = rows.with_columns(*same, order.alias(OFFSET), order.alias(_BLOCK), pl.lit(1, pl.Int8).alias(WEIGHT))
    levels = [aggregates.partial(single, [_BLOCK])]
    while 1 << len(levels) <= (hi - lo).max():
        levels.append(reduce(levels[-1].with_columns(pl.col(_BLOCK) // 2), [_BLOCK], aggregates.parts))
    step = max(_CHUNK // (2 * len(levels)), 1)
    for first in range(0, len(lo), step):
        blocks = _blocks_of(levels, lo[first : first + step], hi[first : first + step])
        yield aggregates.results(reduce(blocks, [_WINDOW], aggregates.parts), {})


def _blocks_of(levels: Sequence[pl.DataFrame], lo: Numbers, hi: Numbers) -> pl.DataFrame:
    """The blocks that make up each range, with the number of the range as `_window`, range by range."""
    taken = []
    for blocks in levels:
        for odd, block in (((lo & 1) == 1, lo), ((hi & 1) == 1, hi - 1)):
            at = np.flatnonzero((lo < hi) & odd)
            taken.append(blocks[block[at]].with_columns(series(_WINDOW, at)))
        lo, hi = (lo + 1) >> 1, hi >> 1
    return pl.concat(taken).sort(_WINDOW, maintain_order=True)


def _only(aggregates: Aggregates, chosen: set[Agg]) -> Aggregates:
    return replace(aggregates, aggs=tuple(agg for agg in aggregates.aggs if agg in chosen))
