"""Regular expressions of Java that RE2, DuckDB's library, reads too: the part that means the same in both.

A pattern is parsed, and written anew for RE2 and for Python. What differs is refused: back references, look-around,
word boundaries, possessive quantifiers, Unicode classes, repetition of what may be empty.

The end `$` also matches before a line break at the very end, which RE2 cannot say: strings with such an end are left to
Python.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from riverrun.errors import Invalid

LINE_ENDS = "\n\r\x85\u2028\u2029"
_CLASSES = {"d": "0-9", "w": "a-zA-Z0-9_", "s": "\\t\\n\\x0B\\f\\r "}
_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}
_MOST = 100  # repetitions


class Unmatched(Invalid):
    """A pattern with something that Java and RE2 do not read in the same way."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """A pattern for RE2 and for Python; `ends` says that it has a `$`, `empty` that it may match nothing."""

    re2: str
    python: str
    groups: int
    empty: bool
    ends: bool


@dataclass(frozen=True, slots=True)
class _Piece:
    re2: str
    python: str
    empty: bool
    repeatable: bool = True


def compile_pattern(java: str) -> Pattern:
    """The pattern; `Unmatched` says what is not read in the same way."""
    reader = _Reader(java)
    piece = reader.alternatives()
    if reader.at < len(java):
        raise Unmatched(f"{java[reader.at]!r} at character {reader.at + 1}")
    return Pattern(piece.re2, piece.python, reader.groups, piece.empty, reader.ends)


class _Reader:
    def __init__(self, java: str) -> None:
        self.java = java
        self.at = 0
        self.groups = 0
        self.ends = False
        self.folds = self.took("(?i)")

    def peek(self) -> str:
        return self.java[self.at : self.at + 1]

    def took(self, text: str) -> bool:
        if not self.java.startswith(text, self.at):
            return False
        self.at += len(text)
        return True

    def next(self) -> str:
        letter = self.peek()
        if not letter:
            raise Unmatched("the pattern ends too early")
        self.at += 1
        return letter

    def alternatives(self) -> _Piece:
        branches = [self.sequence()]
        while self.took("|"):
            branches.append(self.sequence())
        if len(branches) == 1:
            return branches[0]
        return _Piece(
            f"(?:{'|'.join(branch.re2 for branch in branches)})",
            f"(?:{'|'.join(branch.python for branch in branches)})",
            any(branch.empty for branch in branches),
        )

    def sequence(self) -> _Piece:
        pieces: list[_Piece] = []
        while self.peek() not in ("", "|", ")"):
            pieces.append(self.quantified(self.atom()))
        return _joined(pieces)

    def quantified(self, piece: _Piece) -> _Piece:
        letter = self.peek()
        if letter and letter in "*+?":
            self.at += 1
            low, mark = (1 if letter == "+" else 0), letter
        elif letter == "{":
            low, mark = self.counted()
        else:
            return piece
        if not piece.repeatable or piece.empty:
            raise Unmatched("a repetition of something that may be empty")
        if self.took("+"):
            raise Unmatched("a possessive quantifier")
        if self.took("?"):
            mark += "?"
        if self.peek() and self.peek() in "*+?{":
            raise Unmatched("a repetition of a repetition")
        return _Piece(piece.re2 + mark, piece.python + mark, low == 0)

    def counted(self) -> tuple[int, str]:
        match = re.compile(r"\{(\d+)(,(\d*))?\}").match(self.java, self.at)
        if match is None:
            raise Unmatched("'{'")
        self.at = match.end()
        low, high = int(match[1]), int(match[3] or match[1])
        if high < low or high > _MOST or high == 0:
            raise Unmatched(f"the repetition {match[0]}")
        return low, match[0]

    def atom(self) -> _Piece:
        letter = self.next()
        match letter:
            case "(":
                return self.group()
            case "[":
                return self.char_class()
            case ".":
                return _Piece(f"[^{_in_class(LINE_ENDS, False)}]", f"[^{_in_class(LINE_ENDS, True)}]", empty=False)
            case "^":
                return _Piece(r"\A", r"\A", True, repeatable=False)
            case "$":
                self.ends = True
                return _Piece(r"\z", r"(?=(?:\r\n|(?<!\r)\n|[\r\x85\u2028\u2029])?\Z)", True, repeatable=False)
            case "\\":
                return self.escape()
            case _ if letter in "*+?{}])":
                raise Unmatched(f"{letter!r} at character {self.at}")
        return self.literal(letter)

    def literal(self, letter: str) -> _Piece:
        if self.folds and letter.isascii() and letter.isalpha():
            both = f"[{letter.lower()}{letter.upper()}]"
            return _Piece(both, both, False)
        return _Piece(_code(letter, False), _code(letter, True), False)

    def group(self) -> _Piece:
        if self.took("?:"):
            opening = "(?:"
        elif self.peek() == "?":
            raise Unmatched("a group with '?'")
        else:
            self.groups += 1
            opening = "("
        inner = self.alternatives()
        if not self.took(")"):
            raise Unmatched("a group that is not closed")
        return _Piece(f"{opening}{inner.re2})", f"{opening}{inner.python})", inner.empty)

    def escape(self) -> _Piece:
        letter = self.next()
        if letter.lower() in _CLASSES:
            inside = _CLASSES[letter.lower()]
            made = f"[{'^' if letter.isupper() else ''}{inside}]"
            return _Piece(made, made, False)
        if letter == "A":
            return _Piece(r"\A", r"\A", True, repeatable=False)
        if letter == "z":
            return _Piece(r"\z", r"\Z", True, repeatable=False)
        return self.literal(self.escaped(letter))

    def escaped(self, letter: str) -> str:
        """The character that an escape stands for."""
        if letter in _CONTROLS:
            return _CONTROLS[letter]
        if letter in "xu":
            digits = self.java[self.at : self.at + (2 if letter == "x" else 4)]
            if not re.fullmatch(r"[0-9a-fA-F]{2}(?:[0-9a-fA-F]{2})?", digits) or len(digits) != (
                2 if letter == "x" else 4
            ):
                raise Unmatched(f"\\{letter}")
            self.at += len(digits)
            if 0xD800 <= int(digits, 16) <= 0xDFFF:
                raise Unmatched("half a character")
            return chr(int(digits, 16))
        if letter.isascii() and letter.isalnum():
            raise Unmatched(f"\\{letter}")
        return letter

    def char_class(self) -> _Piece:
        negative = self.took("^")
        parts: list[tuple[str, str]] = []
        while not self.took("]"):
            letter = self.next()
            intersects = letter == "&" and self.peek() == "&"
            if letter in "[^" or intersects or (letter == "-" and parts and self.peek() != "]"):
                raise Unmatched(f"{letter!r} inside of brackets")
            if letter == "\\":
                letter = self.next()
                if letter.lower() in _CLASSES:
                    if letter.isupper():
                        raise Unmatched(f"\\{letter} inside of brackets")
                    parts.append((_CLASSES[letter],) * 2)
                    continue
                letter = self.escaped(letter)
            parts.append(self.range_from(letter))
        if not parts:
            raise Unmatched("empty brackets")
        sign = "^" if negative else ""
        re2, python = ("".join(dialect) for dialect in zip(*parts, strict=True))
        return _Piece(f"[{sign}{re2}]", f"[{sign}{python}]", empty=False)

    def range_from(self, first: str) -> tuple[str, str]:
        if self.peek() != "-" or self.java[self.at + 1 : self.at + 2] in ("]", ""):
            return self.folded(first, first)
        self.at += 1
        last = self.next()
        if last in "[&^":
            raise Unmatched(f"{last!r} inside of brackets")
        if last == "\\":
            last = self.next()
            if last.lower() in _CLASSES:
                raise Unmatched("a range to a class")
            last = self.escaped(last)
        if last < first:
            raise Unmatched(f"the range {first}-{last}")
        return self.folded(first, last)

    def folded(self, first: str, last: str) -> tuple[str, str]:
        ranges = [(first, last)]
        if self.folds:
            if not (first == last or (first.isalpha() == last.isalpha() and first.islower() == last.islower())):
                raise Unmatched("a range of letters and other characters without regard to case")
            ranges += [(a.swapcase(), b.swapcase()) for a, b in ranges if a.isascii() and a.isalpha() and b.isascii()]
        made = []
        for python in (False, True):
            ends = [(_code(a, python), _code(b, python)) for a, b in ranges]
            made.append("".join(a if a == b else f"{a}-{b}" for a, b in ends))
        return made[0], made[1]


def _joined(pieces: Sequence[_Piece]) -> _Piece:
    return _Piece(
        "".join(piece.re2 for piece in pieces),
        "".join(piece.python for piece in pieces),
        all(piece.empty for piece in pieces),
        repeatable=False,
    )


def _code(letter: str, python: bool) -> str:
    """One character as a pattern."""
    if letter.isascii() and letter.isalnum():
        return letter
    code = ord(letter)
    if not python:
        return f"\\x{{{code:X}}}"
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" if code < 65536 else f"\\U{code:08x}"


def _in_class(letters: str, python: bool) -> str:
    return "".join(_code(letter, python) for letter in letters)


def replacement(java: str, groups: int) -> tuple[str, str]:
    """A replacement for RE2 and for Python: Java's $1 is a group, and a backslash takes the next character as it is."""
    re2, python, at = [], [], 0
    while at < len(java):
        letter = java[at]
        at += 1
        if letter == "\\":
            if at == len(java):
                raise Unmatched("a backslash at the end of the replacement")
            letter, at = java[at], at + 1
        elif letter == "$":
            number, at = _group(java, at, groups)
            re2.append(f"\\{number}")
            python.append(f"\\g<{number}>")
            continue
        re2.append("\\\\" if letter == "\\" else letter)
        python.append("\\\\" if letter == "\\" else letter)
    return "".join(re2), "".join(python)


def _group(java: str, at: int, groups: int) -> tuple[int, int]:
    """The number after a $: as many digits as there is a group for."""
    if not (java[at : at + 1].isascii() and java[at : at + 1].isdigit()) or int(java[at]) > groups:
        raise Unmatched("a group that is not there")
    number, at = int(java[at]), at + 1
    while java[at : at + 1].isdigit() and number * 10 + int(java[at]) <= groups:
        number, at = number * 10 + int(java[at]), at + 1
    if number > 9:
        raise Unmatched("more than nine groups")
    return number, at
