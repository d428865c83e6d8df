"""The queries of `s.percolate` in state, and the index that is made of them.

Making the index of all queries takes much longer than an epoch, so it stays in memory from step to step. Another process may
have taken the steps in between, or this one may have taken a step that had no effect: `changed` says, for some epochs back,
which queries changed, so that an index is brought up to date, or is found to belong to another history and is made anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from riverrun.kernels.weights import signed
from riverrun.search.fields import FieldKind, SearchField, SearchFields
from riverrun.search.index import SearchIndex
from riverrun.search.parsing import QueryError, parse_query
from riverrun.search.tree import QueryTree
from riverrun.search.words import Analyzer
from riverrun.state.frames import beside, constant, keep, numbers, pick, series, stack
from riverrun.state.hashing import can_hash, hash_columns
from riverrun.state.keys import equal_to_any, first_of_each, last_of_each
from riverrun.state.table import State, TableSpec

ERROR = "_error"
_EPOCH, _PRINT, _INDEX = "_epoch", "_print", "index"
_EPOCHS_BACK = 100
_LONGEST_DECIMAL = 18


@dataclass(frozen=True)
class _KeptIndex:
    """An index with the changes up to an epoch, and what that epoch changed, as one number."""

    index: SearchIndex
    epoch: int
    print: int


@dataclass(frozen=True)
class StoredQueries:
    """Queries, by `key`; `schema` has the columns that are kept of them, `query` is the one with the text."""

    schema: Mapping[str, pl.DataType]
    key: tuple[str, ...]
    query: str
    fields: SearchFields
    analyzer: Analyzer

    @cached_property
    def tables(self) -> dict[str, TableSpec]:
        kinds = {name: self.schema[name] for name in self.key}
        changed = {**kinds, _EPOCH: pl.Int64(), _PRINT: pl.Int64()}
        return {
            "queries": TableSpec(self.schema, identity=self.key, probe=self.key, route=()),
            "changed": TableSpec(changed, identity=self.key, probe=self.key, bucket=_EPOCH, route=()),
        }

    def update(self, state: State, changes: pl.DataFrame, epoch: int) -> tuple[SearchIndex, pl.DataFrame]:
        """The index of all queries, after the changes of an epoch; and the rows whose query cannot be read.

        A query that cannot be read is none: if there was another one before, it is not in force any more.
        """
        index = self._current(state, epoch)
        came, gone = signed(changes)
        came = last_of_each(came, self.key)
        gone = first_of_each(pick(gone, self.key), self.key)
        gone = keep(gone, ~equal_to_any(gone, came, self.key))
        trees, good, errors = self._read(came)
        unread = beside(keep(came, ~good), [pl.Series(ERROR, errors, pl.String)])
        came = pick(keep(came, good), self.schema)
        out = stack([gone, pick(unread, self.key)])
        state["queries"].remove(out)
        state["queries"].put(came)
        index.remove(out)
        index.put(came, trees)
        written = self._write_down(state, came, out, epoch)
        state.kept[_INDEX] = _KeptIndex(index, epoch, written)
        return index, unread

    def _read(self, rows: pl.DataFrame) -> tuple[list[QueryTree], np.ndarray, list[str]]:
        """The trees of queries, which of the rows have one, and what is wrong with the others."""
        trees, errors = [], []
        good = np.ones(rows.height, np.bool_)
        for at, text in enumerate(rows.get_column(self.query).to_list()):
            try:
                trees.append(parse_query(text or "", self.fields, self.analyzer))
            except QueryError as error:
                errors.append(str(error))
                good[at] = False
        return trees, good, errors

    def _write_down(self, state: State, came: pl.DataFrame, out: pl.DataFrame, epoch: int) -> int:
        """Note which queries changed in this epoch, for indexes that have not seen it."""
        hashed = [name for name, kind in self.schema.items() if can_hash(kind)]
        parts = []
        for rows, columns in ((came, hashed), (out, self.key)):
            prints = (hash_columns(rows, columns) >> np.uint64(1)).astype(np.int64)
            moment = constant(_EPOCH, epoch, pl.Int64(), rows.height)
            parts.append(beside(pick(rows, self.key), [moment, series(_PRINT, prints)]))
        changed = stack(parts)
        state["changed"].put(changed)
        state["changed"].release(epoch - _EPOCHS_BACK)
        return _print_of(changed)

    def _current(self, state: State, epoch: int) -> SearchIndex:
        """The index of the queries in state."""
        kept = state.kept.pop(_INDEX, None)
        if isinstance(kept, _KeptIndex) and 0 <= epoch - kept.epoch < _EPOCHS_BACK:
            recent = state["changed"].scan(lo=kept.epoch)
            newer = numbers(recent.get_column(_EPOCH)) > kept.epoch
            if _print_of(keep(recent, ~newer)) == kept.print:
                changed = first_of_each(pick(keep(recent, newer), self.key), self.key)
                kept.index.remove(changed)
                self._add(kept.index, state["queries"].probe(changed)[0])
                return kept.index
        index = SearchIndex(self.fields, self.analyzer, self.key, pl.Schema(self.schema))
        self._add(index, state["queries"].scan())
        return index

    def _add(self, index: SearchIndex, rows: pl.DataFrame) -> None:
        trees, good, _ = self._read(rows)
        index.put(pick(keep(rows, good), self.schema), trees)


def _print_of(changed: pl.DataFrame) -> int:
    """One number for what changed, whatever order it is in."""
    return hash(frozenset(numbers(changed.get_column(_PRINT)).tolist()))


def search_fields(columns: Mapping[str, pl.DataType], text: Sequence[str]) -> SearchFields:
    """Which of the columns can be searched, and how."""
    found = []
    for name, kind in columns.items():
        known = _field_kind(kind)
        if known is not None:
            found.append(SearchField(name, known, kind.scale if isinstance(kind, pl.Decimal) else 0))
    return SearchFields(tuple(found), tuple(text))


def _field_kind(kind: pl.DataType) -> FieldKind | None:
    match kind:
        case pl.String():
            return "text"
        case pl.Boolean():
            return "boolean"
        case pl.Date():
            return "date"
        case pl.Datetime():
            return "time"
        case pl.Decimal():
            return "decimal" if (kind.precision or _LONGEST_DECIMAL + 1) <= _LONGEST_DECIMAL else None
    if kind.is_integer():
        return "whole"
    return "float" if kind.is_float() else None
