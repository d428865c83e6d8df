"""A place among the words of an expression, for whoever reads them one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from riverrun.flow.lexer import Lexeme, lexemes
from riverrun.flow.syntax import Call, TooDeep, Tree, UnknownSyntax

# Marks of other languages, by how they end.
_ELSEWHERE = {
    "&&": "Write and",
    "=>": "Write >=",
    "=<": "Write <=",
    "===": "Write =",
    "!==": "Write <>",
    "**": "Write power(a, b)",
    "in [": 'Write in (…): "status in (1, 2)"',
}
_DEEPEST = 50  # brackets inside brackets
_LONGEST = 150  # operators in a row: they are as deep as brackets would be
_FEW = 16  # operands of `and` that are joined from left to right
_AROUND = 30  # characters that are shown on either side of a place


class WordCursor:
    """The words of a text, and which of them is next."""

    def __init__(self, sql: str) -> None:
        self.sql = sql
        self.words = lexemes(sql)
        self.next = 0
        self.depth = 0

    @property
    def word(self) -> Lexeme:
        return self.words[self.next]

    @property
    def kind(self) -> str:
        return self.word.kind

    def fail(self, expected: str | None = None) -> NoReturn:
        """`UnknownSyntax`, with the word that is next and where it stands."""
        wanted = "something more" if expected is None else repr(expected)
        if self.kind == "end":
            raise UnknownSyntax(f"cannot read {self.sql!r}: at its end {wanted} is missing")
        written = self.sql[: self.word.end]
        foreign = next((mark for mark in _ELSEWHERE if written.endswith(mark)), None)
        start = self.word.end - len(foreign) if foreign else self.word.start
        why = f"{self.sql[start : self.word.end]!r} at character {start + 1} is not expected"
        if expected and not foreign:
            why += f", but {wanted}"
        raise UnknownSyntax(f"cannot read {self.sql!r}: {why}", hint=_ELSEWHERE[foreign] if foreign else None)

    def too_deep(self, why: str) -> NoReturn:
        """`TooDeep`, with a caret under the word that is next."""
        at = self.word.start
        left, right = max(at - _AROUND, 0), at + _AROUND
        shown = " ".join(("…" * (left > 0) + self.sql[left:right] + "…" * (right < len(self.sql))).splitlines())
        caret = " " * (at - left + (left > 0)) + "^"
        raise TooDeep(
            f"cannot read an expression: at character {at + 1} {why}. Select a part of it into a column before"
            f"\n    {shown}\n    {caret}"
        )

    def deeper(self) -> None:
        """One more bracket is open; refused where there are too many."""
        self.depth += 1
        if self.depth > _DEEPEST:
            self.too_deep(f"more than {_DEEPEST} brackets are open")

    def counted(self, operators: int) -> None:
        """So many operators stand in a row; refused where that is too many."""
        if operators > _LONGEST:
            self.too_deep(f"more than {_LONGEST} operators stand in a row")

    def at(self, *texts: str, ahead: int = 0) -> bool:
        """Whether the next word is one of these marks or words."""
        word = self.words[min(self.next + ahead, len(self.words) - 1)]
        return word.kind in ("mark", "word") and word.text in texts

    def took(self, *texts: str) -> str | None:
        """The next word, if it is one of these, which is passed."""
        if not self.at(*texts):
            return None
        self.next += 1
        return self.words[self.next - 1].text

    def expect(self, text: str) -> None:
        """Pass this word, or fail."""
        if not self.took(text):
            self.fail(text)

    def since(self, start: int) -> str:
        """The text from a word up to here."""
        return self.between(start, self.next)

    def between(self, start: int, behind: int) -> str:
        """The text from a word up to another, which is not part of it."""
        return self.sql[self.words[start].start : self.words[behind - 1].end]

    def halved(self, operator: str, operands: Sequence[tuple[int, Tree, int]]) -> Tree:
        """Operands of `and` or `or`, with where each begins and ends, joined; many of them by halves. That is as true as one
        after the other, and a thousand of them are not deep."""
        if len(operands) == 1:
            return operands[0][1]
        middle = len(operands) - 1 if len(operands) <= _FEW else len(operands) // 2
        sides = (self.halved(operator, operands[:middle]), self.halved(operator, operands[middle:]))
        return Call(operator, sides, self.between(operands[0][0], operands[-1][2]))

    def identifier(self) -> str:
        """A name as it is written: case counts for nothing, but is kept."""
        if self.kind not in ("word", "quoted"):
            self.fail()
        word = self.word
        self.next += 1
        return word.text if word.kind == "quoted" else self.sql[word.start : word.end]
