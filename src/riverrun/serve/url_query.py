"""What rows of a view a URL asks for: `?user=ada&amount.ge=10&order=-amount&limit=20`."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import unquote

import msgspec

from riverrun.errors import Invalid, NotFound, did_you_mean
from riverrun.views import Condition, Selection, ViewSpec
from riverrun.views.selection import OPERATORS

RESERVED = ("limit", "offset", "order", "at_least", "timeout")


def parse_selection(
    spec: ViewSpec, parameters: Iterable[tuple[str, str]], orders: Iterable[str], limit: int, offset: int
) -> Selection:
    """Conditions are `column=value` or `column.operator=value`; `column.null=true` and `=false` ask for nulls."""
    conditions = [_condition(spec, name, value) for name, value in parameters if name not in RESERVED]
    return Selection(tuple(conditions), tuple(_order(spec, orders)), limit, offset)


def _condition(spec: ViewSpec, name: str, value: str) -> Condition:
    if name in spec.visible:
        return Condition(name, "eq", value)
    column, _, operator = name.rpartition(".")
    if column not in spec.visible:
        hint = did_you_mean(column or name, spec.visible)
        raise NotFound(f"view {spec.name!r} has no column {column or name!r}", hint=hint)
    if operator == "null":
        if value not in ("true", "false"):
            raise Invalid(f"{name} is true or false, not {value!r}")
        return Condition(column, "eq" if value == "true" else "ne", None)
    if operator not in OPERATORS:
        raise Invalid(f"{name}: not an operator: {operator!r}", hint=f"There are: {', '.join(OPERATORS)}, null")
    return Condition(column, operator, value)


def _order(spec: ViewSpec, orders: Iterable[str]) -> Iterable[tuple[str, bool]]:
    for text in orders:
        for part in [text] if text in spec.visible else text.split(","):
            falling = part.startswith("-") and part not in spec.visible
            yield part.removeprefix("-") if falling else part, falling


def parse_key(path: str) -> list[object]:
    """A key in a path: its parts between slashes; or, beginning with [, a JSON array, which can hold nulls and slashes.

    `path` is still percent-encoded, so a slash within a part (%2F) is not taken for one between parts.
    """
    if unquote(path).startswith("["):
        try:
            parts: list[object] = msgspec.json.decode(unquote(path), type=list)
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
            raise Invalid(f"not a key: {unquote(path)!r}", hint='Write it as a JSON array: ["ada", null]') from None
        return parts
    return [unquote(part) for part in path.split("/")]
