"""A flow made ready to run: its stateful nodes in stages, and the branches that feed them and the ends.

Stages = depth of stateful nodes, not their number. A job is plain data; it travels to the tasks of every stage.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import polars as pl
import pyarrow as pa

from riverrun import ddl
from riverrun.errors import Invalid
from riverrun.flow import Flow
from riverrun.flow.expressions import Expression
from riverrun.flow.nodes import Clock, Dedupe, End, Group, Node, Source, TableSource, Transform, Window
from riverrun.flow.nodes import Topic as TopicEnd
from riverrun.flow.nodes import View as ViewEnd
from riverrun.flow.windows import Side
from riverrun.kernels.kernel import WATERMARK, Kernel
from riverrun.runtime.branch import (
    HIDDEN_IN_SQL,
    OFFSET,
    PARTITION,
    PATHS,
    RECEIVED,
    TIME,
    TOPICS,
    WEIGHT,
    Composition,
    Item,
    Path,
    paths,
)
from riverrun.runtime.operators import filter_column, kernel_of, value_column

MOMENT = pa.timestamp("us", "UTC")
# Every row carries these: event time, weight, and where it stands in the order of its input.
CARRIED = ((TIME, pa.int64()), (WEIGHT, pa.int8()), (PARTITION, pa.int32()), (OFFSET, pa.int64()))
_SQL_TYPES = {
    TIME: MOMENT,
    RECEIVED: MOMENT,
    "_key": pa.string(),
    PARTITION: pa.int32(),
    OFFSET: pa.int64(),
    WEIGHT: pa.int8(),
}

Analyse = Callable[[str, pa.Schema, Sequence[Item]], Mapping[str, pa.DataType]]
"""Types of expressions over the struct of an origin with these fields; asked only for what the flow could not infer."""


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
    path: int = 0  # which of several ways to the same input, so that a row that comes twice has two ids

    @property
    def trivial(self) -> bool:
        """Whether it only picks columns, so that no SQL is needed."""
        return self.condition is None and all(item.column is not None for item in self.items)


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
    fingerprint: str


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
    received: bool  # whether somebody needs `_received`


@dataclass(frozen=True)
class Job:
    """What the driver and all tasks know of a flow."""

    flow: str
    shards: int
    readings: tuple[Reading, ...]
    stages: tuple[tuple[Operator, ...], ...]
    branches: tuple[Branch, ...]
    ends: Mapping[str, str]  # end id → origin-independent name, for errors

    @property
    def streams(self) -> tuple[str, ...]:
        """The sources whose rows are used as they are; those of a table are its changes, which its kernel makes."""
        return tuple(reading.id for reading in self.readings if not reading.is_table)

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

    def has_sql(self, origins: Sequence[str]) -> bool:
        """Whether a projection by Spark is needed behind these origins."""
        return any(not branch.trivial for origin in origins for branch in self.from_origin.get(origin, ()))


def compile_flow(flow: Flow, shards: int, analyse: Analyse | None = None) -> Job:
    """The job of a flow."""
    return _Compiler(flow, shards, analyse).job()


class _Compiler:
    def __init__(self, flow: Flow, shards: int, analyse: Analyse | None) -> None:
        self._flow = flow
        self._shards = shards
        self._analyse = analyse
        self._needed = flow.needed()
        self._branches: list[Branch] = []
        self._outputs: dict[str, pa.Schema] = {}  # origin id → value columns
        self._numbers = _numbers(sorted(flow.topics()))

    def job(self) -> Job:
        flow = self._flow
        for node in flow.nodes:
            if isinstance(node, Transform):
                raise Invalid(f"{node.place}: transform cannot be run yet")
        readings = [self._reading(node) for node in flow.nodes if isinstance(node, Source)]
        fingerprints = flow.fingerprint()
        stages: dict[int, list[Operator]] = {}
        for node in flow.nodes:
            if node.stateful:
                stages.setdefault(flow.depth(node), []).append(self._operator(node, fingerprints[node.id]))
        for end in flow.ends:
            self._end(end)
        return Job(
            flow=flow.name,
            shards=self._shards,
            readings=tuple(readings),
            stages=tuple(tuple(stages[depth]) for depth in sorted(stages)),
            branches=tuple(self._branches),
            ends={end.id: end.name for end in flow.ends},
        )

    def _reading(self, node: Source) -> Reading:
        wanted = [name for name in self._needed[node.id] if name in node.schema]
        clocks = tuple(
            (above.id, above.occurred, above.sent)
            for above in self._flow.nodes
            if isinstance(above, Clock) and any(path.origin is node for path in paths(above.inputs[0]))
        )
        columns = pa.schema([(name, ddl.to_arrow(_known(node.schema[name], node))) for name in wanted])
        self._outputs[node.id] = columns
        return Reading(
            id=node.id,
            topic=node.topic,
            columns=columns,
            time=None if node.event_time == "_received" else node.event_time,
            is_table=isinstance(node, TableSource),
            lateness=node.lateness,
            producers=node.producers,
            idle=node.idle,
            max_skew=node.max_skew,
            number=self._numbers[node.topic],
            clocks=clocks,
            received=bool(clocks) or "_received" in self._needed[node.id],
        )

    def _operator(self, node: Node, fingerprint: str) -> Operator:
        names = ("in",) if len(node.inputs) <= 1 else ("left", "right")
        if isinstance(node, TableSource):
            schema = self._raw(node)
        else:
            schema = self._input(node, node.inputs[0], names[0], self._wanted(node), node.routes[0])
        late = node.late if isinstance(node, Window) and isinstance(node.late, Side) else None
        # A kernel keeps what it knows of; what only the late topic wants passes it by.
        unseen = {*dict(CARRIED), RECEIVED, "_deleted"}
        if late:
            unseen |= set(node.inputs[0].schema) - {name for name, _ in self._aggregated(node)}
        made = kernel_of(node, {f.name: _polars(f.type) for f in schema if f.name not in unseen})
        output = self._output(node, schema, made)
        self._outputs[node.id] = output
        return Operator(
            id=node.id,
            kernel=made,
            inputs=names,
            lags=self._flow.lags(node) if not isinstance(node, Source) else {node.id: 0},
            late_topic=late.topic if late else None,
            late=late_schema(schema, node.inputs[0].schema) if late else None,
            output=output,
            fingerprint=fingerprint,
        )

    def _raw(self, node: TableSource) -> pa.Schema:
        """A topic's rows with tombstones, for the kernel that makes a table of them."""
        columns = self._outputs[node.id]
        names = [*columns.names, "_deleted"]
        schema = pa.schema([*columns, ("_deleted", pa.bool_()), *CARRIED])
        items = tuple(Item(name, name, f"`s`.`{name}`") for name in names)
        self._add(node.id + RAW, node.id, "in", items, None, node.key, schema)
        return schema

    def _wanted(self, node: Node) -> list[tuple[str, Expression | None]]:
        """The columns a node's kernel reads: (name, expression over its input's columns; None: the column itself)."""
        below = node.inputs[0]
        if isinstance(node, Window | Group):
            aggregated = self._aggregated(node)
            if isinstance(node, Window) and isinstance(node.late, Side):
                aggregated += [(name, None) for name in below.schema if name not in node.by]
            return aggregated
        needed = self._needed[below.id]
        columns: list[tuple[str, Expression | None]] = [(name, None) for name in below.schema if name in needed]
        if isinstance(node, Clock | Dedupe):  # a device's offsets, and which row came first
            columns.append((RECEIVED, None))
        return columns

    def _aggregated(self, node: Node) -> list[tuple[str, Expression | None]]:
        assert isinstance(node, Window | Group)
        wanted: list[tuple[str, Expression | None]] = [(name, None) for name in node.by]
        for number, made in enumerate(node.measures):
            if made.value:
                wanted.append((value_column(number), made.value))
            if made.where:
                wanted.append((filter_column(number), made.where))
        return wanted

    def _input(
        self, node: Node, below: Node, input: str, wanted: list[tuple[str, Expression | None]], route: tuple[str, ...]
    ) -> pa.Schema:
        schema = None
        for path in paths(below):
            items, condition, made = self._compose(path, wanted, below)
            schema = schema or made
            if made != schema:
                raise Invalid(f"{node.place}: the branches of a union have other types: {made} and {schema}")
            self._add(path.origin.id, node.id, input, items, condition, route, made)
        assert schema is not None
        return schema

    def _compose(
        self, path: Path, wanted: list[tuple[str, Expression | None]], below: Node
    ) -> tuple[tuple[Item, ...], str | None, pa.Schema]:
        origin = self._outputs[path.origin.id]
        hidden = hidden_names(isinstance(path.origin, Source))
        composed = Composition({**dict.fromkeys(origin.names), **dict.fromkeys(hidden)}, struct_name(path.origin.id))
        composed.follow(path)
        items = tuple(composed.item(name, source) for name, source in wanted)
        types: dict[str, pa.DataType] = {}
        for item, (name, source) in zip(items, wanted, strict=True):
            known = source.type if source else below.schema.get(name)
            if item.column is not None and item.column in origin.names:
                types[name] = origin.field(item.column).type
            elif item.column is not None:
                types[name] = _SQL_TYPES[item.column]
            elif known is not None:
                types[name] = ddl.to_arrow(known)
        unknown = [item for item in items if item.name not in types]
        if unknown:
            if self._analyse is None:
                raise Invalid(f"{below.place}: the type of {unknown[0].sql} is not known without Spark", hint="Cast it")
            types.update(self._analyse(path.origin.id, sql_fields(origin, isinstance(path.origin, Source)), unknown))
        schema = pa.schema([*((item.name, types[item.name]) for item in items), *CARRIED])
        return items, composed.condition, schema

    def _output(self, node: Node, schema: pa.Schema, kernel: Kernel) -> pa.Schema:
        """Value columns of a stateful node: types as the flow knows them, else as they came in or as they are made."""
        fields = []
        aggregates = getattr(kernel, "aggregates", None)
        for name, known in node.schema.columns:
            if known is not None:
                fields.append((name, ddl.to_arrow(known)))
            elif name in schema.names:
                fields.append((name, schema.field(name).type))
            elif aggregates is not None and name in aggregates.schema:
                made = pl.DataFrame(schema={name: aggregates.schema[name]}).to_arrow().schema.field(0)
                fields.append((name, ddl.to_arrow(ddl.from_arrow(made.type))))
            else:
                raise Invalid(f"{node.place}: the type of {name} is not known", hint="Cast it: cast(… as double)")
        if isinstance(node, Clock | Dedupe):  # they hand rows on as they came
            fields = [*(field for field in fields if field[0] in schema.names), (RECEIVED, MOMENT)]
        return pa.schema(fields)

    def _end(self, end: End) -> None:
        if not isinstance(end, ViewEnd | TopicEnd):
            raise Invalid(f"{end.place}: an {end.kind} cannot be run yet")
        wanted: list[tuple[str, Expression | None]] = [(name, None) for name in end.node.schema]
        found = list(paths(end.node))
        newest_wins = isinstance(end, ViewEnd) and not end.node.is_table and not end.keeps_all
        if newest_wins and all(isinstance(path.origin, Source | Clock | Dedupe) for path in found):
            wanted.append((RECEIVED, None))
        for path in found:
            items, condition, schema = self._compose(path, wanted, end.node)
            self._add(path.origin.id, end.id, "", items, condition, (), schema)

    def _add(
        self,
        origin: str,
        target: str,
        input: str,
        items: tuple[Item, ...],
        condition: str | None,
        route: tuple[str, ...],
        schema: pa.Schema,
    ) -> None:
        path = sum(branch.target == target and branch.input == input for branch in self._branches)
        if path >= PATHS:
            raise Invalid(
                f"{self._flow.name}: {target} has more than {PATHS} inputs", hint="Split the union in two flows"
            )
        branch = Branch(len(self._branches), origin, target, input, items, condition, route, schema, path)
        self._branches.append(branch)


def struct_name(origin: str) -> str:
    """The column of an origin's rows where Spark computes with them."""
    return f"s_{zlib.crc32(origin.encode()):08x}"


def hidden_names(is_source: bool) -> tuple[str, ...]:
    """The hidden columns that expressions may read."""
    return HIDDEN_IN_SQL if is_source else (TIME, PARTITION, OFFSET, WEIGHT)


def sql_fields(columns: pa.Schema, is_source: bool) -> pa.Schema:
    """Fields of an origin's struct in Spark."""
    return pa.schema([*columns, *((name, _SQL_TYPES[name]) for name in hidden_names(is_source))])


def late_schema(input: pa.Schema, columns: Iterable[str]) -> pa.Schema:
    """Columns of a late topic: the input's own, and the watermark that was missed."""
    return pa.schema([*(input.field(name) for name in columns), (WATERMARK, MOMENT)])


RAW = ":raw"
"""The origin of a table source's rows, before they are a table."""


def _known(kind: ddl.Type | None, node: Node) -> ddl.Type:
    assert kind is not None, node.place
    return kind


def _numbers(topics: Sequence[str]) -> dict[str, int]:
    """A number for each topic that stays when topics come and go, for ids of rows across topics."""
    taken: dict[int, str] = {}
    for topic in topics:
        number = zlib.crc32(topic.encode()) % TOPICS
        while number in taken:
            number = (number + 1) % TOPICS
        taken[number] = topic
    return {topic: number for number, topic in taken.items()}


def _polars(kind: pa.DataType) -> pl.DataType:
    return pl.from_arrow(pa.schema([("x", kind)]).empty_table()).schema["x"]  # type: ignore[union-attr]
