"""Statements in the binary log: what they do to tables without saying it row by row. Pure.

Under binlog_format=ROW changes of rows are events of their own; DDL and TRUNCATE are texts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

_COMMENT = re.compile(r"/\*(?![!M]).*?\*/|(?:--\s|#)[^\n]*(?:\n|$)", re.DOTALL)
_EXECUTED = re.compile(r"/\*M?!\d*(.*?)\*/", re.DOTALL)
_TOKEN = re.compile(r"`((?:[^`]|``)*)`|\"((?:[^\"]|\"\")*)\"|('(?:[^'\\]|\\.|'')*')|([\w$@]+)|(\S)", re.DOTALL)
_SETTING = re.compile(r"\s*set\s+statement\b.*?\bfor\s+", re.IGNORECASE | re.DOTALL)
_DML = ("insert", "update", "delete", "replace", "load", "with", "call", "do")
_PARTITIONED = ("truncate", "drop", "exchange", "convert")

Happening = Literal["truncated", "dropped", "renamed", "partitions", "statement"]


@dataclass(frozen=True)
class StatementEffect:
    """What happened to a table; `table` None: to every table of the database, or to any."""

    what: Happening
    database: str
    table: str | None
    more: str = ""


@dataclass(frozen=True)
class _Token:
    text: str
    is_name: bool  # quoted, or a word

    def says(self, *words: str) -> bool:
        return self.text.lower() in words


def effects(text: str, database: str) -> list[StatementEffect]:
    """What a statement does to tables that its rows do not say. `database` is the one it was said in.

    >>> [(e.what, e.database, e.table) for e in effects("truncate /* all */ table `a b`.orders", "shop")]
    [('truncated', 'a b', 'orders')]
    """
    plain = _SETTING.sub("", _COMMENT.sub(" ", _EXECUTED.sub(r" \1 ", text)), count=1)
    tokens = [_token(found) for found in _TOKEN.finditer(plain)]
    return list(_effects(tokens, database)) if tokens else []


def _token(found: re.Match[str]) -> _Token:
    if found[1] is not None:
        return _Token(found[1].replace("``", "`"), True)
    if found[2] is not None:
        return _Token(found[2].replace('""', '"'), True)
    return _Token(found[0], found[4] is not None)


def _effects(tokens: list[_Token], database: str) -> Iterator[StatementEffect]:
    first = tokens[0]
    if first.says("delete") and len(tokens) in (3, 5) and tokens[1].says("from"):
        # How a server that starts tells that its tables in memory are empty.
        for schema, table, _ in _names(tokens, 2, database):
            yield StatementEffect("truncated", schema, table)
    elif first.says(*_DML):
        named = {token.text for token in tokens if token.is_name}
        for one in sorted({database, *named}):
            yield StatementEffect("statement", one, None)
    elif first.says("truncate"):
        for schema, table, _ in _names(tokens, 1, database):
            yield StatementEffect("truncated", schema, table)
    elif first.says("drop") and _kind(tokens) in ("database", "schema"):
        yield StatementEffect("dropped", _after(tokens, _kind(tokens), database), None)
    elif first.says("drop") and _kind(tokens) in ("table", "tables"):
        if not any(token.says("temporary") for token in tokens[:3]):
            for schema, table, _ in _names(tokens, 1, database):
                yield StatementEffect("dropped", schema, table)
    elif first.says("create") and any(token.says("replace") for token in tokens[:3]) and _kind(tokens) == "table":
        if not any(token.says("temporary") for token in tokens[:5]):
            for schema, table, _ in list(_names(tokens, 1, database))[:1]:
                yield StatementEffect("dropped", schema, table)
    elif first.says("rename"):
        yield from _renames(tokens, database)
    elif first.says("alter"):
        yield from _alters(tokens, database)


def _kind(tokens: list[_Token]) -> str:
    skipped = ("or", "replace", "temporary", "online", "ignore")
    return next((token.text.lower() for token in tokens[1:] if not token.says(*skipped)), "")


_WORDS = ("or", "replace", "temporary", "online", "ignore", "table", "tables", "if", "not", "exists", "wait", "nowait")


def _names(tokens: list[_Token], at: int, database: str) -> Iterator[tuple[str, str, int]]:
    """The tables of a list, and where each ends."""
    while at < len(tokens) and tokens[at].is_name and tokens[at].says(*_WORDS):
        at += 1
    while at < len(tokens) and tokens[at].is_name:
        schema, table = database, tokens[at].text
        at += 1
        if at + 1 < len(tokens) and tokens[at].text == ".":
            schema, table = table, tokens[at + 1].text
            at += 2
        yield schema, table, at
        if at >= len(tokens) or tokens[at].text != ",":
            return
        at += 1


def _after(tokens: list[_Token], word: str, database: str) -> str:
    at = next(i for i, token in enumerate(tokens) if token.says(word)) + 1
    while at < len(tokens) and tokens[at].says("if", "exists"):
        at += 1
    return tokens[at].text if at < len(tokens) else database


def _renames(tokens: list[_Token], database: str) -> Iterator[StatementEffect]:
    at = 1
    while at < len(tokens):
        found = next(_names(tokens, at, database), None)
        if found is None:
            return
        schema, table, at = found
        while at < len(tokens) and not tokens[at].says("to"):
            at += 1
        to = next(_names(tokens, at + 1, database), None)
        if to is None:
            return
        yield StatementEffect("renamed", schema, table, f"{to[0]}.{to[1]}")
        yield StatementEffect("renamed", to[0], to[1], f"another table, which was {schema}.{table}")
        at = to[2] + 1


def _alters(tokens: list[_Token], database: str) -> Iterator[StatementEffect]:
    if _kind(tokens) != "table":
        return
    found = next(_names(tokens, 1, database), None)
    if found is None:
        return
    schema, table, at = found
    for place in range(at, len(tokens)):
        token = tokens[place]
        following = tokens[place + 1] if place + 1 < len(tokens) else None
        if following is None:
            return
        if token.says("rename") and not following.says("column", "index", "key"):
            start = place + 2 if following.says("to", "as", "=") else place + 1
            to = next(_names(tokens, start, database), None)
            if to is not None:
                yield StatementEffect("renamed", schema, table, f"{to[0]}.{to[1]}")
        elif token.says(*_PARTITIONED) and following.says("partition"):
            yield StatementEffect("partitions", schema, table, f"{token.text.lower()} partition")
