"""Stored searches the slow and certain way: the query is read for every document, and each of its parts is looked for."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import snowballstemmer
from luqum import tree as syntax
from luqum.parser import parser

Document = Mapping[str, Any]

_ALONE = re.compile("[\u3041-\u309f\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af]")


def split(text: str) -> list[str]:
    """The words of a text, one character after the other."""
    words: list[str] = []
    before = False  # whether a word can go on
    for char in text:
        kind = unicodedata.category(char)
        mark = kind.startswith("M")
        if not (mark or kind.startswith(("L", "N")) or kind == "Pc") or (mark and not before):
            before = False
        elif before and (mark or not (_ALONE.match(char) or _ALONE.match(words[-1]))):
            words[-1] += char
        else:
            words.append(char)
            before = True
    return words


class Search:
    """Queries over documents; `text` are the columns that words without a column are looked for in."""

    def __init__(self, text: Sequence[str], fold: bool = False, language: str | None = None) -> None:
        self.text = text
        self.fold = fold
        self.stemmer = snowballstemmer.stemmer(language) if language else None

    def form(self, word: str) -> str:
        if self.fold:
            word = "".join(c for c in unicodedata.normalize("NFKD", word) if unicodedata.category(c) != "Mn")
        return unicodedata.normalize("NFC", unicodedata.normalize("NFC", word).casefold())

    def term(self, word: str) -> str:
        return self.stemmer.stemWord(self.form(word)) if self.stemmer else self.form(word)

    def meets(self, document: Document, query: str) -> bool:
        """Whether a document meets a query that can be read, and has words."""
        found = self.holds(parser.parse(query), document, None)
        assert found is not None, query
        return found

    def holds(self, node: syntax.Item, document: Document, column: str | None) -> bool | None:
        """None: the part has no words, and says nothing."""
        match node:
            case syntax.OrOperation():
                parts = self.parts(node, document, column)
                return any(parts) if parts else None
            case syntax.AndOperation() | syntax.UnknownOperation():
                parts = self.parts(node, document, column)
                return all(parts) if parts else None
            case syntax.Prohibit() if column and not self.is_text(document, column):
                return self.between(document[column], str(node), str(node), True, True)
            case syntax.Not() | syntax.Prohibit():
                inner = self.holds(node.children[0], document, column)
                return None if inner is None else not inner
            case syntax.Plus() | syntax.Group() | syntax.FieldGroup():
                return self.holds(node.children[0], document, column)
            case syntax.SearchField():
                return self.holds(node.children[0], document, node.name)
            case syntax.Proximity():
                return self.words(document, column, node.children[0].value[1:-1], int(node.degree))
            case syntax.Range():
                bounds = (str(node.low), str(node.high), node.include_low, node.include_high)
                return self.between(document[str(column)], *bounds)
            case syntax.From():
                return self.between(document[str(column)], str(node.children[0]), "*", node.include, True)
            case syntax.To():
                return self.between(document[str(column)], "*", str(node.children[0]), True, node.include)
            case syntax.Word() | syntax.Phrase() if column and not self.is_text(document, column):
                return self.between(document[column], node.value, node.value, True, True)
            case syntax.Phrase():
                return self.words(document, column, node.value[1:-1], 0)
            case syntax.Word():
                if re.search(r"[*?]", node.value):
                    return self.looks(document, column, node.value)
                return self.words(document, column, node.value, 0)
        raise AssertionError(node)

    def parts(self, node: syntax.Item, document: Document, column: str | None) -> list[bool]:
        found = [self.holds(part, document, column) for part in node.children]
        return [part for part in found if part is not None]

    def is_text(self, document: Document, column: str) -> bool:
        return column in self.text or isinstance(document[column], str)

    def texts(self, document: Document, column: str | None) -> list[list[str]]:
        return [split(document[name] or "") for name in ([column] if column else self.text)]

    def words(self, document: Document, column: str | None, text: str, near: int) -> bool | None:
        wanted = [self.term(word) for word in split(text)]
        if not wanted:
            return None
        for words in self.texts(document, column):
            there = [self.term(word) for word in words]
            length = len(wanted) + (near if len(wanted) > 1 else 0)
            for start in range(len(there)):
                stretch = there[start : start + length]
                if stretch == wanted or (near and not Counter(wanted) - Counter(stretch)):
                    return True
        return False

    def looks(self, document: Document, column: str | None, pattern: str) -> bool:
        parts = {"*": ".*", "?": "."}
        like = "".join(parts.get(char) or re.escape(char) for char in self.form(pattern))
        forms = [self.form(word) for words in self.texts(document, column) for word in words]
        return any(re.fullmatch(like, form, re.DOTALL) for form in forms)

    def between(self, value: Any, low: str, high: str, with_low: bool, with_high: bool) -> bool:
        if value is None or value != value:
            return False
        low, high = (bound.strip().strip('"') for bound in (low, high))
        if low != "*":
            first, last = _meant(low, value)
            if not (value >= first if with_low else value > last):
                return False
        if high != "*":
            first, last = _meant(high, value)
            if not (value <= last if with_high else value < first):
                return False
        return True


def _meant(text: str, value: Any) -> tuple[Any, Any]:
    """What a text stands for, beside a value: the first and the last moment of a day."""
    if isinstance(value, bool):
        return text.lower() == "true", text.lower() == "true"
    if isinstance(value, datetime):
        moment = datetime.fromisoformat(text)
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        last = moment.replace(hour=23, minute=59, second=59, microsecond=999_999) if len(text) == 10 else moment
        return moment, last
    if isinstance(value, date):
        return date.fromisoformat(text), date.fromisoformat(text)
    if isinstance(value, float):
        return float(text), float(text)
    return Decimal(text), Decimal(text)
