"""The queries of `s.percolate` in state, and the index that is made of them.

Making the index of all queries takes much longer than an epoch, so it stays in memory from step to step. Another process may
have taken the steps in between, or this one may have taken a step that had no effect. So every step that changes queries
makes a new version of them: `versions` has a print of each, of what changed since the first one, and `changed` has which
queries it changed, for some versions back. An index is brought up to date, or is found to be of another history, and is
made anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from riverrun.kernels.weights import signed
from riverrun.search.fields import SearchFields
from riverrun.search.index import SearchIndex
from riverrun.search.parsing import QueryError, parse_query
from riverrun.search.tree import QueryTree
from riverrun.search.words import Analyzer
from riverrun.state.frames import beside, constant, keep, pick, stack
from riverrun.state.hashing import can_hash, hash_columns
from riverrun.state.keys import equal_to_any, first_of_each, last_of_each
from riverrun.state.table import State, TableSpec

ERROR = "_error"
_VERSION, _PRINT, _INDEX = "_version", "_print", "index"
_VERSIONS_BACK = 100
_ROUND, _LARGEST = 0x9FB21C651E98DF25, (1 << 62) - 1


@dataclass(frozen=True)
class _Version:
    """The queries after so many steps that changed them, and a print of these changes. None so far: (0, 0)."""

    number: int = 0
    print: int = 0


@dataclass(frozen=True)
class _KeptIndex:
    """An index, and the version of the queries that it is of."""

    index: SearchIndex
    version: _Version


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
        number: dict[str, pl.DataType] = {_VERSION: pl.Int64()}
        versions = {**number, _PRINT: pl.Int64()}
        return {
            "queries": TableSpec(self.schema, identity=self.key, probe=self.key, route=()),
            "changed": TableSpec({**kinds, **number}, identity=self.key, probe=self.key, bucket=_VERSION, route=()),
            "versions": TableSpec(versions, identity=(_VERSION,), probe=(_VERSION,), bucket=_VERSION, route=()),
        }

    def update(self, state: State, changes: pl.DataFrame) -> tuple[SearchIndex, pl.DataFrame]:
        """The index of all queries, after some changes; and the rows whose query cannot be read.

        A query that cannot be read is none: if there was another one before, it is not in force any more.
        """
        index, version = self._current(state)
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
        if changes.height:
            version = self._write_down(state, came, out, version)
        state.kept[_INDEX] = _KeptIndex(index, version)
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

    def _write_down(self, state: State, came: pl.DataFrame, out: pl.DataFrame, before: _Version) -> _Version:
        """A new version: note which queries it changed, for indexes that have not seen it."""
        number = before.number + 1
        hashed = [name for name, kind in self.schema.items() if can_hash(kind)]
        seen = before.print
        for rows, columns in ((came, hashed), (out, self.key)):
            seen = (seen * _ROUND + int(hash_columns(rows, columns).sum())) & _LARGEST
        keys = stack([pick(came, self.key), pick(out, self.key)])
        state["changed"].put(beside(keys, [constant(_VERSION, number, pl.Int64(), keys.height)]))
        state["versions"].put(pl.DataFrame({_VERSION: [number], _PRINT: [seen]}))
        for table in ("changed", "versions"):
            state[table].release(number - _VERSIONS_BACK)
        return _Version(number, seen)

    def _current(self, state: State) -> tuple[SearchIndex, _Version]:
        """The index of the queries in state, and their version."""
        kept = state.kept.pop(_INDEX, None)
        versions = [_Version(*row) for row in state["versions"].scan().select(_VERSION, _PRINT).iter_rows()]
        newest = max(versions, key=lambda version: version.number, default=_Version())
        if isinstance(kept, _KeptIndex) and (kept.version == newest or kept.version in versions):
            if kept.version != newest:
                missed = pick(state["changed"].scan(lo=kept.version.number + 1), self.key)
                missed = first_of_each(missed, self.key)
                kept.index.remove(missed)
                self._add(kept.index, state["queries"].probe(missed)[0])
            return kept.index, newest
        index = SearchIndex(self.fields, self.analyzer, self.key, pl.Schema(self.schema))
        self._add(index, state["queries"].scan())
        return index, newest

    def _add(self, index: SearchIndex, rows: pl.DataFrame) -> None:
        trees, good, _ = self._read(rows)
        index.put(pick(keep(rows, good), self.schema), trees)
