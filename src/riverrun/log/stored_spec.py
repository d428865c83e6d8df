"""A topic as it is kept: every option has a value. What people declare is `riverrun.log.spec`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from typing import Any

from riverrun import ddl
from riverrun.columns import KEY_TYPES, WRITTEN
from riverrun.errors import Conflict, Invalid, did_you_mean

FORMATS = ("json", "avro", "arrow")
_PRODUCER_TYPES = frozenset({"string", "tinyint", "smallint", "int", "bigint"})
_HOW_SCHEMAS_CHANGE = "A schema may only grow, by nullable columns at its end; for anything else make a new topic"


@dataclass(frozen=True)
class StoredSpec:
    """What `Topic.spec` gives. The values here are those of a topic whose declaration leaves them out."""

    name: str
    schema: str  # as DDL, in its canonical form
    key: tuple[str, ...] = ()
    time: str | None = None
    producers: str | None = None
    partitions: int = 4
    retention: timedelta | None = timedelta(days=7)
    retention_bytes: int | None = None
    compact: bool = False
    fsync: str | timedelta = "batch"  # or "os", or how often
    compression: str | None = None
    archive: str | None = None  # an absolute path
    naive: str | None = None
    times: str | None = None
    format: str | None = None  # of messages, where the log is Kafka
    null_keys: bool = False
    versions: bool = False

    def options(self) -> dict[str, Any]:
        """Everything but the schema, as JSON can hold it; `TopicSpec` takes it back."""
        absent = {"schema", *(["format"] if self.format is None else []), *([] if self.versions else ["versions"])}
        plain = {name: value for name, value in asdict(self).items() if name not in absent}
        return {n: value.total_seconds() if isinstance(value, timedelta) else value for n, value in plain.items()}

    def check_columns(self) -> None:
        """Refuse names that are Riverrun's own, and a key, time or producers that are not columns of the right types."""
        columns = {column.name: column.type for column in ddl.parse(self.schema)}
        for name in columns:
            if name.startswith("_") and name not in WRITTEN:
                raise Invalid(f"topic {self.name}: column {name!r}", hint="Names beginning with '_' are Riverrun's own")
        for role, name, types in self._roles():
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
        if self.versions:
            self._check_versions()

    def _check_versions(self) -> None:
        """A key's version is how many rows it has ever had, so none may go."""
        if not self.key or self.null_keys:
            raise Invalid(f"topic {self.name}: versions are counted by key, so it needs one, without nulls")
        kept = (
            ("compact", self.compact),
            ("retention", self.retention),
            ("retention_bytes", self.retention_bytes),
            ("archive", self.archive),
        )
        for option, value in kept:
            if value:
                raise Invalid(
                    f"topic {self.name}: with versions=True every row stays, so there is no {option}",
                    hint=f"Leave {option} out",
                )

    def _roles(self) -> Iterator[tuple[str, str, frozenset[str]]]:
        yield from (("key", name, KEY_TYPES) for name in self.key)
        if self.time is not None:
            yield "time", self.time, frozenset({"timestamp"})
        if self.producers is not None:
            yield "producers", self.producers, _PRODUCER_TYPES

    def grow(self, declared: str) -> StoredSpec | None:
        """The spec with the declared schema if that only adds nullable columns at the end; None if it is the same.

        Raises Conflict for any other schema, Invalid for a column that cannot be one.
        """
        old, new = ddl.parse(self.schema), ddl.parse(declared)
        now = {column.name: column for column in new}
        for column in old:
            same = now.get(column.name)
            if same is None:
                raise self._conflict(f"the new schema leaves out {column.name!r}")
            if (same.type, same.nullable) != (column.type, column.nullable):
                raise self._conflict(f"column {column.name!r} is {column.written(' ')!r}, not {same.written(' ')!r}")
        before = {column.name for column in old}
        added = [column for column in new if column.name not in before]
        for column in added:
            if not column.nullable:
                raise self._conflict(f"a new column must be nullable: {column.name!r}")
        if [column.name for column in new[: len(old)]] != [column.name for column in old]:
            if added:
                raise self._conflict(f"new columns go after the {len(old)} there are")
            raise Conflict(
                f"topic {self.name} has the same columns in another order", hint=f"Its schema is {self.schema!r}"
            )
        if not added:
            return None
        grown = replace(self, schema=ddl.render(new))
        grown.check_columns()
        return grown

    def _conflict(self, why: str) -> Conflict:
        return Conflict(f"topic {self.name}: {why}", hint=_HOW_SCHEMAS_CHANGE)
