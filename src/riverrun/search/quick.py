"""Words, phrases, ranges of numbers, columns, parentheses, AND, OR and NOT: read in a tenth of luqum's time, to its tree.

AND binds more tightly than OR, and OR more tightly than a mere space, which is AND, too: that is how luqum has it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from riverrun.errors import Invalid
from riverrun.search.tree import AllOf, AnyOf, Negation, QueryTree

_DEEPEST = 10
_NUMBER = r"-?\d+(?:\.\d+)?"
_TOKEN = re.compile(
    r'(?:(?P<field>[^\W\d]\w*):)?(?:(?P<word>[\w*?]+)|"(?P<phrase>[^"\\]*)"(?:~(?P<near>\d{1,4}))?)(?=[\s)]|$)'
    r"|(?P<open>(?<![^\s(])\()"
    r"|(?P<column>[^\W\d]\w*):(?P<range>[\[{](?:" + _NUMBER + r"|\*) TO (?:" + _NUMBER + r"|\*)[\]}])(?=[\s)]|$)"
    r"|\)|\s+"
)
_KEYWORDS = frozenset({"AND", "OR", "NOT", "TO"})

Words = Callable[[str, str | None, int | None], QueryTree | None]
Pattern = Callable[[str, str | None], QueryTree]
Range = Callable[[str, str, str, bool, bool], QueryTree]
Token = tuple[str, str, str | None, int | None]
"""What it is ("word", "pattern", "range", "(", ")", "AND", "OR", "NOT"), its text, the column that it names, the distance."""


@dataclass(frozen=True)
class Leaves:
    """What makes leaves: of words and, of near ones, the distance; of a word with `*` or `?`; of a column, two bounds and
    whether these count."""

    words: Words
    pattern: Pattern
    between: Range


class NotQuick(Invalid):
    """A query that has more to it, or something wrong with it: luqum knows."""

    def __init__(self) -> None:
        super().__init__("this query is not plain")


def read_quickly(text: str, leaves: Leaves) -> QueryTree | None:
    """The tree of a plain query, or `NotQuick`."""
    reading = _QuickReading(_tokens(text), leaves)
    tree = reading.sequence(0)
    if reading.at != len(reading.tokens):
        raise NotQuick
    return tree


def _tokens(text: str) -> list[Token]:
    found: list[Token] = []
    at = 0
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None:
            raise NotQuick
        at = token.end()
        field, word, phrase, near, bracket, column, bounds = token.groups()
        if word is not None:
            if word in _KEYWORDS:
                if field is not None or word == "TO":
                    raise NotQuick
                found.append((word, word, None, None))
            else:
                found.append(("pattern" if "*" in word or "?" in word else "word", word, field, None))
        elif phrase is not None:
            found.append(("word", phrase, field, int(near) if near else None))
        elif bounds is not None:
            found.append(("range", bounds, column, None))
        elif bracket or token[0] == ")":
            found.append((token[0], token[0], None, None))
    return found


def joined(kind: type[AllOf | AnyOf], parts: Sequence[QueryTree | None]) -> QueryTree | None:
    """Parts that hold together; one without any word says nothing."""
    said = [part for part in parts if part is not None]
    if len(said) < 2:
        return said[0] if said else None
    flat: list[QueryTree] = []
    for part in said:
        flat.extend(part.parts if isinstance(part, kind) else [part])
    return kind(tuple(dict.fromkeys(flat)))


def negated(part: QueryTree | None) -> QueryTree | None:
    """The opposite."""
    return None if part is None else part.part if isinstance(part, Negation) else Negation(part)


class _QuickReading:
    def __init__(self, tokens: list[Token], leaves: Leaves) -> None:
        self.tokens = tokens
        self.leaves = leaves
        self.at = 0

    def next(self) -> str | None:
        return self.tokens[self.at][0] if self.at < len(self.tokens) else None

    def sequence(self, depth: int) -> QueryTree | None:
        if depth > _DEEPEST:
            raise NotQuick
        parts = [self.either(depth)]
        while self.next() not in (None, ")"):
            parts.append(self.either(depth))
        return joined(AllOf, parts)

    def either(self, depth: int) -> QueryTree | None:
        parts = [self.both(depth)]
        while self.next() == "OR":
            self.at += 1
            parts.append(self.both(depth))
        return joined(AnyOf, parts)

    def both(self, depth: int) -> QueryTree | None:
        parts = [self.one(depth)]
        while self.next() == "AND":
            self.at += 1
            parts.append(self.one(depth))
        return joined(AllOf, parts)

    def one(self, depth: int) -> QueryTree | None:
        if self.at == len(self.tokens):
            raise NotQuick
        kind, text, field, near = self.tokens[self.at]
        self.at += 1
        if kind == "word":
            return self.leaves.words(text, field, near)
        if kind == "pattern":
            return self.leaves.pattern(text, field)
        if kind == "range":
            low, high = text[1:-1].split(" TO ")
            return self.leaves.between(field or "", low, high, text[0] == "[", text[-1] == "]")
        if kind == "NOT":
            return negated(self.one(depth))
        if kind != "(":
            raise NotQuick
        inner = self.sequence(depth + 1)
        if self.next() != ")":
            raise NotQuick
        self.at += 1
        return inner
