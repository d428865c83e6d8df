"""Names people give: flows, views, topics, alerts, and the columns they make."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from riverrun.columns import KEY_TYPES
from riverrun.ddl import Decimal
from riverrun.errors import Invalid, NotFound, did_you_mean
from riverrun.flow.schema import Schema, is_key

Names = str | Sequence[str]


def declared(what: str, columns: str) -> Schema:
    """Columns that a user declares in DDL."""
    try:
        schema = Schema.parse(columns)
    except Invalid as error:
        raise Invalid(f"{what}: {error.message}", hint=error.hint) from None
    for name in schema:
        made(name)
    return schema


def made(name: str) -> str:
    """The name of a column the user makes; what starts with an underscore is Riverrun's own."""
    if not isinstance(name, str) or not name:
        raise Invalid(f"a column name is a string, not {name!r}")
    if name.startswith("_"):
        raise Invalid(
            f"the column name {name!r} is reserved: it starts with an underscore",
            hint=f'Give it another name: "{name} as {name.strip("_") or "value"}"',
        )
    return name


def listed(what: str, names: Names) -> list[str]:
    """One name or several, as a list."""
    if isinstance(names, str):
        return [names]
    if not isinstance(names, list | tuple):
        raise Invalid(f"{what} is a name or a list of names, not {names!r}")
    return list(names)


def columns(what: str, names: Names | None, schema: Schema) -> tuple[str, ...]:
    """One name or several, as `schema` declares them; each must be there, once, and fit for a key."""
    if names is None:
        return ()
    found: list[str] = []
    for name in listed(what, names):
        try:
            known = schema.resolve(name)
        except NotFound as error:
            raise NotFound(f"{what}: {error.message}", hint=error.hint) from None
        if known in found:
            raise Invalid(f"{what}: column {known!r} is there twice")
        refuse_key(what, known, schema)
        found.append(known)
    return tuple(found)


def refuse_key(what: str, name: str, schema: Schema) -> None:
    """No column of a type that rows cannot be found by."""
    if not is_key(schema[name]):
        raise Invalid(
            f"{what}: {name!r} is {schema[name]}, which cannot be a key", hint="Use a part of it, or to_json of it"
        )


def topic_key(what: str, names: Names | None, schema: Schema) -> tuple[str, ...]:
    """As `columns`, of types that the log takes as a key."""
    found = columns(what, names, schema)
    for name in found:
        known = schema[name]
        if known is not None and not isinstance(known, Decimal) and str(known) not in KEY_TYPES:
            raise Invalid(f"{what}: {name!r} is {known}, which cannot be a topic's key", hint="Cast it to string")
    return found


def some(what: str, names: Names, schema: Schema) -> tuple[str, ...]:
    """As `columns`, and at least one."""
    found = columns(what, names, schema)
    if not found:
        raise Invalid(f"{what} needs at least one column", hint=did_you_mean("", schema))
    return found


def choice(what: str, value: str, known: Iterable[str]) -> str:
    """One of a few words."""
    words = list(known)
    if value not in words:
        hint = did_you_mean(value, words) if isinstance(value, str) else f"There are: {', '.join(words)}"
        raise Invalid(f"{what} cannot be {value!r}", hint=hint)
    return value


def pairs(on: Names | Mapping[str, str]) -> list[tuple[str, str]]:
    """The (left, right) names of a join's `on`."""
    if isinstance(on, Mapping):
        return list(on.items())
    return [(name, name) for name in listed("on", on)]
