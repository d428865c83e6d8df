"""What a topic is: name, schema, key, time, and how it is kept."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, fields, replace
from datetime import timedelta
from enum import Enum
from typing import Any

from riverrun import ddl
from riverrun.columns import KEY_TYPES, WRITTEN, check_name
from riverrun.durations import Duration, micros, show
from riverrun.errors import Conflict, Invalid, did_you_mean
from riverrun.settings import byte_count


class Unset(Enum):
    """Marks what a declaration leaves out, which is no mismatch; None is a value ("keep for ever")."""

    UNSET = "unset"

    def __repr__(self) -> str:
        return "UNSET"


UNSET = Unset.UNSET

_ESCAPED = re.compile(r'["\\\x00-\x1f\x7f]')
_PRODUCER_TYPES = frozenset({"string", "tinyint", "smallint", "int", "bigint"})


def names(value: str | list[str] | tuple[str, ...] | None) -> tuple[str, ...]:
    """A name or a list of names, as a tuple."""
    if value is None:
        return ()
    return (value,) if isinstance(value, str) else tuple(value)


@dataclass(frozen=True)
class TopicSpec:
    """A topic as declared. What is left out takes its default when the topic is made, and is not compared afterwards.

    >>> TopicSpec("orders", "user string, at timestamp", key="user", time="at").key
    ('user',)
    """

    name: str
    schema: str | Unset = UNSET
    key: Any = UNSET
    time: str | Unset | None = UNSET
    producers: str | Unset | None = UNSET
    partitions: int | Unset = UNSET
    retention: Duration | Unset | None = UNSET
    retention_bytes: int | str | Unset | None = UNSET
    compact: bool | Unset = UNSET
    fsync: Duration | Unset = UNSET
    compression: str | Unset | None = UNSET
    archive: str | os.PathLike[str] | Unset | None = UNSET
    null_keys: bool | Unset = UNSET  # whether a key of one column may be null, as that of a group in a derived topic

    def __post_init__(self) -> None:
        check_name(self.name)

        def put(name: str, value: Any) -> None:
            object.__setattr__(self, name, value)

        if isinstance(self.schema, str):
            columns = ddl.parse(self.schema)
            self._check_names(columns)
            put("schema", ddl.render(columns))
        self._check_types()
        if not isinstance(self.key, Unset):
            put("key", names(self.key))
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
        if self.compression not in (UNSET, None, "lz4"):
            raise Invalid(f"topic {self.name}: compression is None or 'lz4', not {self.compression!r}")

    def _check_names(self, columns: Iterable[ddl.Column]) -> None:
        """Rows come as JSON: a name that has to be escaped there cannot be a column's, nor a field's of a struct."""
        for column in columns:
            if _ESCAPED.search(column.name):
                raise Invalid(
                    f"topic {self.name}: not a name for a column: {column.name!r}",
                    hint="Quotes, backslashes and control characters cannot be in it",
                )
            self._check_names(_fields(column.type))

    def _check_types(self) -> None:
        several = [("key", name) for name in self.key] if isinstance(self.key, list | tuple) else [("key", self.key)]
        texts = [*several, *((name, getattr(self, name)) for name in ("schema", "time", "producers"))]
        for name, value in texts:
            if not isinstance(value, str | Unset) and (value is not None or name == "schema"):
                raise Invalid(f"topic {self.name}: {name} cannot be {value!r}", hint="Give a text")
        if not isinstance(self.archive, str | os.PathLike | Unset | None):
            raise Invalid(f"topic {self.name}: archive cannot be {self.archive!r}", hint="Give a directory")
        for name in ("compact", "null_keys"):
            if not isinstance(getattr(self, name), bool | Unset):
                raise Invalid(f"topic {self.name}: {name} is True or False, not {getattr(self, name)!r}")

    def resolved(self) -> TopicSpec:
        """The spec of a new topic: defaults filled in, everything checked against the schema."""
        if isinstance(self.schema, Unset):
            raise Invalid(
                f"topic {self.name} does not exist, and no schema was given to make it",
                hint='Give one: river.topic("orders", "user string, at timestamp", …)',
            )
        compact = self.compact is True
        defaults: dict[str, Any] = {
            "key": (),
            "time": None,
            "producers": None,
            "partitions": 4,
            # The newest row of a key is wanted for ever; age must not remove it.
            "retention": None if compact else timedelta(days=7),
            "retention_bytes": None,
            "compact": False,
            "fsync": "batch",
            "compression": None,
            "archive": None,
            "null_keys": False,
        }
        left_out = {n: v for n, v in defaults.items() if isinstance(getattr(self, n), Unset)}
        spec = replace(self, **left_out)
        spec.check_columns()
        return spec

    def options(self) -> dict[str, Any]:
        """Everything but the schema, as JSON can hold it; the constructor takes it back."""
        plain = {name: value for name, value in asdict(self).items() if name != "schema"}
        return {n: value.total_seconds() if isinstance(value, timedelta) else value for n, value in plain.items()}

    def check_columns(self) -> None:
        """Key, time and producers name columns of the right types."""
        assert isinstance(self.schema, str)
        columns = {column.name: column.type for column in ddl.parse(self.schema)}
        for name in columns:
            if name.startswith("_") and name not in WRITTEN:
                raise Invalid(f"topic {self.name}: column {name!r}", hint="Names beginning with '_' are Riverrun's own")
        roles = [*(("key", name, KEY_TYPES) for name in self.key)]
        if isinstance(self.time, str):
            roles.append(("time", self.time, frozenset({"timestamp"})))
        if isinstance(self.producers, str):
            roles.append(("producers", self.producers, _PRODUCER_TYPES))
        for role, name, types in roles:
            if name not in columns:
                raise Invalid(f"topic {self.name}: {role} {name!r} is not a column", hint=did_you_mean(name, columns))
            kind = str(columns[name])
            if kind not in types and not (role == "key" and kind.startswith("decimal")):
                allowed = ", ".join(sorted(types))
                raise Invalid(f"topic {self.name}: {role} {name!r} cannot be {kind}", hint=f"It may be {allowed}")
        if len(set(self.key)) < len(self.key):
            raise Invalid(f"topic {self.name}: the key names a column twice")
        if self.compact and not self.key:
            raise Invalid(f"topic {self.name}: compaction keeps the newest row of every key, so it needs a key")

    def check_same(self, stored: TopicSpec) -> None:
        """Refuse a declaration that says something else than what is stored. Schemas are compared by the topic."""
        for field in fields(self):
            mine, theirs = getattr(self, field.name), getattr(stored, field.name)
            if field.name in ("name", "schema") or isinstance(mine, Unset) or mine == theirs:
                continue
            raise Conflict(
                f"topic {self.name} exists with {field.name}={_shown(theirs)}, not {_shown(mine)}",
                hint="Leave it out to open the topic as it is, or use another name",
            )


def _fields(kind: ddl.Type) -> Iterator[ddl.Column]:
    """The fields of the structs in a type."""
    match kind:
        case ddl.Struct(fields):
            yield from fields
        case ddl.Array(element):
            yield from _fields(element)
        case ddl.Map(key, value):
            yield from _fields(key)
            yield from _fields(value)


def _shown(value: object) -> str:
    return repr(show(micros(value)) if isinstance(value, timedelta) else value)


def added_columns(name: str, stored: str, declared: str) -> bool:
    """Whether `declared` only adds nullable columns to `stored` (False: it is the same); anything else is an error."""
    old, new = ddl.parse(stored), ddl.parse(declared)
    now = {column.name: column for column in new}
    for column in old:
        same = now.get(column.name)
        if same is None:
            raise Conflict(f"topic {name}: the new schema leaves out {column.name!r}", hint=_HOW_SCHEMAS_CHANGE)
        if (same.type, same.nullable) != (column.type, column.nullable):
            raise Conflict(
                f"topic {name}: column {column.name!r} is {column.written(' ')!r}, not {same.written(' ')!r}",
                hint=_HOW_SCHEMAS_CHANGE,
            )
    known = {column.name for column in old}
    fresh = [column for column in new if column.name not in known]
    for column in fresh:
        if not column.nullable:
            raise Conflict(f"topic {name}: a new column must be nullable: {column.name!r}", hint=_HOW_SCHEMAS_CHANGE)
    if [column.name for column in new[: len(old)]] != [column.name for column in old]:
        if fresh:
            raise Conflict(f"topic {name}: new columns go behind the {len(old)} there are", hint=_HOW_SCHEMAS_CHANGE)
        raise Conflict(f"topic {name} has the same columns in another order", hint=f"It is {stored!r}")
    return bool(fresh)


_HOW_SCHEMAS_CHANGE = "A schema may only grow, by nullable columns at its end; for anything else make a new topic"
