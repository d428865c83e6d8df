"""A place among the words of an expression, for whoever reads them one after the other."""

from __future__ import annotations

from typing import NoReturn

from riverrun.flow.lexer import Lexeme, lexemes
from riverrun.flow.syntax import UnknownSyntax

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


class WordCursor:
    """The words of a text, and which of them is next."""

    def __init__(self, sql: str) -> None:
        self.sql = sql
        self.words = lexemes(sql)
        self.next = 0

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
        return self.sql[self.words[start].start : self.words[self.next - 1].end]

    def identifier(self) -> str:
        """A name as it is written: case counts for nothing, but is kept."""
        if self.kind not in ("word", "quoted"):
            self.fail()
        word = self.word
        self.next += 1
        return word.text if word.kind == "quoted" else self.sql[word.start : word.end]
