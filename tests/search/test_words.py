"""What a word is, and what of it counts."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracles.search import Search, split
from riverrun.errors import Invalid
from riverrun.search.words import Analyzer, check_language, plain, word_pattern


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Hello, world!", ["Hello", "world"]),
        ("e-mail don't 3.14 a_b", ["e", "mail", "don", "t", "3", "14", "a_b"]),
        ("Zoë cafe\u0301 Ελλάδα", ["Zoë", "cafe\u0301", "Ελλάδα"]),
        ("你好 world ひら カタカナ", ["你", "好", "world", "ひ", "ら", "カタカナ"]),
        ("x\u0301 \u0301 😀 …", ["x\u0301"]),
        ("", []),
    ],
)
def test_words(text: str, words: list[str]) -> None:
    assert Analyzer().words(text) == words == split(text)


@given(st.text(max_size=40))
def test_queries_and_documents_have_the_same_words(text: str) -> None:
    if any(0xD800 <= ord(char) <= 0xDFFF for char in text):
        return
    assert Analyzer().words(text) == split(text)
    assert pl.Series([text]).str.extract_all(word_pattern()).to_list() == [split(text)]


@given(st.text(max_size=20), st.booleans())
def test_what_does_not_count_is_gone_for_good(word: str, fold: bool) -> None:
    assert plain(plain(word, fold), fold) == plain(word, fold)
    assert plain(word.upper(), fold) == plain(word.upper().lower(), fold) or len(word.upper()) != len(word)


def test_case_and_accents() -> None:
    assert plain("ΣΊΣΥΦΟΣ", False) == plain("σίσυφος", False)
    assert plain("Straße", False) == plain("STRASSE", False)
    assert plain("cafe\u0301", False) == plain("CAFÉ", False) != plain("cafe", False)
    assert plain("CAFÉ", True) == plain("cafe", True)


def test_stems() -> None:
    english = Analyzer(language="english")
    assert english.terms("Running runs RUN") == ["run", "run", "run"]
    assert english.form("Running") == "running"
    assert [Search(["t"], language="german").term(word) for word in ("Häuser", "Haus")] == Analyzer(
        language="german"
    ).terms("Häuser Haus")
    assert check_language(None) is None
    with pytest.raises(Invalid, match="there is no stemmer for 'englisch'"):
        check_language("englisch")
