"""Rows by their key: gathered by it, or numbered, within one frame or across several.

Keys are compared by their hash first. Rows of equal hash are then looked at column by column, so that two keys that
share a hash stay two.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from riverrun.state.equality import equal_at
from riverrun.state.frames import Mask, frame_of, pick, stack, take
from riverrun.state.hashing import Hashes, hash_columns, quick_hashes
from riverrun.state.order import Indexes, Integers, ascending, lengths, lexicographic

_NO_ROWS = np.empty(0, np.int64)


@dataclass(frozen=True)
class KeyGroups:
    """Rows gathered by key. Groups ascend by the hash of their key (and its bucket, if it has one).

    `order` lists the rows group by group, those of a group as they came; `starts` has the place of each group's first.
    """

    order: Indexes
    starts: Indexes
    hashes: Hashes | None = None
    """Of each group, where rows were gathered by them."""

    def __len__(self) -> int:
        return len(self.starts)

    @cached_property
    def first(self) -> Indexes:
        """The first row of each group."""
        return self.order[self.starts]

    @cached_property
    def last(self) -> Indexes:
        """The last row of each group."""
        last: Indexes = self.order[self.starts + self.sizes - 1]
        return last

    @cached_property
    def sizes(self) -> Indexes:
        return lengths(self.starts, len(self.order))

    @cached_property
    def numbers(self) -> Indexes:
        """The group of each row."""
        numbers = np.empty(len(self.order), np.int64)
        numbers[self.order] = np.repeat(np.arange(len(self.starts)), self.sizes)
        return numbers

    def as_they_came(self, chosen: Mask | None = None) -> Indexes:
        """The groups, or those chosen, by when their first row came."""
        groups = np.arange(len(self)) if chosen is None else np.flatnonzero(chosen)
        return groups[ascending(self.first[groups])]


def group_rows(
    rows: pl.DataFrame, key: Sequence[str], hashes: Hashes | None = None, bucket: Indexes | None = None
) -> KeyGroups:
    """Gather rows by the columns `key`, whose hashes may be known, and by an integer if there is one."""
    hashes = hash_columns(rows, key) if hashes is None else hashes
    order = ascending(hashes) if bucket is None else lexicographic(hashes, bucket)
    begins = _differ(hashes[order])
    if bucket is not None:
        begins |= _differ(bucket[order])
    starts = np.flatnonzero(begins)
    groups = KeyGroups(order, starts, hashes[order[starts]])
    if len(starts) < len(order) and not _agree(rows, key, groups, begins):
        exact = _exact_numbers(pick(rows, key))
        order = lexicographic(hashes, *([] if bucket is None else [bucket]), exact)
        begins = _differ(exact[order]) | (_differ(bucket[order]) if bucket is not None else False)
        starts = np.flatnonzero(begins)
        groups = KeyGroups(order, starts, hashes[order[starts]])
    return groups


def stretches(values: Indexes) -> KeyGroups:
    """Rows that follow each other and have equal values, as groups."""
    return KeyGroups(np.arange(len(values)), np.flatnonzero(_differ(values)))


def pairs_of(height: int) -> KeyGroups:
    """Two frames of this height, one below the other: the rows of the same place, as groups."""
    places = np.arange(2 * height)
    return KeyGroups(places.reshape(2, height).T.ravel(), places[::2])


def _differ(values: Indexes | Hashes) -> Mask:
    """Which values differ from the one before."""
    differ = np.ones(len(values), np.bool_)
    np.not_equal(values[1:], values[:-1], out=differ[1:])
    return differ


def _agree(rows: pl.DataFrame, key: Sequence[str], groups: KeyGroups, begins: Mask) -> bool:
    """Whether the rows of each group have one key."""
    again = np.flatnonzero(~begins)
    return bool(
        equal_at(rows, groups.order[again], rows, groups.order[again - 1], [(name, name) for name in key]).all()
    )


def _exact_numbers(keys: pl.DataFrame) -> Indexes:
    """Numbers that are equal where keys are: for the day on which two of them share a hash."""
    at = keys.with_row_index("")
    return at.select(pl.col("").first().over(keys.columns)).to_series().to_numpy().astype(np.int64)


def number_keys(*keys: pl.DataFrame) -> tuple[list[Indexes], int]:
    """Numbers for the rows of frames whose columns have the same types pairwise, and how many there are.

    Equal keys have equal numbers, in whichever frame they are; null equals null. Which number a key has says nothing.
    """
    names = [str(place) for place in range(keys[0].width)]
    alike = [frame_of([column.alias(name) for column, name in zip(frame, names, strict=True)]) for frame in keys]
    rows = stack(alike)
    groups = group_rows(rows, names, quick_hashes(rows, names))
    return np.split(groups.numbers, np.cumsum([frame.height for frame in keys])[:-1]), len(groups)


def agreeing(rows: pl.DataFrame, others: pl.DataFrame, key: Sequence[str]) -> tuple[Indexes, Indexes]:
    """The places of the rows that agree in `key` with one of the others, and of that one: the first, if several do."""
    if not rows.height or not others.height:
        return _NO_ROWS, _NO_ROWS
    mine, theirs = quick_hashes(rows, key), quick_hashes(others, key)
    at, other = _equal_numbers(mine, theirs)
    if not equal_at(rows, at, others, other, [(name, name) for name in key]).all():  # different keys share a hash
        numbers, _ = number_keys(pick(rows, key), pick(others, key))
        at, other = _equal_numbers(*numbers)
    return at, other


def _equal_numbers(mine: Integers, theirs: Integers) -> tuple[Indexes, Indexes]:
    """The places of numbers that are among the others, and of the first of the others that is equal."""
    order, other_order = ascending(mine), ascending(theirs)
    wanted, there = mine[order], theirs[other_order]
    found = np.minimum(np.searchsorted(there, wanted), len(there) - 1)
    hit = there[found] == wanted
    return order[hit], other_order[found[hit]]


def equal_to_any(rows: pl.DataFrame, others: pl.DataFrame, key: Sequence[str]) -> Mask:
    """Which rows agree in `key` with one of the others."""
    among = np.zeros(rows.height, np.bool_)
    among[agreeing(rows, others, key)[0]] = True
    return among


def first_of_each(rows: pl.DataFrame, key: Sequence[str]) -> pl.DataFrame:
    """The first row of each key, in the order they are in."""
    groups = group_rows(rows, key, quick_hashes(rows, key))
    return rows if len(groups) == rows.height else take(rows, np.sort(groups.first))


def last_of_each(rows: pl.DataFrame, key: Sequence[str]) -> pl.DataFrame:
    """The last row of each key, in the order they are in."""
    groups = group_rows(rows, key, quick_hashes(rows, key))
    return rows if len(groups) == rows.height else take(rows, np.sort(groups.last))


def placed(at: Indexes, count: int) -> Indexes:
    """For each of `count` keys the place of its row, when `at` says whose each row is; -1 where there is none."""
    places = np.full(count, -1)
    places[at] = np.arange(len(at))
    return places
