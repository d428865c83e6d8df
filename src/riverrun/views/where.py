"""Conditions given as text: one expression, nothing else."""

from __future__ import annotations

import re

from riverrun.errors import Invalid

_TOKEN = re.compile(
    r"""(?P<text>'(?:[^']|'')*')|(?P<name>"(?:[^"]|"")*"|`(?:[^`]|``)*`|\[[^\]]*\])"""
    r"""|(?P<comment>--|/\*)|(?P<word>[^\W\d]\w*)|(?P<open>\()|(?P<close>\))|(?P<bad>[;'"`$\\\0])|(?P<other>.)""",
    re.DOTALL,
)
_STATEMENTS = {"select", "with", "values", "insert", "update", "delete", "table"}
_PREFIXES = {"x", "b"}  # of literals that are still read as plain quoted text


def check_condition(where: str) -> None:
    """`Invalid` unless the text can only be one expression: brackets match, no statement, comment or second one.

    >>> check_condition("amount > 10 and user = 'it''s; me'")
    """
    depth = 0
    last = ""
    for token in _TOKEN.finditer(where):
        kind, text = token.lastgroup, token[0]
        if kind == "word" and text.lower() in _STATEMENTS:
            _refuse(where, f"{text!r} in it; a column of that name is written in double quotes")
        if kind in ("comment", "bad"):
            _refuse(where, f"{text!r} in it")
        if kind == "text" and last and last.lower() not in _PREFIXES:
            _refuse(where, f"{last + text!r} in it; write text in plain single quotes")
        depth += (kind == "open") - (kind == "close")
        if depth < 0:
            break
        last = text if kind == "word" else ""
    if depth:
        _refuse(where, "brackets that do not match")
    if not where.strip():
        _refuse(where, "nothing in it")


def _refuse(where: str, why: str) -> None:
    raise Invalid(f"not one condition: {where!r} has {why}", hint="Write one SQL condition over the view's columns")
