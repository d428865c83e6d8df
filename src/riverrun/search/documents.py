"""A batch of documents as arrays: which of the vocabulary's words each has, and where."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from riverrun.search.fields import SearchField, SearchFields
from riverrun.search.flat import Numbers, spread
from riverrun.search.vocabulary import Vocabulary
from riverrun.search.words import Analyzer, word_pattern

Values = npt.NDArray[np.int64] | npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

PLACE_BITS = 34  # of a word in its document: the column's number above, its place in the column below
_COLUMN_BITS = 24


@dataclass(frozen=True)
class Documents:
    """Words in documents, each once and in order, as `document · words + word`; `places` are all occurrences of each, as
    its number among them above the place. `values` are those of columns that are no text, and where there is one."""

    height: int
    words: int
    terms: Numbers
    places: Numbers
    values: Mapping[int, tuple[Values, Mask]]

    @property
    def document(self) -> Numbers:
        """Of each term, the document."""
        return self.terms // self.words

    @property
    def word(self) -> Numbers:
        """Of each term, the word."""
        return self.terms % self.words

    def find(self, document: Numbers, word: Numbers) -> tuple[Numbers, Mask]:
        """The numbers of terms, and whether they are there."""
        key = document * self.words + word
        at = np.searchsorted(self.terms, key)
        at[at == len(self.terms)] = 0
        return at, self.terms[at] == key if len(self.terms) else np.zeros(len(key), np.bool_)


@dataclass(frozen=True)
class _Occurrences:
    """Words as they are written, by document, column and place."""

    written: list[str]
    which: Numbers
    document: Numbers
    column: Numbers
    place: Numbers


def analyse(rows: pl.DataFrame, fields: SearchFields, analyzer: Analyzer, vocabulary: Vocabulary) -> Documents:
    """The documents that these rows are."""
    numbered = list(enumerate(fields.fields))
    read = [
        (number, field.name)
        for number, field in numbered
        if field.kind == "text" and (field.name in fields.text or field.name in vocabulary.columns)
    ]
    found = _occurrences(rows, read)
    document, word, place = _known(found, read, fields, analyzer, vocabulary)
    count = max(len(vocabulary), 1)
    key = document * count + word
    order = np.lexsort((place, key))
    terms, at = np.unique(key[order], return_inverse=True)
    values = {number: _values(rows, field) for number, field in numbered if field.kind != "text"}
    return Documents(rows.height, count, terms, (at << PLACE_BITS) | place[order], values)


def _occurrences(rows: pl.DataFrame, columns: list[tuple[int, str]]) -> _Occurrences:
    words, document, column, place = [], [], [], []
    for number, name in columns:
        found = rows.get_column(name).str.extract_all(word_pattern())
        lengths = found.list.len().fill_null(0).to_numpy().astype(np.int64)
        which, at = spread(np.zeros(len(lengths), np.int64), lengths)
        words.append(found.filter(pl.Series(lengths > 0)).explode().alias(""))
        document.append(which)
        column.append(np.full(len(which), number))
        place.append(at)
    if not words:
        none = np.empty(0, np.int64)
        return _Occurrences([], none, none, none, none)
    coded = pl.concat(words).to_arrow(compat_level=pl.CompatLevel.oldest()).dictionary_encode()
    which = coded.indices.to_numpy().astype(np.int64)
    return _Occurrences(
        coded.dictionary.to_pylist(), which, np.concatenate(document), np.concatenate(column), np.concatenate(place)
    )


def _known(
    found: _Occurrences,
    columns: list[tuple[int, str]],
    fields: SearchFields,
    analyzer: Analyzer,
    vocabulary: Vocabulary,
) -> tuple[Numbers, Numbers, Numbers]:
    """Document, word and place of whatever a query asks for."""
    terms = [analyzer.term(word) for word in found.written]
    searched = np.isin(found.column, [number for number, name in columns if name in fields.text])
    parts = [(searched, vocabulary.numbers(None, terms)[found.which])]
    for number, name in columns:
        if name in vocabulary.columns:
            parts.append((found.column == number, vocabulary.numbers(name, terms)[found.which]))
    document, word, place = [], [], []
    for there, codes in parts:
        chosen = np.flatnonzero(there & (codes >= 0))
        document.append(found.document[chosen])
        word.append(codes[chosen])
        place.append((found.column[chosen] << _COLUMN_BITS) | found.place[chosen])
    if vocabulary.has_patterns:
        for chosen, codes in _alike(found, dict(columns), searched, analyzer, vocabulary):
            document.append(found.document[chosen])
            word.append(codes)
            place.append((found.column[chosen] << _COLUMN_BITS) | found.place[chosen])
    return np.concatenate(document), np.concatenate(word), np.concatenate(place)


def _alike(
    found: _Occurrences, names: Mapping[int, str], searched: Mask, analyzer: Analyzer, vocabulary: Vocabulary
) -> list[tuple[Numbers, Numbers]]:
    """Occurrences that meet a pattern, and the pattern's number."""
    numbers = {name: number for number, name in names.items()}
    met = [
        (which, -1 if column is None else numbers.get(column, -2), code)
        for which, word in enumerate(found.written)
        for column, code in vocabulary.looking_like(analyzer.form(word))
    ]
    if not met:
        return []
    which, column, code = np.array(met, np.int64).T
    starts = np.searchsorted(which, found.which)
    lengths = np.searchsorted(which, found.which, side="right") - starts
    at, pattern = spread(starts, lengths)
    fits = np.where(column[pattern] == -1, searched[at], column[pattern] == found.column[at])
    return [(at[fits], code[pattern[fits]])]


def _values(rows: pl.DataFrame, field: SearchField) -> tuple[Values, Mask]:
    """The values of a column that is no text, as they are compared, and where there is one."""
    column = rows.get_column(field.name)
    there = column.is_not_null().to_numpy()
    if field.kind == "float":
        floats = column.cast(pl.Float64).fill_null(0.0).to_numpy()
        return floats, there & ~np.isnan(floats)
    if field.kind == "decimal":
        column = (column * 10**field.scale).cast(pl.Decimal(38, 0))
    return column.cast(pl.Int64).fill_null(0).to_numpy(), there
