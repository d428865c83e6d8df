"""The words of Spark SQL, as Spark's own lexer divides a text."""

from __future__ import annotations

import re
from dataclasses import dataclass

from riverrun.flow.syntax import UnknownSyntax

_TOKEN = re.compile(
    r"""
      (?P<string> [rR]'[^']*' | [rR]"[^"]*" | '(?:[^'\\]|\\.|'')*' | "(?:[^"\\]|\\.|"")*" )
    | (?P<quoted> `(?:[^`]|``)+` )
    | (?P<number> (?: \d+[LSYlsy] | (?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?(?:[bB][dD]|[fFdD])? ) (?!\w) )
    | (?P<word> \w+ )
    | (?P<mark> <=> | >>> | \|\| | :: | -> | <> | != | == | <= | >= | !> | !< | << | >> | [-+*/%&|^~=<>!(),.:\[\]] )
    """,
    re.VERBOSE | re.DOTALL,
)
_NESTED = ("array", "map", "struct")
_SAME = {"==": "=", "!=": "<>", "!>": "<=", "!<": ">="}
_ESCAPES = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([01][0-7]{2})|(.))", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Lexeme:
    """One word: `kind` is string, quoted, number, word, mark or end; `text` is in lower case unless it is quoted."""

    kind: str
    text: str
    start: int
    end: int


def lexemes(sql: str) -> list[Lexeme]:
    """The words of a text without comments, and an end."""
    words, at = [], 0
    types = 0  # words that a type begins with, and that no > has closed yet
    while at < len(sql):
        if sql[at] in " \t\r\n":
            at += 1
            continue
        match = _TOKEN.match(sql, at)
        if match is None:
            hint = 'Write "case when … then … else … end"' if sql[at] == "?" else None
            raise UnknownSyntax(f"cannot read {sql!r}: {sql[at]!r} at character {at + 1} is not expected", hint=hint)
        kind, text = str(match.lastgroup), match[0]
        if types and text in (">>", ">>>"):
            text = ">"  # Spark's lexer takes it for the end of array<array<int>>, even where it is none
        types = types + 1 if text.lower() in _NESTED else max(types - 1, 0) if text == ">" else types
        if kind in ("number", "word"):
            text = text.lower()
        elif kind == "mark":
            text = _SAME.get(text, text)
        elif kind == "quoted":
            text = text[1:-1].replace("``", "`")
        end = at + 1 if text == ">" else match.end()
        words.append(Lexeme(kind, text, at, end))
        at = end
    return [*words, Lexeme("end", "", at, at)]


def unescaped(literal: str) -> str:
    """The string that a literal, in its quotes, stands for."""
    if literal[0] in "rR":
        return literal[2:-1]
    quote, inner = literal[0], literal[1:-1]
    if "\\" not in inner:
        return inner.replace(quote * 2, quote)
    whole, at = [], 0
    for match in _ESCAPE.finditer(inner):
        whole += [inner[at : match.start()].replace(quote * 2, quote), _escaped(match)]
        at = match.end()
    made = "".join([*whole, inner[at:].replace(quote * 2, quote)])
    try:  # two escapes may be the halves of one character
        return made.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        raise UnknownSyntax(f"{literal} has half a character") from None


def _escaped(match: re.Match[str]) -> str:
    short, long, octal, plain = match.groups()
    if plain is not None:
        return _ESCAPES.get(plain, plain)
    code = int(octal, 8) if octal else int(short or long, 16)
    if code > 0x10FFFF:
        raise UnknownSyntax(f"{match[0]} is no character")
    return chr(code)
