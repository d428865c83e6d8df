"""What `s.percolate` is told: the columns that are searched, and the condition between a row and a query."""

from __future__ import annotations

import re
from collections.abc import Sequence

from riverrun.ddl import Column, Struct, quoted
from riverrun.errors import Invalid
from riverrun.flow import names
from riverrun.flow.expressions import condition
from riverrun.flow.names import Names
from riverrun.flow.operators.join import Output
from riverrun.flow.operators.node import Node
from riverrun.flow.schema import STRING, Schema

ROW, QUERY = "row", "query"
_FIELD = re.compile(r"\s*\.\s*(?:`((?:[^`]|``)+)`|(\w+))")


def searched(text: Names, schema: Schema) -> tuple[str, ...]:
    """The columns that words are looked for in."""
    found = names.some("text", text, schema)
    for name in found:
        if schema[name] != STRING:
            raise Invalid(f"text: {name!r} is {schema[name]}, and words are looked for in strings")
    return found


def stored_query(query: str, queries: Node) -> str:
    """The column of a table that has the queries."""
    (found,) = names.some("query", [query], queries.schema)
    if queries.schema[found] != STRING:
        raise Invalid(f"query: {found!r} is {queries.schema[found]}, and a query is a string")
    if queries.hidden_key:
        raise Invalid(
            "percolate needs a table whose key is columns of it", hint="Write the table to a topic, and read that"
        )
    return found


def pair_condition(where: str, row: Schema, query: Schema, outputs: Sequence[Output]) -> str:
    """A condition over `row.…` and `query.…`, in terms of the result's columns."""
    sides = {ROW: "left", QUERY: "right"}
    structs = Schema(tuple((name, _struct(schema)) for name, schema in ((ROW, row), (QUERY, query))))
    checked = condition(where, structs)
    called = {(str(part.side), part.column.lower()): part.name for part in outputs}
    parts, at = [], 0
    for place in checked.references:
        found = _FIELD.match(checked.sql, place.end)
        if found is None:
            raise Invalid(f"{where!r}: {place.column} is not a value", hint="Name a column: row.lang = query.lang")
        name = (found[1] or "").replace("``", "`") or found[2]
        parts += [checked.sql[at : place.start], quoted(called[sides[place.column], name.lower()])]
        at = found.end()
    return "".join([*parts, checked.sql[at:]])


def _struct(schema: Schema) -> Struct:
    return Struct(tuple(Column(name, kind) for name, kind in schema.columns if kind is not None))
