"""Rules in a file, as people write them: JSON, an object or several; `define` and `measures` are objects in it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from riverrun.errors import Invalid, RiverrunError, did_you_mean
from riverrun.flow.operators.rule_match import RULE_COLUMNS
from riverrun.rules.rule import WrittenRule, check_shape

_OBJECTS = ("define", "measures")


def read_rules(text: str, extra: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    """The rows of rules; refused where one is not even a rule by its looks. `extra` are columns that a table has besides."""
    rows = [_row(number, one, extra) for number, one in enumerate(_documents(text), 1)]
    if not rows:
        raise Invalid("there is no rule in the file")
    seen: set[str] = set()
    for row in rows:
        if row["rule_id"] in seen:
            raise Invalid(f"rule {row['rule_id']!r} is there twice")
        seen.add(row["rule_id"])
    return rows


def _documents(text: str) -> list[Any]:
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        try:
            found = [json.loads(line) for line in text.splitlines() if line.strip()]
        except json.JSONDecodeError:
            raise Invalid(f"not JSON: {error}", hint="One rule, a list of rules, or a rule in each line") from None
    return found if isinstance(found, list) else [found]


def _row(number: int, given: Any, extra: tuple[str, ...]) -> dict[str, Any]:
    if not isinstance(given, Mapping):
        raise Invalid(f"rule {number} is no JSON object", hint='{"rule_id": "abroad", "pattern": "abroad -> large", …}')
    name = given.get("rule_id") or f"number {number}"
    for column in given:
        if column not in RULE_COLUMNS and column not in extra:
            known = [*RULE_COLUMNS, *extra]
            raise Invalid(f"rule {name}: there is no {column!r} in a rule", hint=did_you_mean(column, known))
    row = {**dict.fromkeys(RULE_COLUMNS), "enabled": True, **given}
    for column in _OBJECTS:
        if isinstance(row[column], Mapping):
            row[column] = json.dumps(row[column], ensure_ascii=False)
    for column, kind in RULE_COLUMNS.items():
        wanted = bool if kind == "boolean" else str
        if row[column] is not None and not isinstance(row[column], wanted):
            raise Invalid(f"rule {name}: {column} is {row[column]!r}, not a {kind}")
    try:
        check_shape(WrittenRule.of(row))
    except RiverrunError as error:
        raise Invalid(f"rule {name}: {error.message}", hint=error.hint) from None
    return row
