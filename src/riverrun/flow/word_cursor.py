"""A place among the words of an expression, for whoever reads them one after the other."""

from __future__ import annotations

from typing import NoReturn

from riverrun.flow.lexer import Lexeme, lexemes
from riverrun.flow.syntax import UnknownSyntax


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

    def fail(self) -> NoReturn:
        """`UnknownSyntax`, with the word that is next."""
        what = "the end" if self.kind == "end" else repr(self.sql[self.word.start : self.word.end])
        raise UnknownSyntax(f"cannot read {self.sql!r} at {what}")

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
            self.fail()

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
