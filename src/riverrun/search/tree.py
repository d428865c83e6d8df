"""A query as a tree: what must occur in a document, in words that are already analysed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class QueryTerm:
    """A word occurs, in a column or, None, in any of those that are searched."""

    field: str | None
    word: str


@dataclass(frozen=True, slots=True)
class QueryPhrase:
    """Words occur in one column one after the other; or, with `near`, in any order with at most so many others among."""

    field: str | None
    words: tuple[str, ...]
    near: int | None = None


@dataclass(frozen=True, slots=True)
class QueryPattern:
    """A word occurs that looks so: `*` stands for any characters, `?` for one. It is compared before stemming."""

    field: str | None
    pattern: str


@dataclass(frozen=True, slots=True)
class QueryRange:
    """A column's value is in [low, high]: whole numbers, or floats where the column has those."""

    column: str
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class AllOf:
    """Every part holds."""

    parts: tuple[QueryTree, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """At least one part holds."""

    parts: tuple[QueryTree, ...]


@dataclass(frozen=True, slots=True)
class Negation:
    """The part does not hold."""

    part: QueryTree


QueryTree = QueryTerm | QueryPhrase | QueryPattern | QueryRange | AllOf | AnyOf | Negation
