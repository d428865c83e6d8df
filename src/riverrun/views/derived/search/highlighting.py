"""What of a row met a search: its texts with the words marked, as HTML."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from html import escape
from typing import Any

from riverrun.search.tree import QueryPattern, QueryPhrase, QueryTerm, QueryTree
from riverrun.search.words import Analyzer
from riverrun.views.derived.search.queries import leaves


class Highlighter:
    """Marks the words of one search."""

    def __init__(self, tree: QueryTree, columns: Iterable[str], analyzer: Analyzer) -> None:
        self._analyzer = analyzer
        self._terms: dict[str, set[str]] = {name: set() for name in columns}
        self._patterns: dict[str, list[re.Pattern[str]]] = {name: [] for name in self._terms}
        for leaf in leaves(tree):
            if isinstance(leaf, QueryTerm | QueryPhrase | QueryPattern):
                for name in self._terms if leaf.field is None else (leaf.field,):
                    self._look_for(leaf, name)

    def _look_for(self, leaf: QueryTerm | QueryPhrase | QueryPattern, name: str) -> None:
        match leaf:
            case QueryTerm(_, word):
                self._terms[name].add(word)
            case QueryPhrase(_, words, _):
                self._terms[name].update(words)
            case QueryPattern(_, pattern):
                parts = ({"*": ".*", "?": "."}.get(part, re.escape(part)) for part in re.split(r"([*?])", pattern))
                self._patterns[name].append(re.compile("".join(parts), re.DOTALL))

    def mark(self, row: Mapping[str, Any]) -> dict[str, str]:
        """The columns in which a word was found, each as HTML with `<mark>` around the words.

        >>> from riverrun.search.tree import QueryTerm
        >>> Highlighter(QueryTerm(None, "rain"), ["title"], Analyzer()).mark({"title": "Rain & boots"})
        {'title': '<mark>Rain</mark> &amp; boots'}
        """
        found = {}
        for name in self._terms:
            text = row.get(name)
            marked = self._marked(name, text) if text else None
            if marked is not None:
                found[name] = marked
        return found

    def _marked(self, name: str, text: str) -> str | None:
        pieces, end, any_found = [], 0, False
        for start, stop in self._analyzer.spans(text):
            word = text[start:stop]
            if self._is_wanted(name, word):
                pieces += [escape(text[end:start]), f"<mark>{escape(word)}</mark>"]
                end, any_found = stop, True
        return "".join([*pieces, escape(text[end:])]) if any_found else None

    def _is_wanted(self, name: str, word: str) -> bool:
        return self._analyzer.term(word) in self._terms[name] or any(
            pattern.fullmatch(self._analyzer.form(word)) for pattern in self._patterns[name]
        )
