"""Made-up queries and documents: words as frequent as words are, and queries of the shapes that people save."""

from __future__ import annotations

import numpy as np
import polars as pl

WORDS = 60_000
DOCUMENT_WORDS = 500
_NAMES = 1_000  # words that are rarer than this are names: every query has one
_COMMON = 100  # nobody looks for those that are more frequent

_vocabulary = np.array([f"w{number:x}" for number in range(WORDS)])
_frequency = 1 / np.arange(1, WORDS + 1)
_frequency /= _frequency.sum()


def queries(first: int, count: int) -> list[str]:
    """The queries of these numbers."""
    rng = np.random.default_rng((1, first))
    names = _vocabulary[rng.integers(_NAMES, WORDS, (count, 2))].tolist()
    ranks = _COMMON * (WORDS / _COMMON) ** rng.random((count, 3))
    others = _vocabulary[ranks.astype(np.int64).clip(0, WORDS - 1)].tolist()
    return [_shaped(first + at, *names[at], *others[at]) for at in range(count)]


def _shaped(number: int, name: str, other_name: str, one: str, two: str, three: str) -> str:
    shapes = (
        name,
        f"{name} {one}",
        f"{one} AND {name}",
        f'"{name} {one}"',
        f'{two} AND "{name} {one}"',
        f"{name} AND ({one} OR {two}) NOT {three}",
        f"({name} OR {other_name}) {one}",
        f"{name} n:[{number % 50} TO {number % 50 + 20}]",
        f'"{one} {name}"~10',
        f"{name[:4]}* AND {one}" if len(name) > 4 else f"{name}* AND {one}",
    )
    return shapes[number % len(shapes)]


def documents(number: int, count: int) -> pl.DataFrame:
    """The documents of one epoch."""
    rng = np.random.default_rng((2, number))
    chosen = _vocabulary[rng.choice(WORDS, (count, DOCUMENT_WORDS), p=_frequency)]
    return pl.DataFrame({"body": [" ".join(words) for words in chosen], "n": rng.integers(0, 100, count)})
