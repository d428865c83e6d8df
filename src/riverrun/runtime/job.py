"""A flow made ready to run: its stateful nodes in stages, and the branches that feed them and the ends.

Stages = depth of stateful nodes, not their number. A job is plain data; it travels to the tasks of every stage.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from riverrun.columns import BRANCH, OFFSET, PARTITION, RECEIVED, ROW_ID, TIME, WATERMARK, WEIGHT
from riverrun.kernels.kernel import Kernel
from riverrun.runtime.branch import HIDDEN_IN_SQL, Item

MOMENT = pa.timestamp("us", "UTC")
# Every row carries these: event time, weight, and where it stands in the order of its input.
CARRIED_FIELDS = ((TIME, pa.int64()), (WEIGHT, pa.int8()), (PARTITION, pa.int32()), (OFFSET, pa.int64()))
SQL_TYPES = {
    TIME: MOMENT,
    RECEIVED: MOMENT,
    "_key": pa.string(),
    PARTITION: pa.int32(),
    OFFSET: pa.int64(),
    WEIGHT: pa.int8(),
}
# Parts of keys that are not among a node's columns.
HIDDEN_KEYS = {BRANCH: pa.int32(), ROW_ID: pa.string()}


@dataclass(frozen=True)
class Branch:
    """Rows of an origin on their way to a target."""

    index: int
    origin: str
    target: str
    input: str
    items: tuple[Item, ...]
    condition: str | None
    route: tuple[str, ...]
    schema: pa.Schema  # value columns and the carried ones
    path: int = 0  # the first of its ways to the input, of several, so that a row that comes twice has two ids
    added: tuple[str, ...] = ()  # hidden parts of the key that rows are given when they arrive
    in_spark: bool = False  # comes from a transform or goes to one
    placed: bool = False  # what tells the origin's rows apart is where they stand in the log

    @property
    def trivial(self) -> bool:
        """Whether it only picks columns, so that no SQL is needed."""
        return not self.in_spark and self.condition is None and all(item.column is not None for item in self.items)

    @property
    def arriving(self) -> pa.Schema:
        """The columns as the target sees them."""
        new = [(name, HIDDEN_KEYS[base_name(name)]) for name in self.added if name not in self.schema.names]
        return pa.schema([*self.schema, *new])


@dataclass(frozen=True)
class Operator:
    """A stateful node with its kernel."""

    id: str
    kernel: Kernel
    inputs: tuple[str, ...]
    lags: Mapping[str, int]  # source id → how far its watermark is behind that source's
    late_topic: str | None
    late: pa.Schema | None  # columns of the late topic
    output: pa.Schema  # value columns


@dataclass(frozen=True)
class Transformed:
    """A transform: its rows, and behind which stage they are made (0: the sources)."""

    id: str
    stage: int
    output: pa.Schema


@dataclass(frozen=True)
class Reading:
    """A source: a topic as one node of the flow reads it."""

    id: str
    topic: str
    columns: pa.Schema  # value columns that somebody needs
    time: str | None  # column of event time, None: the receive time
    is_table: bool
    lateness: int
    producers: str | None
    idle: int | None
    max_skew: int | None
    number: int  # high bits of `_partition`, so that rows of several topics have one order
    clocks: tuple[tuple[str, str, str], ...]  # (clock node, occurred, sent): its watermark follows corrected times
    holds: tuple[int, ...] = ()  # how long after a row time alone changes something, on each way where it does

    @property
    def origin(self) -> str:
        """Where its rows begin. A table's rows are its changes, which its kernel makes of the topic's."""
        return self.id + RAW if self.is_table else self.id

    @property
    def fields(self) -> pa.Schema:
        """The columns of its rows."""
        return raw(self.columns) if self.is_table else self.columns


@dataclass(frozen=True)
class Job:
    """What the driver and all tasks know of a flow."""

    flow: str
    shards: int
    readings: tuple[Reading, ...]
    stages: tuple[tuple[Operator, ...], ...]
    branches: tuple[Branch, ...]
    transforms: tuple[Transformed, ...] = ()

    @property
    def sources(self) -> Mapping[str, pa.Schema]:
        """The origins that are read from the log."""
        return {reading.origin: reading.fields for reading in self.readings}

    @cached_property
    def from_origin(self) -> Mapping[str, tuple[Branch, ...]]:
        """Branches by origin."""
        found: dict[str, list[Branch]] = {}
        for branch in self.branches:
            found.setdefault(branch.origin, []).append(branch)
        return {origin: tuple(branches) for origin, branches in found.items()}

    @cached_property
    def into_operator(self) -> Mapping[str, tuple[Branch, ...]]:
        """Branches by target."""
        found: dict[str, list[Branch]] = {}
        for branch in self.branches:
            found.setdefault(branch.target, []).append(branch)
        return {target: tuple(branches) for target, branches in found.items()}

    @cached_property
    def by_spark(self) -> frozenset[str]:
        """The targets that are transforms: their rows are not packed."""
        return frozenset(transform.id for transform in self.transforms)

    def has_sql(self, origins: Sequence[str]) -> bool:
        """Whether a projection by Spark is needed behind these origins."""
        return any(not branch.trivial for origin in origins for branch in self.from_origin.get(origin, ()))


def base_name(hidden: str) -> str:
    """The kind of a hidden part of a key, which is named after the side of a join where both have one."""
    while hidden.endswith("_right"):
        hidden = hidden.removesuffix("_right")
    return hidden


def struct_name(origin: str) -> str:
    """The column of an origin's rows where Spark computes with them."""
    return f"s_{zlib.crc32(origin.encode()):08x}"


def hidden_names(is_source: bool) -> tuple[str, ...]:
    """The hidden columns that expressions may read."""
    return HIDDEN_IN_SQL if is_source else (TIME, PARTITION, OFFSET, WEIGHT)


def sql_fields(columns: pa.Schema, is_source: bool) -> pa.Schema:
    """Fields of an origin's struct in Spark."""
    return pa.schema([*columns, *((name, SQL_TYPES[name]) for name in hidden_names(is_source))])


def late_schema(input: pa.Schema, columns: Iterable[str]) -> pa.Schema:
    """Columns of a late topic: the input's own, and the watermark that was missed."""
    return pa.schema([*(input.field(name) for name in columns), (WATERMARK, MOMENT)])


RAW = ":raw"
"""The origin of a table source's rows, before they are a table."""


def raw(columns: pa.Schema) -> pa.Schema:
    """A topic's rows with tombstones."""
    return columns.append(pa.field("_deleted", pa.bool_()))
