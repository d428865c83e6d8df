"""Conditions given as strings: one expression over the columns, nothing else."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import NoReturn

from riverrun.errors import Invalid

_NAMES = {'"': r'"(?:[^"]|"")*"', "`": r"`(?:[^`]|``)*`", "[": r"\[[^\]]*\]"}


@cache
def _token(name_quotes: str) -> re.Pattern[str]:
    names = "|".join(_NAMES[quote] for quote in name_quotes)
    return re.compile(
        rf"""(?P<text>'(?:[^']|'')*')|(?P<name>{names})"""
        r"""|(?P<comment>--|/\*)|(?P<word>[^\W\d]\w*)|(?P<open>\()|(?P<close>\))"""
        r"""|(?P<bad>[;'"`$\\\0])|(?P<other>\d\w*|.)""",
        re.DOTALL,
    )


_STATEMENTS = frozenset(("select", "with", "values", "insert", "update", "delete", "table"))
_OPERATORS = frozenset(
    word
    for line in (
        "all and any as between case cast collate distinct else end escape exists false from glob ilike in is",
        "isnull like not notnull null or similar some then to true when",
    )
    for word in line.split()
)
_TYPES = frozenset(("date", "timestamp"))  # of literals such as timestamp '2026-01-31 12:00:00'
_CALL = re.compile(r"\s*\(")
_PREFIXES = frozenset("xXbB")  # of literals that are still read as plain quoted strings


def quoted(name: str) -> str:
    """A name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def condition(where: str, columns: Sequence[str], name_quotes: str = '"`[') -> str:
    """The condition with the columns in quotes, so that no database takes `user` or `End` for a word of its own.

    `name_quotes` begin a quoted name in the database that is asked; to another one, what they enclose is no name.
    `Invalid` unless the string can only be one expression: brackets match, and there is no statement or comment in it.

    >>> condition("User = 'it''s; me' and upper(name) <> 'X'", ["user", "name"])
    '"user" = \\'it\\'\\'s; me\\' and upper("name") <> \\'X\\''
    """
    if not isinstance(where, str):
        raise Invalid(f"a condition is a string, not {where!r}", hint="Write one SQL condition over the view's columns")
    named = {name.lower(): name for name in columns}
    depth, before = 0, ""
    pieces: list[str] = []
    typed: int | None = None
    for token in _token(name_quotes).finditer(where):
        kind, text = token.lastgroup, token[0]
        word = text.lower()
        if kind == "word" and word in _STATEMENTS:
            _refuse(where, f"{text!r} in it; a column of that name is written in double quotes")
        if kind in ("comment", "bad"):
            _refuse(where, f"{text!r} in it")
        if kind == "text" and before and before not in _PREFIXES:
            _refuse(where, f"{before + text!r} in it; write strings in plain single quotes")
        if kind == "word" and word in named and word not in _OPERATORS and not _CALL.match(where, token.end()):
            pieces.append(quoted(named[word]))
        else:
            pieces.append(text)
        if kind == "text" and typed is not None:
            pieces[typed] = ""  # the column says it too, and not every database knows the word
        if text.strip():
            typed = len(pieces) - 1 if kind == "word" and word in _TYPES else None
        depth += (kind == "open") - (kind == "close")
        if depth < 0:
            break
        before = text if kind == "word" else ""
    if depth:
        _refuse(where, "brackets that do not match")
    if not where.strip():
        _refuse(where, "nothing in it")
    return "".join(pieces)


def _refuse(where: str, why: str) -> NoReturn:
    raise Invalid(f"not one condition: {where!r} has {why}", hint="Write one SQL condition over the view's columns")
