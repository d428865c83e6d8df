"""Temporary: replaced by the package of verified expressions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import duckdb
import sqlglot

from riverrun.ddl import Type
from riverrun.errors import Invalid
from riverrun.flow.inference import infer
from riverrun.flow.text import DIALECT


class Unverified(Invalid):
    pass


@dataclass(frozen=True)
class Translated:
    sql: str
    type: Type
    may_fail: bool


def translate(sql: str, column: Any) -> Translated:
    from riverrun.testing.translation import translated

    try:
        out = translated(sql, column)
    except Invalid as e:
        raise Unverified(e.message, hint=e.hint) from None
    t = infer(sqlglot.parse_one(sql, dialect=DIALECT), column, {})
    if t is None:
        raise Unverified(f"the type of {sql} is not known")
    return Translated(out, t, True)


def connect() -> duckdb.DuckDBPyConnection:
    db = duckdb.connect(":memory:", config={"threads": 1})
    db.execute("SET TimeZone = 'UTC'")
    return db
