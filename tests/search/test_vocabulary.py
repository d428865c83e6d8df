"""Patterns of words: what looks like one, and how long it takes to say so."""

from __future__ import annotations

import re
import time

from hypothesis import given
from hypothesis import strategies as st

from riverrun.search.vocabulary import looks_like


@given(st.text("ab", max_size=12), st.text("ab*?", max_size=8))
def test_a_word_looks_like_a_pattern_where_the_regular_expression_matches(word: str, pattern: str) -> None:
    expression = "".join({"*": ".*", "?": "."}.get(char, char) for char in pattern)
    assert looks_like(word, pattern) == bool(re.fullmatch(expression, word))


def test_no_pattern_takes_long() -> None:
    started = time.process_time()
    assert not looks_like("a" * 2000, "a*" * 50 + "b")
    assert time.process_time() - started < 5  # trying every way would take longer than there is time
