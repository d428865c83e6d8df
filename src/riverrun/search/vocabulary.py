"""The words that queries ask for, as numbers, and how often documents had them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from riverrun.search.flat import Grown, Numbers

_IN_COLUMN, _LIKE = "\0", "\1"  # characters that no word has
_SOME = 50.0  # a pattern is met by more than one word


def looks_like(word: str, pattern: str) -> bool:
    """Whether a word looks like a pattern, where `?` is any character and `*` are any. The last `*` is the only one that is
    ever tried again, so that no pattern takes longer than the product of both lengths.

    >>> looks_like("teapot", "t*p?t"), looks_like("teapot", "t*p?")
    (True, False)
    """
    at, star, after, tried = 0, -1, 0, 0
    while at < len(word):
        wanted = pattern[after] if after < len(pattern) else ""
        if wanted == "*":
            star, tried, after = after, at, after + 1
        elif wanted in ("?", word[at]):
            at, after = at + 1, after + 1
        elif star >= 0:
            tried += 1
            at, after = tried, star + 1
        else:
            return False
    return not pattern[after:].strip("*")


class Vocabulary:
    """A number for each word, word of a column, and pattern. What no query asks for has none."""

    def __init__(self) -> None:
        self.codes: dict[str, int] = {}
        self.columns: set[str] = set()
        self._seen = Grown(np.float32)
        self._new: list[float] = []  # of those that came last
        self._patterns: dict[str, list[tuple[str | None, str, int]]] = {}
        self._lengths: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def seen(self) -> npt.NDArray[np.float32]:
        """In how many documents each was so far; of what was in none, short words are taken to be the more frequent."""
        if self._new:
            self._seen.extend(self._new)
            self._new = []
        values: npt.NDArray[np.float32] = self._seen.values
        return values

    def term(self, column: str | None, word: str) -> int:
        """The number of a word, of a column or of any."""
        key = word if column is None else column + _IN_COLUMN + word
        code = self.codes.get(key)
        if code is None:
            code = self._add(key, 1 / (1 + len(word)))
            if column is not None:
                self.columns.add(column)
        return code

    def pattern(self, column: str | None, pattern: str) -> int:
        """The number of a pattern: it occurs where one of the words does that look so."""
        key = (column or "") + _LIKE + pattern
        code = self.codes.get(key)
        if code is None:
            code = self._add(key, _SOME / (1 + len(pattern)))
            self._add_pattern(column, pattern, code)
            if column is not None:
                self.columns.add(column)
        return code

    def _add(self, key: str, seen: float) -> int:
        code = self.codes[key] = len(self.codes)
        self._new.append(seen)
        return code

    def _add_pattern(self, column: str | None, pattern: str, code: int) -> None:
        literal = re.split(r"[*?]", pattern, maxsplit=1)[0]
        self._patterns.setdefault(literal, []).append((column, pattern[len(literal) :], code))
        self._lengths = tuple(sorted({*self._lengths, len(literal)}))

    @property
    def has_patterns(self) -> bool:
        """Whether any query has a pattern."""
        return bool(self._patterns)

    def looking_like(self, form: str) -> Iterator[tuple[str | None, int]]:
        """The patterns that a word meets: column and number of each."""
        for length in self._lengths:
            if length > len(form):
                break
            for column, rest, code in self._patterns.get(form[:length], ()):
                if rest == "*" or looks_like(form[length:], rest):
                    yield column, code

    def numbers(self, column: str | None, words: list[str]) -> Numbers:
        """The numbers of words, -1 for those that nobody asks for."""
        get = self.codes.get
        keys: Any = words if column is None else [column + _IN_COLUMN + word for word in words]
        return np.fromiter((get(key, -1) for key in keys), np.int64, len(words))

    def count(self, codes: Numbers) -> None:
        """Each of these was in one more document."""
        self.seen[:] += np.bincount(codes, minlength=len(self.codes)).astype(np.float32)

    def only(self, used: Numbers) -> tuple[Vocabulary, Numbers]:
        """A vocabulary of those numbers alone that are `used`; and for each number the new one, or -1."""
        kept = Vocabulary()
        wanted = np.zeros(len(self.codes), np.bool_)
        wanted[used] = True
        new = np.full(len(self.codes), -1)
        for key, code in self.codes.items():
            if wanted[code]:
                column, like, pattern = key.partition(_LIKE)
                if like:
                    new[code] = kept.pattern(column or None, pattern)
                else:
                    before, inside, word = key.partition(_IN_COLUMN)
                    new[code] = kept.term(before, word) if inside else kept.term(None, key)
        kept.seen[new[new >= 0]] = self.seen[new >= 0]
        return kept, new
