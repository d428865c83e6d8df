"""Random stored searches, and documents that some of them meet."""

from __future__ import annotations

import math
from typing import Any

import polars as pl
from hypothesis import strategies as st

WORDS = ["alpha", "beta", "Gamma", "running", "runs", "café", "CAFE", "Straße", "你好", "e-mail", "don't", "x", "&"]
TEXT = ("title", "body")
COLUMNS: dict[str, pl.DataType] = {
    "title": pl.String(),
    "body": pl.String(),
    "city": pl.String(),
    "price": pl.Float64(),
    "n": pl.Int64(),
}

_word = st.sampled_from(WORDS)
_certain = st.sampled_from([word for word in WORDS if word != "&"])
_phrase = st.lists(_word, max_size=2).flatmap(
    lambda more: _certain.map(lambda word: '"' + " ".join([word, *more]) + '"')
)
_atom = st.one_of(
    _certain,
    _certain,
    _phrase,
    st.tuples(_phrase, st.integers(0, 3)).map(lambda pair: f"{pair[0]}~{pair[1]}"),
    st.sampled_from(["al*", "*a", "r?n*", "*", "ca?e", "g*m*a", "STRASSE*"]),
    st.tuples(st.sampled_from(["title", "body", "city"]), st.one_of(_certain, _phrase, st.just("al*"))).map(":".join),
    st.sampled_from(["n:3", "n:[1 TO 3]", "n:{1 TO 3}", "n:-1", "price:>2.5", "price:<=1", "price:*", "n:[* TO 2]"]),
)


def _composed(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    two = st.tuples(inner, inner)
    return st.one_of(
        two.map(lambda pair: f"({pair[0]} AND {pair[1]})"),
        two.map(lambda pair: f"({pair[0]} OR {pair[1]})"),
        two.map(lambda pair: f"({pair[0]} {pair[1]})"),
        two.map(lambda pair: f"({pair[0]} -{pair[1]})"),
        two.map(lambda pair: f"(+{pair[0]} & {pair[1]})"),
        inner.map(lambda part: f"(NOT {part})"),
        st.tuples(st.sampled_from(["title", "body"]), _certain, _phrase).map(lambda p: f"{p[0]}:({p[1]} OR {p[2]})"),
    )


QUERIES = st.recursive(_atom, _composed, max_leaves=6)
"""Queries that can be read."""

UNREADABLE = ["", "a AND", "(a", "nobody:x", "n:many", "x~2", "&", "title:[a TO b]"]
"""Queries that cannot."""

_text = st.one_of(st.none(), st.lists(_word, max_size=7).map(" ".join))
DOCUMENTS: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "title": _text,
        "body": _text,
        "city": _certain,
        "price": st.sampled_from([None, math.nan, 1.0, 2.5, 3.0]),
        "n": st.sampled_from([None, -1, 1, 2, 3]),
    }
)
