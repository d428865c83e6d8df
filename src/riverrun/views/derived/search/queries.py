"""A search as tantivy has it. The language and its tree are those of stored searches (`riverrun.search`): tantivy's own
language drops the star of `rai*` and knows no lone NOT."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from tantivy import FieldType, Occur, Query

from riverrun.search.fields import HIGHEST, LOWEST
from riverrun.search.tree import (
    AllOf,
    AnyOf,
    Negation,
    QueryPattern,
    QueryPhrase,
    QueryRange,
    QueryTerm,
    QueryTree,
)
from riverrun.views.derived.search.documents import VIEW, SearchedView


def tantivy_query(tree: QueryTree, view: SearchedView, schema: Any) -> Any:
    """The documents of a view that meet a search. Of words that are near each other it is those that have them all:
    `has_near` says where one has to look closer."""
    return Query.boolean_query(
        [(Occur.Must, Query.const_score_query(of_view(view, schema), 0.0)), (Occur.Must, _query(tree, view, schema))]
    )


def of_view(view: SearchedView, schema: Any) -> Any:
    """All documents of a view."""
    return Query.term_query(schema, VIEW, str(view.number))


def _query(tree: QueryTree, view: SearchedView, schema: Any) -> Any:
    match tree:
        case QueryTerm(field, word):
            return _any(Query.term_query(schema, name, word) for name in _names(field, view))
        case QueryPhrase(field, words, None):
            return _any(Query.phrase_query(schema, name, list(words)) for name in _names(field, view))
        case QueryPhrase(field, words, _):
            every = (
                _all(Query.term_query(schema, name, word) for word in dict.fromkeys(words))
                for name in _names(field, view)
            )
            return _any(every)
        case QueryPattern(field, pattern):
            return _any(Query.regex_query(schema, name, _regex(pattern)) for name in _names(field, view))
        case QueryRange(column, low, high):
            return _range(column, low, high, view, schema)
        case AllOf(parts):
            return _all(_query(part, view, schema) for part in parts)
        case AnyOf(parts):
            return _any(_query(part, view, schema) for part in parts)
        case Negation(part):
            return Query.boolean_query([(Occur.Must, Query.all_query()), (Occur.MustNot, _query(part, view, schema))])


def _names(column: str | None, view: SearchedView) -> list[str]:
    return [view.field(name) for name in (view.fields.text if column is None else (column,))]


def _range(column: str, low: float, high: float, view: SearchedView, schema: Any) -> Any:
    name = view.field(column)
    if low > high:
        return Query.empty_query()
    if view.fields.by_name[column.lower()].kind == "float":  # infinities count, and NaN is beyond them
        return Query.range_query(schema, name, FieldType.Float, float(low), float(high))
    return Query.range_query(schema, name, FieldType.Integer, max(int(low), LOWEST), min(int(high), HIGHEST))


def _any(queries: Iterable[Any]) -> Any:
    given = list(queries)
    return given[0] if len(given) == 1 else Query.boolean_query([(Occur.Should, query) for query in given])


def _all(queries: Iterable[Any]) -> Any:
    given = list(queries)
    return given[0] if len(given) == 1 else Query.boolean_query([(Occur.Must, query) for query in given])


def _regex(pattern: str) -> str:
    """A pattern with `*` and `?` as a regular expression for whole words."""
    return "".join({"*": ".*", "?": "."}.get(part, re.escape(part)) for part in re.split(r"([*?])", pattern))


def leaves(tree: QueryTree) -> Iterator[QueryTerm | QueryPhrase | QueryPattern | QueryRange]:
    """What is looked for, but not what must not occur."""
    match tree:
        case AllOf(parts) | AnyOf(parts):
            for part in parts:
                yield from leaves(part)
        case Negation():
            return
        case _:
            yield tree


def has_near(tree: QueryTree) -> bool:
    """Whether words are to be near each other, somewhere in the search."""
    match tree:
        case AllOf(parts) | AnyOf(parts):
            return any(map(has_near, parts))
        case Negation(part):
            return has_near(part)
        case QueryPhrase(_, _, near):
            return near is not None
    return False
