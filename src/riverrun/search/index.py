"""Many queries, and which of them a batch of documents meets."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import polars as pl

from riverrun.search.documents import Documents, analyse
from riverrun.search.fields import SearchFields
from riverrun.search.flat import Grown, Numbers
from riverrun.search.postings import Postings
from riverrun.search.programs import Programs
from riverrun.search.tree import QueryTree
from riverrun.search.verification import verify
from riverrun.search.vocabulary import Vocabulary
from riverrun.search.words import Analyzer

_PAIRS = 1 << 20
"""How many pairs of a document and a query are compared at a time."""

_DOCUMENTS = 4_096
"""How many documents are analysed at a time."""


class SearchIndex:
    """Queries by key, each with a row of columns. Adding and removing costs in proportion to what is added and removed.

    Those that were taken out are forgotten when they are more than the others and `few`. `compared` counts pairs.
    """

    def __init__(self, fields: SearchFields, analyzer: Analyzer, key: Sequence[str], schema: pl.Schema) -> None:
        self._fields = fields
        self._analyzer = analyzer
        self._key = tuple(key)
        self._programs = Programs(fields, Vocabulary())
        self._postings = Postings(self._programs)
        self._slots: dict[Any, int] = {}
        self._alive = Grown(np.bool_)
        self._rows = [schema.to_frame()]
        self.few = 1_000
        self.compared = 0

    def __len__(self) -> int:
        return len(self._slots)

    @property
    def loose(self) -> int:
        """How many queries are tried on every document, since no word must occur in it."""
        return self._postings.loose

    def put(self, rows: pl.DataFrame, trees: Iterable[QueryTree]) -> None:
        """Queries, in the place of those with the same key."""
        if rows.is_empty():
            return
        self.remove(rows)
        keys = self._keys(rows)
        first = len(self._programs)
        self._programs.add(trees)
        self._slots.update(zip(keys, range(first, first + len(keys)), strict=True))
        self._alive.extend(np.ones(len(keys), np.bool_))
        while len(self._rows) > 1 and self._rows[-1].height <= 2 * rows.height:
            rows = pl.concat([self._rows.pop(), rows], rechunk=True)
        self._rows.append(rows)
        self._postings.extend()

    def remove(self, rows: pl.DataFrame) -> None:
        """Take out the queries with these keys, those that are there."""
        gone = [slot for key in self._keys(rows) if (slot := self._slots.pop(key, None)) is not None]
        self._alive.values[gone] = False
        if len(self._alive) > 2 * len(self._slots) + self.few:
            self._compact()

    def _keys(self, rows: pl.DataFrame) -> list[Any]:
        columns = [_hashable(rows.get_column(name)) for name in self._key]
        return columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))

    def _compact(self) -> None:
        """Forget those that were taken out, and their words."""
        kept = np.flatnonzero(self._alive.values)
        rows = self.rows(kept)
        self._programs = self._programs.only(kept, self._fields)
        self._postings = Postings(self._programs)
        self._postings.extend()
        self._slots = dict(zip(self._keys(rows), range(rows.height), strict=True))
        self._alive = Grown(np.bool_)
        self._alive.extend(np.ones(rows.height, np.bool_))
        self._rows = [rows.clear(), rows]

    def rows(self, slots: Numbers) -> pl.DataFrame:
        """The rows of queries."""
        return pl.concat(self._rows)[slots]

    def match(self, rows: pl.DataFrame) -> tuple[Numbers, Numbers]:
        """The pairs that belong together: the number of the document in `rows`, and the slot of the query."""
        found = [(np.empty(0, np.int64), np.empty(0, np.int64))]
        for first in range(0, rows.height if self._slots else 0, _DOCUMENTS):
            found += [(one + first, slot) for one, slot in self._matched(rows.slice(first, _DOCUMENTS))]
        return np.concatenate([pair[0] for pair in found]), np.concatenate([pair[1] for pair in found])

    def _matched(self, rows: pl.DataFrame) -> Iterator[tuple[Numbers, Numbers]]:
        documents = analyse(rows, self._fields, self._analyzer, self._programs.vocabulary)
        document, word = documents.document, documents.word
        total = np.cumsum(self._postings.sizes(document, word, rows.height))
        first, compared = 0, 0
        while first < rows.height:
            behind = max(int(np.searchsorted(total, compared + _PAIRS, side="right")), first + 1)
            yield self._compared(documents, document, word, first, behind)
            first, compared = behind, int(total[behind - 1])
        self._programs.vocabulary.count(word)
        self._postings.count(rows.height)

    def _compared(
        self, documents: Documents, document: Numbers, word: Numbers, first: int, behind: int
    ) -> tuple[Numbers, Numbers]:
        part = slice(*np.searchsorted(document, [first, behind]))
        pairs = list(self._postings.candidates(document[part], word[part], first, behind))
        one, slot = (np.concatenate([pair[side] for pair in pairs]) for side in (0, 1))
        living = self._alive.values[slot]
        both = np.unique(one[living] * len(self._alive) + slot[living])  # one may be found by several words
        one, slot = both // len(self._alive), both % len(self._alive)
        self.compared += len(both)
        meets = verify(self._programs, documents, one, slot)
        return one[meets], slot[meets]


def _hashable(column: pl.Series) -> list[Any]:
    """Values that are equal where keys are: all NaN are one, and -0.0 is 0.0."""
    values = column.to_list()
    if column.dtype.is_float():
        return ["NaN" if value is not None and math.isnan(value) else value for value in values]
    return [repr(value) for value in values] if column.dtype.is_nested() else values
