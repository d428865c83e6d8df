"""What a word is, the same for queries and for documents.

A word is a run of letters, marks and digits (and `_`); of Chinese and Japanese, where nothing stands between words, each
character is one. Case does not count, nor how an accented letter is composed; with `fold` accents do not count either,
and with a language only the stem of a word does.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import groupby
from typing import Any

import snowballstemmer

from riverrun.errors import Invalid, did_you_mean

# Characters that are words of their own: Hiragana, and the blocks of Chinese characters.
_SINGLE = ((0x3041, 0x309F), (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x323AF))
_BEGINS = {"Lu", "Ll", "Lt", "Lm", "Lo", "Nd", "Nl", "No", "Pc"}
_MARKS = {"Mn", "Mc", "Me"}
_REMEMBERED = 1 << 18
# Beyond these nothing is assigned, or only for private use.
_ASSIGNED = (range(0x33480), range(0xE0100, 0xE01F0))


@cache
def word_pattern() -> str:
    """A regular expression for one word. Classes are spelled out, so that every engine finds the same words."""
    kinds = {code: unicodedata.category(chr(code)) for part in _ASSIGNED for code in part}
    begins = {code for code, kind in kinds.items() if kind in _BEGINS}
    marks = {code for code, kind in kinds.items() if kind in _MARKS}
    alone = begins & {code for first, last in _SINGLE for code in range(first, last + 1)}
    begins -= alone
    return f"{_class(alone)}{_class(marks)}*|{_class(begins)}{_class(begins | marks)}*"


def _class(codes: Iterable[int]) -> str:
    return "[" + "".join(f"{_char(first)}-{_char(last)}" for first, last in _ranges(sorted(codes))) + "]"


def _ranges(codes: list[int]) -> Iterator[tuple[int, int]]:
    for _, run in groupby(enumerate(codes), lambda pair: pair[1] - pair[0]):
        members = [code for _, code in run]
        yield members[0], members[-1]


def _char(code: int) -> str:
    char = chr(code)
    return char if char.isalnum() else re.escape(char)


@cache
def _words() -> re.Pattern[str]:
    return re.compile(word_pattern())


_ASCII = re.compile(r"[A-Za-z0-9_]+")


@dataclass(frozen=True)
class Analyzer:
    """How text becomes words. `language` is one that snowball has a stemmer for; None: words stay as they are."""

    fold: bool = False
    language: str | None = None

    def words(self, text: str) -> list[str]:
        """The words of a text as they are written."""
        return (_ASCII if text.isascii() else _words()).findall(text)

    def spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Where the words of a text begin and end."""
        return (found.span() for found in (_ASCII if text.isascii() else _words()).finditer(text))

    def form(self, word: str) -> str:
        """A written word without what does not count, but not stemmed: what wildcards are compared with."""
        return analysed(word, self.fold, self.language)[0]

    def term(self, word: str) -> str:
        """What is compared of a written word."""
        return analysed(word, self.fold, self.language)[1]

    def terms(self, text: str) -> list[str]:
        """What is compared of a text, word by word."""
        if self.language is None and text.isascii():
            return _ASCII.findall(text.lower())
        return [analysed(word, self.fold, self.language)[1] for word in self.words(text)]


@lru_cache(_REMEMBERED)
def analysed(word: str, fold: bool, language: str | None) -> tuple[str, str]:
    """The form of a written word, and its term."""
    form = plain(word, fold)
    return form, form if language is None else _stemmer(language).stemWord(form) or form


def plain(word: str, fold: bool) -> str:
    """Text without case and, with `fold`, without accents.

    >>> plain("STRASSE", False) == plain("Straße", False), plain("Café", True)
    (True, 'cafe')
    """
    if word.isascii():
        return word.lower()
    if fold:
        apart = unicodedata.normalize("NFKD", word)
        word = "".join(char for char in apart if unicodedata.category(char) != "Mn") or word
    composed = unicodedata.normalize("NFC", word)
    return unicodedata.normalize("NFC", composed.casefold())


@cache
def _stemmer(language: str) -> Any:
    return snowballstemmer.stemmer(language)


def check_language(language: object) -> str | None:
    """A language that words can be stemmed in, or None."""
    known = snowballstemmer.algorithms()
    if language is None or (isinstance(language, str) and language in known):
        return language
    raise Invalid(f"stem: there is no stemmer for {language!r}", hint=did_you_mean(str(language), known))
