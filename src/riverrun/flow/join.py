"""What a join gives: the key columns once, then the other columns of both sides."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from riverrun.columns import SIDE
from riverrun.ddl import Type
from riverrun.errors import Invalid, NotFound
from riverrun.flow.names import Names, made, pairs, refuse_key
from riverrun.flow.operators.join import Output, Pair
from riverrun.flow.operators.node import Node
from riverrun.flow.schema import Schema, common, comparable

_SUFFIX = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Joined:
    """The checked `on` of a join, and its result's columns."""

    on: tuple[Pair, ...]
    outputs: tuple[Output, ...]


def joined(
    left: Schema,
    right: Schema,
    on: Names | Mapping[str, str],
    suffix: str,
    rename: Mapping[str, str] | None = None,
    extra: tuple[tuple[str, Type | None], ...] = (),
) -> Joined:
    """Checks `on`, and names the result's columns; of names on both sides the right one gets `suffix`, unless `rename`
    has another name for it.

    `extra` columns come last, on the right's side.
    """
    on_pairs = _pairs(left, right, on)
    return Joined(on_pairs, side_by_side(left, right, on_pairs, suffix, rename, extra))


def side_by_side(
    left: Schema,
    right: Schema,
    on_pairs: tuple[Pair, ...],
    suffix: str,
    rename: Mapping[str, str] | None = None,
    extra: tuple[tuple[str, Type | None], ...] = (),
    clash: Callable[[str], str] = lambda name: f"Choose another suffix=, or rename={{{name!r}: …}}",
    operation: str = "join",
) -> tuple[Output, ...]:
    """The columns of the result: those that are equal, once, then the others of the left and of the right. `clash` says what
    to do about a column of the right whose name is taken, also with the suffix."""
    if not isinstance(suffix, str) or not _SUFFIX.fullmatch(suffix):
        raise Invalid(f"suffix cannot be {suffix!r}", hint='Letters, digits and underscores: "_right"')
    outputs = [Output(pair.left, "key", pair.left, pair.type) for pair in on_pairs]
    mine = {pair.left for pair in on_pairs}
    outputs += [Output(name, "left", name, known) for name, known in left.columns if name not in mine]
    taken = {part.name.lower() for part in outputs}
    theirs = {pair.right for pair in on_pairs}
    given = _renamed(right, theirs, rename)
    for name, known in (*((name, known) for name, known in right.columns if name not in theirs), *extra):
        chosen = given.get(name) or (name + suffix if name.lower() in taken else name)
        if chosen.lower() in taken:
            raise Invalid(f"{operation}: there are two columns {chosen!r}", hint=clash(name))
        taken.add(chosen.lower())
        outputs.append(Output(chosen, "right", name, known))
    return tuple(outputs)


def _renamed(right: Schema, keys: set[str], rename: Mapping[str, str] | None) -> dict[str, str]:
    """The new names of columns of the right side."""
    if not isinstance(rename, Mapping | None):
        raise Invalid(f"rename cannot be {rename!r}", hint='Write rename={"at": "paid_at"}')
    found = {}
    for old, new in (rename or {}).items():
        try:
            known = right.resolve(old)
        except NotFound as error:
            raise NotFound(f"rename: {error.message} on the right", hint=error.hint) from None
        if known in keys:
            raise Invalid(f"rename: {known!r} is part of on, and is there once, as the left calls it")
        found[known] = made(new)
    return found


def _pairs(left: Schema, right: Schema, on: Names | Mapping[str, str]) -> tuple[Pair, ...]:
    found: list[Pair] = []
    for mine, theirs in pairs(on):
        one, other = _resolved("left", left, mine), _resolved("right", right, theirs)
        if not comparable(left[one], right[other]):
            raise Invalid(
                f"on: {one!r} is {left[one]} and {other!r} is {right[other]}: they are never equal",
                hint="Cast one side",
            )
        refuse_key("on", one, left)
        if any(one == pair.left or other == pair.right for pair in found):
            raise Invalid(f"on: column {one!r} is there twice")
        found.append(Pair(one, other, common(left[one], right[other])))
    if not found:
        raise Invalid("on needs at least one column", hint='Write on="user" or on={"left_name": "right_name"}')
    return tuple(found)


def _resolved(side: str, schema: Schema, name: str) -> str:
    try:
        return schema.resolve(name)
    except NotFound as error:
        raise NotFound(f"on: {error.message} on the {side}", hint=error.hint) from None


def refuse_partial_key(what: str, table: Node, on: tuple[Pair, ...]) -> None:
    """A row of a stream finds one row of a table: by the table's key and nothing else."""
    key = [
        part for part in table.key if not part.startswith(SIDE)
    ]  # null matches nothing, and else it tells no rows apart
    if {pair.right for pair in on} != set(key):
        raise Invalid(
            f"{what}: on must be the table's key, which is {', '.join(key) or 'empty'}",
            hint="Make a table with that key, by group(…).agg(…) or latest(…)",
        )
