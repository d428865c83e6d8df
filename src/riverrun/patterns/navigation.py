"""Which rows of a match a text of SQL speaks of: `a.price`, `prev(price)`, `first(a.price)`, `count(a.*)`, …

Each such part is replaced by a name of its own, so that what is left is an expression over plain columns.

>>> rewritten = rewrite("price > 2 * avg(down.price) and price < prev(price)", {"down", "up"})
>>> rewritten.sql
'price > 2 * _r0 and price < _r1'
>>> rewritten.parts["_r0"], rewritten.parts["_r1"].row
(TotalOf(function='avg', variable='down', sql='price'), RowOf(base='current', variable=None, n=0, back=1))
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, NoReturn

from riverrun.errors import Invalid, did_you_mean
from riverrun.flow.lexer import Lexeme, lexemes
from riverrun.flow.parser import parse
from riverrun.flow.syntax import Name, UnknownSyntax, walk
from riverrun.flow.text import cleaned

TOTALS = ("count", "sum", "avg", "min", "max")
_MOVES = ("prev", "first", "last", "next")
LARGEST = 10_000
"""Rows that a value may be away. As many rows of every key are kept."""


@dataclass(frozen=True)
class RowOf:
    """One row, seen from where matching is: the current one, or the n-th from the end or the beginning of the rows of a
    variable (None: of all rows of the match); and from there `back` rows back in the sequence."""

    base: Literal["current", "last", "first"] = "current"
    variable: str | None = None
    n: int = 0
    back: int = 0


CURRENT = RowOf()


@dataclass(frozen=True)
class ValueOf:
    """An expression over one row."""

    row: RowOf
    sql: str


@dataclass(frozen=True)
class TotalOf:
    """An aggregate of an expression over the rows of a variable (None: of all rows); without one the rows are counted."""

    function: str
    variable: str | None
    sql: str | None


@dataclass(frozen=True)
class NavigatedText:
    """A text with names for its parts that are about other rows."""

    sql: str
    parts: Mapping[str, ValueOf | TotalOf] = field(default_factory=dict)


def rewrite(sql: str, variables: Collection[str]) -> NavigatedText:
    """The text with its parts apart; `variables` are those of the pattern, in lower case."""
    if not isinstance(sql, str):
        raise Invalid(f"an expression is a string of Spark SQL, not {sql!r}")
    text = cleaned(sql)
    try:
        words = lexemes(text)
    except UnknownSyntax:
        return NavigatedText(text)  # Spark may know it; it speaks of the current row
    return _Rewriting(text, words, variables).whole()


class _Rewriting:
    def __init__(self, sql: str, words: list[Lexeme], variables: Collection[str]) -> None:
        self.sql = sql
        self.words = words
        self.variables = variables
        self.parts: dict[ValueOf | TotalOf, str] = {}

    def refuse(self, why: str, hint: str | None = None) -> NoReturn:
        raise Invalid(f"{self.sql!r}: {why}", hint=hint)

    def whole(self) -> NavigatedText:
        pieces, at, place = [], 0, 0
        while place < len(self.words) - 1:
            found = self.part(place)
            if found is None:
                place += 1
                continue
            part, behind = found
            name = self.parts.setdefault(part, f"_r{len(self.parts)}")
            pieces += [self.sql[at : self.words[place].start], name]
            at, place = self.words[behind - 1].end, behind
        return NavigatedText("".join([*pieces, self.sql[at:]]), {name: part for part, name in self.parts.items()})

    def is_mark(self, place: int, text: str) -> bool:
        return self.words[place].kind == "mark" and self.words[place].text == text

    def part(self, place: int) -> tuple[ValueOf | TotalOf, int] | None:
        """What begins with this word, if it is about other rows, and the word after it."""
        word = self.words[place]
        if word.kind == "word" and self.is_mark(place + 1, "(") and not (place and self.is_mark(place - 1, ".")):
            if word.text in _MOVES:
                return self.move(place)
            if word.text in TOTALS:
                return self.total(place)
        if self.is_variable(place):
            behind = place + 3
            while self.is_mark(behind, ".") and self.words[behind + 1].kind in ("word", "quoted"):
                behind += 2
            if self.is_mark(place + 2, "*"):
                self.refuse(f"{word.text}.* has no value", f"Write count({word.text}.*)")
            inner = self.sql[self.words[place + 2].start : self.words[behind - 1].end]
            return ValueOf(RowOf("last", word.text.lower()), inner), behind
        return None

    def is_variable(self, place: int) -> bool:
        word = self.words[place]
        known = word.kind in ("word", "quoted") and word.text.lower() in self.variables
        return known and self.is_mark(place + 1, ".") and not (place and self.is_mark(place - 1, "."))

    def arguments(self, place: int) -> tuple[list[tuple[int, int]], int]:
        """The words of each argument of a call, and the word after its bracket."""
        found, start, depth, at = [], place + 2, 0, place + 2
        while True:
            word = self.words[at]
            if word.kind == "end":
                self.refuse(f"the bracket after {self.words[place].text} is not closed")
            if word.kind == "mark" and depth == 0 and word.text in (",", ")"):
                found.append((start, at))
                start = at + 1
                if word.text == ")":
                    break
            elif word.kind == "mark":
                depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(word.text, 0)
            at += 1
        if any(start == end for start, end in found):
            self.refuse(f"{self.words[place].text} needs an argument")
        return found, at + 1

    def move(self, place: int) -> tuple[ValueOf, int]:
        name = self.words[place].text
        if name == "next":
            self.refuse(
                "next is not known: a stream has no next row yet", "Turn it round: let the next row ask for prev"
            )
        given, behind = self.arguments(place)
        if len(given) > 2:
            self.refuse(f"{name} takes a value and a number")
        n = self.number(name, given[1]) if len(given) == 2 else int(name == "prev")
        start, end = given[0]
        inside = self.words[start]
        if name == "prev" and inside.text in ("first", "last") and self.is_mark(start + 1, "("):
            value, last = self.move(start)
            if last == end:
                return replace(value, row=replace(value.row, back=n)), behind
        variable, sql = self.inner(start, end)
        if name == "prev":
            row = RowOf("last", variable, back=n) if variable is not None else RowOf(back=n)
        else:
            row = RowOf("first" if name == "first" else "last", variable, n)
        return ValueOf(row, sql), behind

    def number(self, name: str, words: tuple[int, int]) -> int:
        start, end = words
        if end - start != 1 or not self.words[start].text.isdecimal():
            self.refuse(f"{name} takes a number as its second argument, written out: {name}(x, 2)")
        text = self.words[start].text
        if len(text) > len(str(LARGEST)) or int(text) > LARGEST:
            self.refuse(f"{name} goes {text[:20]} rows, more than {LARGEST}", f"Write {name}(x, 2)")
        return int(text)

    def total(self, place: int) -> tuple[TotalOf, int]:
        name = self.words[place].text
        given, behind = self.arguments(place)
        start, end = given[0]
        if len(given) > 1 or self.words[start].text == "distinct":
            self.refuse(f"{name} over rows of a match takes one value")
        if end - start == 1 and self.is_mark(start, "*"):
            variable: str | None = None
        elif end - start == 3 and self.is_variable(start) and self.is_mark(start + 2, "*"):
            variable = self.words[start].text.lower()
        elif end - start == 3 and self.is_mark(start + 2, "*"):
            hint = did_you_mean(self.words[start].text, sorted(self.variables))
            self.refuse(f"the pattern has no variable {self.words[start].text}", hint)
        else:
            variable, sql = self.inner(start, end)
            return TotalOf(name, variable, sql), behind
        if name != "count":
            self.refuse(f"{name}(*) has no value", "Only rows can be counted: count(*)")
        return TotalOf("count", variable, None), behind

    def inner(self, start: int, end: int) -> tuple[str | None, str]:
        """The variable that an argument is about, and the argument over its columns."""
        variables, pieces, at = set(), [], self.words[start].start
        for place in range(start, end):
            word = self.words[place]
            if word.kind == "word" and word.text in (*_MOVES, *TOTALS) and self.is_mark(place + 1, "("):
                self.refuse(f"{word.text} inside another one", "prev(last(a.x), 2) is the only way to nest them")
            if self.is_variable(place):
                variables.add(word.text.lower())
                pieces.append(self.sql[at : word.start])
                at = self.words[place + 2].start
        text = self.sql[self.words[start].start : self.words[end - 1].end]
        if len(variables) > 1:
            self.refuse(f"{text} is about rows of several variables: {', '.join(sorted(variables))}")
        if variables:
            self.refuse_mixed(text, next(iter(variables)))
        return next(iter(variables), None), "".join([*pieces, self.sql[at : self.words[end - 1].end]])

    def refuse_mixed(self, text: str, variable: str) -> None:
        try:
            named = [part for part in walk(parse(text)) if isinstance(part, Name)]
        except UnknownSyntax:
            return
        plain = [part.text for part in named if part.parts[0].lower() != variable]
        if plain:
            self.refuse(f"{text} is about {variable} and about {plain[0]}", f"Write {variable}.{plain[0]}")
