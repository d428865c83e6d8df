"""Expressions that may fail on a row, made so that they are null there."""

from __future__ import annotations

import re

from riverrun.expressions.translation import Translated

NOTHING = "nothing"
"""A macro of every connection: null, whatever the message."""

_QUOTED = re.compile(r"""('(?:[^']|'')*'|"(?:[^"]|"")*")""")
_RAISES = re.compile(r"\berror\(")


def null_where_it_fails(translated: Translated) -> str:
    """The SQL of an expression for which the same row is no reason to stop.

    `TRY` alone does not do: what raises an error of its own is none of the functions that it may be used with.
    """
    if not translated.may_fail:
        return translated.sql
    parts = _QUOTED.split(translated.sql)
    parts[::2] = [_RAISES.sub(f"{NOTHING}(", part) for part in parts[::2]]
    return f"TRY({''.join(parts)})"
