"""The pattern language: a regular expression over names of variables. What cannot be read is shown with a caret.

>>> parse("login !logout -> (payment | transfer){2,}").variables
('login', 'logout', 'payment', 'transfer')
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import NoReturn

from riverrun.errors import Invalid
from riverrun.patterns.tree import (
    Chain,
    Gap,
    MatchPattern,
    PatternChoice,
    Permutation,
    Repeat,
    RowVariable,
    Tree,
    can_be_empty,
    walk,
)

_TOKEN = re.compile(r"\s*(?:(?P<name>[^\W\d]\w*|`[^`]+`)|(?P<number>\d+)|(?P<mark>->|[|()?*+{},!])|(?P<other>\S))")
_LARGEST = 1_000_000
_DEEPEST = 50  # groups inside groups


def unreadable(text: str, at: int, why: str, hint: str | None = None) -> Invalid:
    """The refusal of a pattern, with a caret under the place."""
    line = text[:at].count("\n")
    column = at - (text[:at].rfind("\n") + 1)
    shown = text.split("\n")[line]
    return Invalid(f"pattern: {why}{f'. {hint}' if hint else ''}\n    {shown}\n    {' ' * column}^")


def parse(text: str) -> MatchPattern:
    """The pattern that a text is."""
    if not isinstance(text, str):
        raise Invalid(f"a pattern is a string, not {text!r}", hint='Write "a -> b"')
    return _PatternParser(text).pattern()


def refuse_endless(pattern: MatchPattern, conditions: Collection[str]) -> None:
    """Refuse a pattern whose attempts can go on for ever; `conditions` are the variables that have one."""
    why = "needs within: attempts would stay open for ever"
    hint = 'Say how long a match may take: within="10 minutes"'
    for part in walk(pattern.tree):
        match part:
            case Gap(at=at):
                raise unreadable(pattern.text, at, f"-> {why}", hint)
            case Repeat(inner, high=None, at=at):
                loose = [one.name for one in walk(inner) if isinstance(one, RowVariable) and one.name not in conditions]
                if loose:
                    raise unreadable(pattern.text, at, f"a loop over {loose[0]}, which every row is, {why}", hint)


class _PatternParser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[tuple[str, str, int]] = []
        at = 0
        while (found := _TOKEN.match(text, at)) is not None:
            kind = str(found.lastgroup)
            self.tokens.append((kind, found[kind], found.start(kind)))
            at = found.end()
        self.tokens.append(("end", "", len(text.rstrip())))
        self.next = 0
        self.depth = 0
        self.absent: tuple[str, ...] = ()

    @property
    def at(self) -> int:
        return self.tokens[self.next][2]

    def fail(self, why: str, at: int | None = None, hint: str | None = None) -> NoReturn:
        raise unreadable(self.text, self.at if at is None else at, why, hint)

    def took(self, *marks: str) -> str | None:
        kind, text, _ = self.tokens[self.next]
        if kind == "mark" and text in marks:
            self.next += 1
            return text
        return None

    def pattern(self) -> MatchPattern:
        if self.tokens[0][0] == "end":
            self.fail("is empty", hint='Name what a row can be: "a -> b"')
        tree = self.choice(whole=True)
        if self.tokens[self.next][0] != "end":
            self.unexpected()
        if can_be_empty(tree):
            self.fail("can match no row at all", 0, "At least one part must be there: a+ instead of a*")
        return MatchPattern(self.text, tree, self.absent)

    def unexpected(self) -> NoReturn:
        kind, text, at = self.tokens[self.next]
        if text in ("^", "$"):
            self.fail(f"{text} is not known: a stream has no first and no last row", at)
        if kind == "end":
            self.fail("ends where a variable is expected", at)
        self.fail(f"{text!r} is not expected here", at)

    def choice(self, whole: bool = False) -> Tree:
        first = self.at
        parts = [self.chain(whole)]
        while self.took("|"):
            parts.append(self.chain(whole))
        if len(parts) == 1:
            return parts[0]
        if whole and self.absent:
            self.fail("! at the end is about the whole pattern", first, "Put the alternatives in brackets: (a | b) !x")
        return PatternChoice(tuple(parts))

    def chain(self, whole: bool) -> Tree:
        parts: list[Tree] = [self.item()]
        while True:
            at, absent = self.at, self.negations()
            gap = self.at
            if self.took("->"):
                parts.append(Gap(absent, gap))
            elif absent:
                self.final(whole, at, absent)
                break
            elif not self.begins_item():
                break
            parts.append(self.item())
        return parts[0] if len(parts) == 1 else Chain(tuple(parts))

    def negations(self) -> tuple[str, ...]:
        names = []
        while self.took("!"):
            kind, text, _ = self.tokens[self.next]
            if kind != "name":
                self.fail("! is followed by the name of one variable")
            names.append(_name(text))
            self.next += 1
        return tuple(names)

    def final(self, whole: bool, at: int, absent: tuple[str, ...]) -> None:
        """Absences at the end: they must be at the very end."""
        if not whole or self.tokens[self.next][0] != "end":
            hint = "Write a !x -> b, or a !x as the end of the pattern"
            self.fail("! stands only before ->, or at the very end of the pattern", at, hint)
        self.absent = absent

    def begins_item(self) -> bool:
        kind, text, _ = self.tokens[self.next]
        return kind == "name" or text == "("

    def item(self) -> Tree:
        if self.tokens[self.next][1] == "!":
            self.fail("! needs a row before it", hint="Write a !x -> b: no x between a and b")
        start = self.depth
        self.deeper()
        tree = self.atom()
        while (repeat := self.quantified(tree)) is not None:
            self.deeper()
            tree = repeat
        self.depth = start
        return tree

    def deeper(self) -> None:
        self.depth += 1
        if self.depth > _DEEPEST:
            self.fail(f"more than {_DEEPEST} groups are inside each other", hint="Leave out what groups nothing")

    def atom(self) -> Tree:
        kind, text, at = self.tokens[self.next]
        if kind == "name":
            self.next += 1
            if text.lower() == "permute" and self.took("("):
                return self.permutation(at)
            return RowVariable(_name(text), at)
        if self.took("("):
            if self.tokens[self.next][1] == ")":
                self.fail("an empty group matches no row")
            tree = self.choice()
            self.close(at)
            return tree
        return self.unexpected()

    def close(self, opened: int) -> None:
        if not self.took(")"):
            if self.tokens[self.next][0] == "end":
                self.fail("this bracket is not closed", opened)
            self.unexpected()

    def permutation(self, at: int) -> Tree:
        parts = [self.choice()]
        while self.took(","):
            parts.append(self.choice())
        self.close(at)
        return parts[0] if len(parts) == 1 else Permutation(tuple(parts), at)

    def quantified(self, tree: Tree) -> Repeat | None:
        at = self.at
        mark = self.took("?", "*", "+", "{")
        if mark is None:
            return None
        low, high = {"?": (0, 1), "*": (0, None), "+": (1, None)}.get(mark) or self.bounds(at)
        if high is None and can_be_empty(tree):
            self.fail("a loop around something that can be empty", at, "Make what is inside match at least one row")
        return Repeat(tree, low, high, not self.took("?"), at)

    def bounds(self, at: int) -> tuple[int, int | None]:
        low = self.number()
        high = low
        if self.took(","):
            high = self.number()
        elif low is None:
            self.fail("{ is followed by how often: {3}, {2,}, {2,5} or {,5}")
        if not self.took("}"):
            self.fail("{ is not closed: {3}, {2,}, {2,5} or {,5}", at)
        if high == 0:
            self.fail("a part that is there 0 times", at, "Leave it out")
        if high is not None and (low or 0) > high:
            self.fail(f"{low} is more than {high}", at)
        return low or 0, high

    def number(self) -> int | None:
        kind, text, _ = self.tokens[self.next]
        if kind != "number":
            return None
        if len(text) > len(str(_LARGEST)) or int(text) > _LARGEST:
            self.fail("is more often than anything happens")
        self.next += 1
        return int(text)


def _name(text: str) -> str:
    return text.strip("`").lower()
