"""What a view is: its columns, its key, the flow that writes it, the topics it comes from."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from itertools import chain
from typing import Any

import pyarrow as pa

from riverrun import ddl
from riverrun.columns import SIDE, check_name
from riverrun.durations import Duration, micros
from riverrun.errors import Conflict, Invalid, did_you_mean
from riverrun.views.columns import is_nested

_RESERVED = ("sqlite_", "pg_")


@dataclass(frozen=True)
class ViewSpec:
    """A view as a flow declares it.

    `schema` is a DDL string or an Arrow schema. `key` names the columns that identify a row; null parts compare
    equal; without key columns the view has at most one row. `hidden` columns are stored and may be part of the
    key, but readers do not see them. `history` keeps versions for `as_of` that long. `indexes` are the columns, or
    lists of them, by which rows are found fast beside the key. `to` is the address of the store that has the rows, without
    what is secret in it, where that is not the home store; `partition_by` how a Delta table is cut into directories.
    """

    name: str
    flow: str
    schema: str | pa.Schema
    key: tuple[str, ...]
    topics: tuple[str, ...] = ()
    history: Duration | None = None
    hidden: tuple[str, ...] = ()
    indexes: tuple[tuple[str, ...], ...] = ()
    to: str | None = None
    partition_by: tuple[str, ...] = ()
    history_micros: int | None = field(init=False, compare=False, default=None)

    def __post_init__(self) -> None:
        columns = ddl.parse(self.schema) if isinstance(self.schema, str) else ddl.columns_from_arrow(self.schema)
        # Whether a column may be null says nothing about how it is kept.
        plain = ddl.render([ddl.Column(column.name, column.type) for column in columns])
        object.__setattr__(self, "schema", plain)
        object.__setattr__(self, "key", tuple(self.key))
        object.__setattr__(self, "topics", tuple(sorted(self.topics)))
        object.__setattr__(self, "hidden", tuple(self.hidden))
        object.__setattr__(self, "indexes", tuple(map(tuple, self.indexes)))
        object.__setattr__(self, "history_micros", None if self.history is None else micros(self.history))
        _check_name(self.name)
        check_name(self.flow, "flow")
        names = [column.name for column in columns]
        _check_columns(self.name, names)
        for name in (*self.key, *self.hidden, *chain.from_iterable(self.indexes), *self.partition_by):
            if name not in names:
                raise Invalid(f"view {self.name!r} has no column {name!r}", hint=did_you_mean(name, names))
        for name in (*self.key, *chain.from_iterable(self.indexes)):
            if is_nested(self.arrow.field(name).type):
                what = "a key" if name in self.key else "in an index"
                raise Invalid(f"view {self.name!r}: column {name!r} cannot be {what}, it is an array, map or struct")

    @cached_property
    def arrow(self) -> pa.Schema:
        """Every column, hidden ones too."""
        return ddl.arrow_schema(ddl.parse(str(self.schema)))

    @property
    def names(self) -> list[str]:
        """Every column, hidden ones too."""
        names: list[str] = self.arrow.names
        return names

    @property
    def visible(self) -> list[str]:
        """The columns readers see."""
        return [name for name in self.names if name not in self.hidden]

    @property
    def told_key(self) -> tuple[str, ...] | None:
        """The columns by which readers name a row, without the side of a full join: that differs only where they are null.
        None where the key has other parts that readers do not see."""
        told = tuple(name for name in self.key if not (name in self.hidden and name.startswith(SIDE)))
        return None if set(told) & set(self.hidden) else told

    @property
    def is_searched(self) -> bool:
        """Whether its store looks for words."""
        return self.to is not None and self.to.startswith("search:")

    @property
    def shown_schema(self) -> str:
        """The columns readers see, as DDL."""
        return ddl.render(column for column in ddl.parse(str(self.schema)) if column.name not in self.hidden)

    def as_dict(self) -> dict[str, Any]:
        """Plain data, for the store's catalogue and for people."""
        return {
            "name": self.name,
            "flow": self.flow,
            "schema": self.schema,
            "key": list(self.key),
            "topics": list(self.topics),
            "history": self.history_micros,
            "hidden": list(self.hidden),
            "indexes": [list(columns) for columns in self.indexes],
            **({"to": self.to, "partition_by": list(self.partition_by)} if self.to else {}),
        }

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> ViewSpec:
        """The way back from `as_dict`."""
        history = plain["history"]
        return cls(
            name=plain["name"],
            flow=plain["flow"],
            schema=plain["schema"],
            key=tuple(plain["key"]),
            topics=tuple(plain["topics"]),
            history=None if history is None else timedelta(microseconds=history),
            hidden=tuple(plain["hidden"]),
            indexes=tuple(plain.get("indexes", ())),  # stores from before there were any do not say
            to=plain.get("to"),
            partition_by=tuple(plain.get("partition_by", ())),
        )

    def must_equal(self, declared: ViewSpec) -> None:
        """`Conflict` naming the first difference to what was declared before; `history` and `indexes` may change at any time."""
        for part in ("name", "flow", "schema", "key", "topics", "hidden", "to", "partition_by"):
            before, now = getattr(declared, part), getattr(self, part)
            if before != now:
                raise Conflict(
                    f"view {self.name!r} exists with another {part}: it has {_show(before)}, declared is {_show(now)}",
                    hint="Rebuild the view, or give the new one another name",
                )


def _show(value: object) -> str:
    return repr(", ".join(value) if isinstance(value, tuple) else value)


def _check_name(name: str) -> None:
    check_name(name, "view")
    if name.lower().startswith(_RESERVED):
        raise Invalid(f"view {name!r}: names that begin with {', '.join(_RESERVED)} belong to the stores")


def _check_columns(view: str, names: list[str]) -> None:
    folded: dict[str, str] = {}
    for name in names:
        if not name or "\0" in name:
            raise Invalid(f"view {view!r}: not a name for a column: {name!r}")
        if name == "_weight" or name.lower().startswith("riverrun:"):
            raise Invalid(f"view {view!r}: the column name {name!r} belongs to the store")
        if name.lower() in folded:
            raise Invalid(f"view {view!r}: columns {folded[name.lower()]!r} and {name!r} differ in case only")
        folded[name.lower()] = name
