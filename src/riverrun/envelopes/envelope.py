"""What a flow declares of a topic whose rows are envelopes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from riverrun import ddl
from riverrun.errors import Invalid, did_you_mean

FORMS = ("debezium", "maxwell")
TIMES = ("ms", "us", "ns")
DECIMALS = ("precise", "string")
TOPIC_SCHEMA = "key string, json string"
"""Of a topic of envelopes: the message's key and its value, both as JSON. A topic may do without the key."""


@dataclass(frozen=True)
class MessageForm:
    """Whose messages they are, and what they do not say of themselves.

    `times` is the unit of numbers that are timestamps and `decimals` how decimals are written (as Debezium's
    `decimal.handling.mode` calls it), where no schema in the message says so; None refuses what could be read in two ways.
    `of` is the table that is read ("shop.orders"), of a topic with several.
    """

    name: str
    times: str | None = None
    decimals: str | None = None
    of: str | None = None

    def __post_init__(self) -> None:
        _choose("form", self.name, FORMS)
        _choose("times", self.times, TIMES)
        _choose("decimals", self.decimals, DECIMALS)
        if self.name != "debezium" and (self.times or self.decimals):
            raise Invalid(
                f"{'times' if self.times else 'decimals'} is for form='debezium': {self.name} writes both in one way only",
                hint="Leave it out",
            )
        if self.of is not None and self.name != "maxwell":
            raise Invalid(f"of={self.of!r} is for form='maxwell'", hint="Debezium has a topic for each table")
        if self.of is not None and (not isinstance(self.of, str) or self.of.count(".") != 1):
            raise Invalid(f"of cannot be {self.of!r}", hint='Write of="database.table"')


def _choose(what: str, value: str | None, known: Sequence[str]) -> None:
    if value is not None and value not in known:
        hint = did_you_mean(value, known) if isinstance(value, str) else f"There are: {', '.join(known)}"
        raise Invalid(f"{what} cannot be {value!r}", hint=hint)


@dataclass(frozen=True)
class Envelope:
    """How the rows of a table stand in the messages of a topic: columns and key are the table's."""

    form: MessageForm
    columns: tuple[ddl.Column, ...]
    key: tuple[str, ...]

    def narrowed(self, wanted: Collection[str]) -> Envelope:
        """The same with these columns only, beside the key."""
        kept = tuple(column for column in self.columns if column.name in (*self.key, *wanted))
        return replace(self, columns=kept)


def check_column(name: str, kind: ddl.Type | None) -> None:
    """Refuse a type of which no envelope has values."""
    inner = kind
    while isinstance(inner, ddl.Array):
        inner = inner.element
    if isinstance(inner, ddl.Map | ddl.Struct):
        raise Invalid(
            f"column {name!r} is {kind}, which is in no envelope",
            hint="Databases' JSON and composite types are written as text: declare it as string",
        )
