"""The text of Spark SQL: where its strings and comments are, and where it names columns.

Expressions go to Spark as they were written; only columns are replaced, in their places. The parser is asked where these
are, not how it would write the expression: what it writes may mean something else.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import SqlglotError

from riverrun.errors import Invalid


class SparkText(Spark):  # type: ignore[misc]
    """Spark's dialect as Spark 4 reads it: a quote that is doubled stands for itself."""

    class Tokenizer(Spark.Tokenizer):  # type: ignore[misc]
        STRING_ESCAPES = ["\\", "'", '"']  # noqa: RUF012 (so the parser declares it)


DIALECT = SparkText

_PIECE = re.compile(
    r"""
      (?P<quoted> (?<!\w)[rR](?:'[^']*'|"[^"]*") | '(?:[^'\\]|\\.|'')*' | "(?:[^"\\]|\\.|"")*" | `(?:[^`]|``)*` )
    | (?P<line> --(?:\\\n|[^\r\n])* )
    | (?P<block> /\* )
    | (?P<end> ; )
    | (?P<open> ['"`] )
    """,
    re.VERBOSE | re.DOTALL,
)
_BLOCK = re.compile(r"/\*|\*/")
_SELECT = "SELECT "
# Calls whose first argument is a unit of time where it is one word.
_BY_UNIT = ("timestampadd", "timestampdiff", "dateadd", "datediff", "date_add", "date_diff")
_UNITS = "year quarter month week day dayofyear hour minute second millisecond microsecond"
_VALUES = ("null", "true", "false")


@dataclass(frozen=True, slots=True)
class Reference:
    """A column in a text: `text[start:end]` names it. A `field` of a struct is called as the text calls the column."""

    start: int
    end: int
    column: str
    field: bool = False


def cleaned(sql: str) -> str:
    """The text without its comments; `Invalid` where a quote or a comment is not closed, or a statement ends."""
    kept, at = [], 0
    while found := _PIECE.search(sql, at):
        kept.append(sql[at : found.start()])
        at = found.end()
        match found.lastgroup:
            case "quoted":
                kept.append(found[0])
            case "line":
                kept.append(" ")
            case "block":
                at = _closed(sql, found.start())
                kept.append(" ")
            case "end":
                raise Invalid(
                    f"{sql!r} is not one expression", hint="Write one Spark SQL expression, without a semicolon"
                )
            case _:
                raise Invalid(f"cannot read {sql!r}: {found[0]} is not closed")
    return "".join([*kept, sql[at:]]).strip()


def _closed(sql: str, start: int) -> int:
    """Where a comment ends. Comments may have comments inside."""
    depth = 0
    for mark in _BLOCK.finditer(sql, start):
        depth += 1 if mark[0] == "/*" else -1
        if depth == 0:
            return mark.end()
    raise Invalid(f"cannot read {sql!r}: a comment is not closed")


def tokens(sql: str) -> list[Any]:
    """The tokens of a text without comments; each has its first and its last character, `start` and `end`."""
    try:
        found = list(sqlglot.tokenize(sql, read=DIALECT))
    except SqlglotError as error:
        raise Invalid(f"cannot read {sql!r}: {str(error).splitlines()[0]}") from None
    # A literal such as 1L comes as three tokens in one place.
    apart = [t for t, before in zip(found, [None, *found], strict=False) if not before or t.start > before.start]
    quotes = {piece.end() - 1 for piece in _PIECE.finditer(sql) if piece.lastgroup == "quoted"}
    if quotes != {token.end for token in apart if sql[token.end] in "'\"`"}:
        raise Invalid(f"cannot read {sql!r}: it is not certain where its strings end")
    return apart


def parsed(sql: str) -> exp.Expression:
    """A select of the text."""
    # The parser writes warnings about text it does not understand to a log; here that is an error with a place.
    log = logging.getLogger("sqlglot")
    silent, log.disabled = log.disabled, True
    try:
        tree = sqlglot.parse_one(f"{_SELECT}{sql}\n", dialect=DIALECT)
    except SqlglotError as error:
        why = str(error).splitlines()[0].split(". Line")[0]
        raise Invalid(f"cannot read {sql!r}: {why}") from None
    except RecursionError:
        raise Invalid(
            f"cannot read {sql[:50]!r} …: it is nested too deep", hint="Select a part of it into a column before"
        ) from None
    except (IndexError, AttributeError, TypeError):
        raise Invalid(f"cannot read {sql!r}") from None  # half-written calls trip the parser itself
    finally:
        log.disabled = silent
    _bind(tree)
    return tree


def _bind(tree: exp.Expression) -> None:
    """Variables of lambdas have no case in Spark; the parser takes those in another case for columns."""
    for inner in tree.find_all(exp.Lambda):
        variables = {variable.name.lower() for variable in inner.expressions}
        for part in list(inner.this.find_all(exp.Column)):
            first, *fields = part.parts
            if first.name.lower() in variables:
                part.replace(exp.Dot.build([first.copy(), *(field.copy() for field in fields)]) if fields else first)


def references(tree: exp.Expression, sql: str, words: Sequence[Any], columns: Collection[str]) -> Iterator[Reference]:
    """Where the text names columns, in order; `columns` are those there are, in lower case.

    `tree` is what `parsed` made of the text, `words` its tokens.
    """
    named = {part.meta["start"] - len(_SELECT) for part in tree.find_all(exp.Identifier) if "start" in part.meta}
    roots = {}
    for column in tree.find_all(exp.Column):
        root = column.parts[0]
        if "start" not in root.meta:
            raise Invalid(f"cannot read {sql!r}: it is not certain where it names {root.name!r}")
        roots[root.meta["start"] - len(_SELECT)] = root.name
    bound = {variable.name.lower() for part in tree.find_all(exp.Lambda) for variable in part.expressions}
    calls: list[str] = []  # of the brackets that are open here, what stands before them
    texts = ["", "", *(sql[word.start : word.end + 1] for word in words), ""]
    for word, (call, before, text, after) in zip(words, _around(texts), strict=True):
        if text in ("(", "["):
            calls.append(before.lower())
        elif text in (")", "]") and calls:
            calls.pop()
        name = _unquoted(text)
        whole = before in ("(", ",") and after in (",", ")")
        if word.start not in named and whole and name.lower() in columns and text[0] not in "'\"":
            is_unit = before == "(" and call.lower() in _BY_UNIT and name.lower() in _UNITS.split()
            if not is_unit and text.lower() not in _VALUES and name.lower() not in bound:
                roots[word.start] = name  # the parser took it for a word, as in date_trunc(unit, at)
        if word.start in roots:
            if roots[word.start] != name:
                raise Invalid(f"cannot read {sql!r}: it is not certain where it names {roots[word.start]!r}")
            yield Reference(word.start, word.end + 1, name, whole and calls[-1:] == ["struct"])


def _around(texts: Sequence[str]) -> Iterator[tuple[str, str, str, str]]:
    return zip(texts, texts[1:], texts[2:], texts[3:], strict=False)


def _unquoted(text: str) -> str:
    return text[1:-1].replace("``", "`") if text[:1] == "`" else text


def calls(sql: str, words: Sequence[Any]) -> list[str]:
    """The names of the functions that are called, in lower case."""
    return [word.text.lower() for word, after in pairwise(words) if after.text == "(" and sql[word.start] not in "`'\""]


def normal(word: Any, sql: str) -> str:
    """A token as it is compared: case counts in what is quoted."""
    text = sql[word.start : word.end + 1]
    return text if text[-1] in "'\"`" else text.lower()
