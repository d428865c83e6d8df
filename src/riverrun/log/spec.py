"""A topic as it is declared: name, schema, key, time, and how it is kept. What it becomes is `riverrun.log.stored_spec`."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import timedelta
from enum import Enum
from typing import Any, Literal

from riverrun import ddl
from riverrun.columns import check_name
from riverrun.durations import Duration, micros, show
from riverrun.errors import Conflict, Invalid
from riverrun.log.stored_spec import FORMATS, StoredSpec
from riverrun.log.times import EPOCHS, NAIVE
from riverrun.settings import byte_count


class Unset(Enum):
    """Marks what a declaration leaves out, which is no mismatch; None is a value ("keep for ever")."""

    UNSET = "unset"

    def __repr__(self) -> str:
        return "UNSET"


UNSET = Unset.UNSET

_ESCAPED = re.compile(r'["\\\x00-\x1f\x7f]')


@dataclass(frozen=True)
class TopicSpec:
    """A topic as declared. What is left out takes its default when the topic is made, and is not compared afterwards.

    >>> TopicSpec("orders", "user string, at timestamp", key="user", time="at").key
    ('user',)
    """

    name: str
    schema: str | Unset = UNSET
    key: str | Sequence[str] | Unset | None = UNSET
    time: str | Unset | None = UNSET
    producers: str | Unset | None = UNSET
    partitions: int | Unset = UNSET
    retention: Duration | Unset | None = UNSET
    retention_bytes: int | str | Unset | None = UNSET
    compact: bool | Unset = UNSET
    fsync: Duration | Unset = UNSET
    compression: Literal["lz4"] | Unset | None = UNSET
    archive: str | os.PathLike[str] | Unset | None = UNSET
    naive: Literal["utc"] | Unset | None = UNSET  # what times without a zone are; None: they are refused
    times: Literal["ms", "s"] | Unset | None = (
        UNSET  # what numbers for timestamps count, from 1970; None: they are refused
    )
    format: Literal["json", "avro", "arrow"] | Unset | None = UNSET  # of messages, where the log is Kafka
    versions: bool | Unset = UNSET  # whether rows are counted and found by key
    null_keys: bool | Unset = UNSET  # whether a key of one column may be null, as that of a group in a derived topic

    @classmethod
    def of(cls, stored: StoredSpec) -> TopicSpec:
        """A declaration that leaves nothing out."""
        return cls(**asdict(stored))

    def __post_init__(self) -> None:
        check_name(self.name)

        def put(name: str, value: Any) -> None:
            object.__setattr__(self, name, value)

        self._check_types()
        if isinstance(self.schema, str):
            columns = ddl.parse(self.schema)
            self._check_names(columns)
            put("schema", ddl.render(columns))
        if not isinstance(self.key, Unset):
            put("key", (self.key,) if isinstance(self.key, str) else tuple(self.key or ()))
        if isinstance(self.archive, str | os.PathLike):
            put("archive", os.path.abspath(self.archive))  # the same place for a process that is started elsewhere
        if not isinstance(self.retention, Unset) and self.retention is not None:
            put("retention", timedelta(microseconds=micros(self.retention)))
        if not isinstance(self.retention_bytes, Unset) and self.retention_bytes is not None:
            put("retention_bytes", byte_count(self.retention_bytes))
        if not isinstance(self.fsync, Unset) and self.fsync not in ("batch", "os"):
            put("fsync", timedelta(microseconds=micros(self.fsync)))
        if not isinstance(self.partitions, Unset) and not (
            isinstance(self.partitions, int) and not isinstance(self.partitions, bool) and 1 <= self.partitions <= 1024
        ):
            raise Invalid(f"topic {self.name}: partitions must be from 1 to 1024, not {self.partitions!r}")
        for option, values in (
            ("compression", ("lz4",)),
            ("naive", NAIVE),
            ("times", tuple(EPOCHS)),
            ("format", FORMATS),
        ):
            if getattr(self, option) not in (UNSET, None, *values):
                allowed = " or ".join(map(repr, (None, *values)))
                raise Invalid(f"topic {self.name}: {option} is {allowed}, not {getattr(self, option)!r}")

    def declared(self) -> dict[str, Any]:
        """What the declaration says, by name; what it leaves out is not there."""
        every = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in every.items() if not isinstance(value, Unset)}

    def resolve(self) -> StoredSpec:
        """The spec of a new topic: defaults filled in, everything checked against the schema."""
        if isinstance(self.schema, Unset):
            raise Invalid(
                f"topic {self.name} does not exist, and no schema was given to make it",
                hint='Give one: river.topic("orders", "user string, at timestamp", …)',
            )
        # The newest row of a key is wanted for ever, and its first one where they are counted; age must not remove it.
        kept = {"retention": None} if self.compact is True or self.versions is True else {}
        spec = StoredSpec(**{**kept, **self.declared()})
        spec.check_columns()
        return spec

    def check_same(self, stored: StoredSpec) -> None:
        """Refuse a declaration that says something else than what is stored. Schemas are compared by the topic."""
        for name, mine in self.declared().items():
            theirs = getattr(stored, name)
            if name not in ("name", "schema") and mine != theirs:
                raise Conflict(
                    f"topic {self.name} exists with {name}={_shown(theirs)}, not {_shown(mine)}",
                    hint="Leave it out to open the topic as it is, or use another name",
                )

    def _check_types(self) -> None:
        several = [("key", name) for name in self.key] if isinstance(self.key, list | tuple) else [("key", self.key)]
        strings = [*several, *((name, getattr(self, name)) for name in ("schema", "time", "producers"))]
        for name, value in strings:
            if not isinstance(value, str | Unset) and (value is not None or name == "schema"):
                raise Invalid(f"topic {self.name}: {name} cannot be {value!r}", hint="Give a string")
        if not isinstance(self.archive, str | os.PathLike | Unset | None):
            raise Invalid(f"topic {self.name}: archive cannot be {self.archive!r}", hint="Give a directory")
        for name in ("compact", "null_keys", "versions"):
            if not isinstance(getattr(self, name), bool | Unset):
                raise Invalid(f"topic {self.name}: {name} is True or False, not {getattr(self, name)!r}")

    def _check_names(self, columns: Iterable[ddl.Column]) -> None:
        """Rows come as JSON: a name that has to be escaped there cannot be a column's, nor a field's of a struct."""
        for column in columns:
            if _ESCAPED.search(column.name):
                raise Invalid(
                    f"topic {self.name}: not a name for a column: {column.name!r}",
                    hint="Quotes, backslashes and control characters cannot be in it",
                )
            self._check_names(_struct_fields(column.type))


def _struct_fields(kind: ddl.Type) -> Iterator[ddl.Column]:
    """The fields of the structs in a type."""
    match kind:
        case ddl.Struct(inner):
            yield from inner
        case ddl.Array(element):
            yield from _struct_fields(element)
        case ddl.Map(key, value):
            yield from _struct_fields(key)
            yield from _struct_fields(value)


def _shown(value: object) -> str:
    return repr(show(micros(value)) if isinstance(value, timedelta) else value)
