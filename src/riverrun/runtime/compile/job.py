"""A flow made ready to run: its stateful nodes in stages, and the branches that feed them and the ends.

Stages = depth of stateful nodes, not their number. A job is plain data; it travels to the tasks.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import pyarrow as pa

from riverrun.columns import DELETED, ENVELOPE, KEY, OFFSET, PARTITION, RECEIVED, TIME, WATERMARK, WEIGHT, own_column
from riverrun.envelopes.envelope import Envelope
from riverrun.flow.composition import Item, WrittenExpression
from riverrun.kernels.kernel import Kernel
from riverrun.runtime.compile.row_id import hidden_type
from riverrun.views.spec import ViewSpec

MOMENT = pa.timestamp("us", "UTC")
# Every row carries these: event time, weight, and where it stands in the order of its input.
CARRIED_FIELDS = ((TIME, pa.int64()), (WEIGHT, pa.int8()), (PARTITION, pa.int32()), (OFFSET, pa.int64()))
# What expressions may read of what rows carry: of those of a source, and of others.
SQL_TYPES = {
    TIME: MOMENT,
    RECEIVED: MOMENT,
    KEY: pa.string(),
    PARTITION: pa.int32(),
    OFFSET: pa.int64(),
    WEIGHT: pa.int8(),
}
_OF_SOURCES = tuple(SQL_TYPES)
_OF_OTHERS = (TIME, PARTITION, OFFSET, WEIGHT)

Engine = Literal["arrow", "spark"]
"""What computes a branch: the task itself, on Arrow, or Spark's JVM between two tasks."""

Settling = Literal["net", "new", "upserts"]
"""What a task makes of rows for an end, since it has all that an epoch brings for their keys: the net changes of a view;
new rows of a view that keeps every row; the rows and tombstones of a derived topic."""

ENVELOPE_TYPE = pa.struct(
    [("kept", pa.list_(pa.string())), ("key", pa.string()), ("json", pa.string()), ("position", pa.string())]
)

RAW = ":raw"
"""The origin of a table source's rows, before they are a table."""


@dataclass(frozen=True)
class Branch:
    """Rows of an origin on their way to a target: which, with which columns, to which shard.

    An origin is a source, a stateful node or a transform; a target is an input of a stateful node, a transform, or an end.
    """

    index: int
    origin: str
    target: str
    input: str
    items: tuple[Item, ...]
    condition: str | None
    time: str | None  # a timestamp, where the event time is another one than the origin's
    route: tuple[str, ...]
    schema: pa.Schema  # value columns and the carried ones
    engine: Engine
    reason: str | None = None  # why Spark computes it
    way: int = 0  # the first of its ways to the input, of several, so that a row that comes twice has two ids
    hidden: tuple[str, ...] = ()  # hidden parts of the key
    added: tuple[str, ...] = ()  # those of them that rows are given when they arrive
    by_position: bool = False  # what tells the origin's rows apart is their position in the log
    written: tuple[WrittenExpression, ...] = ()  # what the user wrote of its expressions, and where
    settling: Settling | None = None  # None: the driver does it, or there is nothing to do

    @property
    def picks(self) -> bool:
        """Whether it only picks columns of the origin."""
        return self.condition is None and self.time is None and all(item.column is not None for item in self.items)

    @property
    def arriving(self) -> pa.Schema:
        """The columns as the target sees them: hidden parts of the key come last, whether rows brought them or not."""
        columns = [field for field in self.schema if field.name not in self.hidden]
        return pa.schema([*columns, *((name, hidden_type(name)) for name in self.hidden)])


@dataclass(frozen=True)
class Aside:
    """A topic for late rows, or one whose rows may be quarantined, and its columns."""

    topic: str
    columns: pa.Schema


@dataclass(frozen=True)
class Operator:
    """A stateful node with its kernel."""

    id: str
    kernel: Kernel
    inputs: tuple[str, ...]
    lags: Mapping[str, int]  # id of a watermark that is planned, or held back by a node → how far the node's lags it
    late: Mapping[str, Aside]  # where the late rows of its inputs go, of those whose rows go anywhere
    output: pa.Schema  # value columns
    timed: bool  # the passing of time alone may change its results
    quarantined: Mapping[str, Aside] = field(default_factory=dict)  # of inputs that may have rows it cannot take in
    withheld: Aside | None = None  # where results go that cannot be handed on
    holds_watermark: bool = False  # what its kernel has open holds back the watermark that it passes on


@dataclass(frozen=True)
class Transformed:
    """A transform: its rows, and after which stage they are computed (0: the sources)."""

    id: str
    stage: int
    output: pa.Schema


@dataclass(frozen=True)
class Correction:
    """A clock correction: the watermark of its node follows the corrected times."""

    id: str
    occurred: str
    sent: str
    by: tuple[str, ...]


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
    number: int  # of the topic, part of rows' ids
    clocks: tuple[Correction, ...]
    envelope: Envelope | None = None  # how its rows stand in the topic's messages
    completes: bool = False  # whether rows may lack values that did not change: only its own kernel reads them

    @property
    def origin(self) -> str:
        """Where its rows begin. A table's rows are its changes, which its kernel makes of the topic's."""
        return self.id + RAW if self.is_table else self.id

    @property
    def fields(self) -> pa.Schema:
        """The columns of its rows."""
        return topic_fields(self.columns, self.envelope) if self.is_table else self.columns

    @property
    def watermarks(self) -> tuple[str, ...]:
        """The nodes whose watermarks are planned from its rows."""
        return (self.id, *(clock.id for clock in self.clocks))


@dataclass(frozen=True)
class Waiting:
    """A node that waits for time to pass, for receive time among others. Ids are those of planned watermarks.

    It has nothing to wait for once its watermark is past the newest row of each and how long that is held.
    """

    lags: Mapping[str, int]  # how far the node's watermark lags that one
    holds: Mapping[str, int]  # how long after a row of that one time alone may change something
    hold: int  # the node's own part of it


@dataclass(frozen=True)
class Job:
    """What the driver and all tasks know of a flow."""

    flow: str
    shards: int
    readings: tuple[Reading, ...]
    stages: tuple[tuple[Operator, ...], ...]
    branches: tuple[Branch, ...]
    transforms: tuple[Transformed, ...] = ()
    waiting: tuple[Waiting, ...] = ()
    views: Mapping[str, ViewSpec] = field(default_factory=dict)  # end id → how its store keeps it
    keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # of derived topics, by end id
    names: Mapping[str, str] = field(default_factory=dict)  # what people call nodes, by id

    @property
    def sources(self) -> Mapping[str, pa.Schema]:
        """The origins that are read from the log."""
        return {reading.origin: reading.fields for reading in self.readings}

    @cached_property
    def from_origin(self) -> Mapping[str, tuple[Branch, ...]]:
        """Branches by origin."""
        return _grouped(self.branches, [branch.origin for branch in self.branches])

    @cached_property
    def into_target(self) -> Mapping[str, tuple[Branch, ...]]:
        """Branches by target."""
        return _grouped(self.branches, [branch.target for branch in self.branches])

    @property
    def needs_spark(self) -> bool:
        """Whether some of its rows have to go through Spark's JVM between two tasks."""
        return any(branch.engine == "spark" for branch in self.branches)

    def in_arrow(self, origin: str) -> tuple[Branch, ...]:
        """The branches of an origin that its task computes."""
        return tuple(branch for branch in self.from_origin.get(origin, ()) if branch.engine == "arrow")

    def in_spark(self, origin: str) -> tuple[Branch, ...]:
        """The branches of an origin that Spark computes."""
        return tuple(branch for branch in self.from_origin.get(origin, ()) if branch.engine == "spark")


def _grouped(branches: Sequence[Branch], names: Sequence[str]) -> dict[str, tuple[Branch, ...]]:
    groups: dict[str, list[Branch]] = {}
    for name, branch in zip(names, branches, strict=True):
        groups.setdefault(name, []).append(branch)
    return {name: tuple(group) for name, group in groups.items()}


def struct_name(origin: str) -> str:
    """What expressions call the rows of an origin."""
    return f"s_{zlib.crc32(origin.encode()):08x}"


def carried_names(is_source: bool) -> tuple[str, ...]:
    """What expressions may read of what rows carry."""
    return _OF_SOURCES if is_source else _OF_OTHERS


def sql_fields(columns: pa.Schema, is_source: bool) -> pa.Schema:
    """An origin's columns as expressions see them."""
    return pa.schema([*columns, *((name, SQL_TYPES[name]) for name in carried_names(is_source))])


def with_carried(schema: pa.Schema) -> pa.Schema:
    """Value columns, then the carried ones."""
    return pa.schema([*schema, *CARRIED_FIELDS])


def own_columns(schema: pa.Schema) -> pa.Schema:
    """The value columns of rows, without what every row carries."""
    carried = {RECEIVED, *(name for name, _ in CARRIED_FIELDS)}
    return pa.schema([column for column in schema if column.name not in carried])


def topic_fields(columns: pa.Schema, envelope: Envelope | None) -> pa.Schema:
    """The rows that a table is made of, tombstones among them; what stood in messages may have come in part."""
    fields = columns.append(pa.field(DELETED, pa.bool_()))
    return fields if envelope is None else fields.append(pa.field(ENVELOPE, ENVELOPE_TYPE))


def late_schema(input: pa.Schema, columns: Iterable[str]) -> pa.Schema:
    """Columns of a late topic: the input's own, and the watermark that was missed."""
    own = {name: own_column(name) if own_column(name) in input.names else name for name in columns}
    return pa.schema([*(input.field(own[name]).with_name(name) for name in columns), (WATERMARK, MOMENT)])
