"""Flow → job: which columns go where, by which branches, and what every stateful node's kernel is told."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence

import polars as pl
import pyarrow as pa

from riverrun import ddl
from riverrun.columns import DELETED, RECEIVED, ROW_ID
from riverrun.errors import Invalid, did_you_mean
from riverrun.flow import Flow
from riverrun.flow.nodes import (
    AlertEnd,
    AsOf,
    Changes,
    ClockNode,
    Dedupe,
    Drop,
    End,
    Group,
    Join,
    JoinStreams,
    JoinTables,
    Lookup,
    Node,
    Source,
    TableSource,
    Top,
    Transform,
    ViewEnd,
    Window,
    unseen,
)
from riverrun.flow.windows import Side
from riverrun.kernels.kernel import Kernel
from riverrun.runtime.branch import TOPICS, Item, paths
from riverrun.runtime.job import (
    CARRIED_FIELDS,
    HIDDEN_KEYS,
    MOMENT,
    RAW,
    Job,
    Operator,
    Reading,
    Transformed,
    base_name,
    late_schema,
    raw,
)
from riverrun.runtime.operators import filter_column, kernel_of, order_column, reads_versions, value_column
from riverrun.runtime.wiring import Analyst, Wanted, Wiring

# Streams hand on when a row came in: other rows are compared with it in the order of the log.
_STREAMS = (ClockNode, Dedupe, JoinStreams, Lookup, AsOf, Changes)
# These hand rows on under the ids they came with.
_PASSING = (ClockNode, Dedupe, Lookup, AsOf, Top)


def compile_flow(flow: Flow, shards: int, analyst: Analyst | None = None) -> Job:
    """The job of a flow."""
    return _Compiler(flow, shards, analyst).job()


class _Compiler:
    def __init__(self, flow: Flow, shards: int, analyst: Analyst | None) -> None:
        self._flow = flow
        self._shards = shards
        self._analyst = analyst
        self._needed = flow.needed()
        self._wiring = Wiring(flow.name, analyst)
        self._numbers = _numbers(flow.inputs)

    def job(self) -> Job:
        flow = self._flow
        readings = [self._reading(node) for node in flow.nodes if isinstance(node, Source)]
        read = self._read()
        stages: dict[int, list[Operator]] = {}
        transforms: list[Transformed] = []
        for node in flow.nodes:
            if isinstance(node, Transform):
                transforms.append(self._transform(node))
            elif node.stateful and node.id in read:
                stages.setdefault(depth(node), []).append(self._operator(node))
        for end in flow.ends:
            self._end(end)
        return Job(
            flow=flow.name,
            shards=self._shards,
            readings=tuple(readings),
            stages=tuple(tuple(stages[depth]) for depth in sorted(stages)),
            branches=tuple(self._wiring.branches),
            transforms=tuple(transforms),
        )

    def _read(self) -> set[str]:
        """The origins somebody reads. A table of which only the versions are wanted need not be made."""
        targets = [end.node for end in self._flow.ends]
        for node in self._flow.nodes:
            if node.stateful or isinstance(node, Transform):
                targets += [below for below in node.inputs if not reads_versions(node, below)]
        return {path.origin.id for node in targets for path in paths(node)}

    def _reading(self, node: Source) -> Reading:
        wanted = [name for name in self._needed[node.id] if name in node.schema]
        clocks = tuple(
            (above.id, above.occurred, above.sent)
            for above in self._flow.nodes
            if isinstance(above, ClockNode) and any(path.origin is node for path in paths(above.inputs[0]))
        )
        columns = pa.schema([(name, ddl.to_arrow(_known(node.schema[name], node))) for name in wanted])
        self._wiring.outputs[node.id] = columns
        self._wiring.outputs[node.id + RAW] = raw(columns)
        timed = node.event_time != RECEIVED  # else nobody can be behind another
        return Reading(
            id=node.id,
            topic=node.topic,
            columns=columns,
            time=node.event_time if timed else None,
            is_table=isinstance(node, TableSource),
            lateness=node.lateness,
            producers=node.producers if timed else None,
            idle=node.idle if timed else None,
            max_skew=node.max_skew,
            number=self._numbers[node.topic],
            clocks=clocks,
            holds=tuple(self._flow.holds(node)),
        )

    def _operator(self, node: Node) -> Operator:
        names = ("in",) if len(node.inputs) <= 1 else ("left", "right")
        if isinstance(node, TableSource):
            schemas = {"in": self._raw(node)}
        else:
            schemas = {name: self._input(node, number, name) for number, name in enumerate(names)}
        late = node.late if isinstance(node, Window) and isinstance(node.late, Side) else None
        # A kernel keeps what it knows of; what only the late topic wants passes it by.
        unseen = {*dict(CARRIED_FIELDS), RECEIVED, DELETED}
        if late:
            unseen |= set(node.inputs[0].schema) - {name for name, _ in self._aggregated(node)}
        seen = {name: {f.name: _polars(f.type) for f in s if f.name not in unseen} for name, s in schemas.items()}
        made = kernel_of(node, seen)
        if isinstance(node, _PASSING):
            self._wiring.passing.add(node.id)
        output = self._output(node, schemas, made)
        self._wiring.outputs[node.id] = output
        return Operator(
            id=node.id,
            kernel=made,
            inputs=names,
            lags=self._flow.lags(node) if not isinstance(node, Source) else {node.id: 0},
            late_topic=late.topic if late else None,
            late=late_schema(schemas["in"], node.inputs[0].schema) if late else None,
            output=output,
        )

    def _transform(self, node: Transform) -> Transformed:
        """The branches to a transform, and what Spark says that it makes of them."""
        (below,) = node.inputs
        if hidden_key(below):
            raise Invalid(f"{node.place}: transform cannot follow a union of tables", hint="Use it on each of them")
        if self._analyst is None:
            raise Invalid(f"{node.place}: transform needs Spark")
        self._wiring.transforms.add(node.id)
        wanted: Wanted = [(name, None) for name in self._columns(below)]
        received = not below.is_table and all(_tells_order(path.origin) for path in paths(below))
        if received:
            wanted.append((RECEIVED, None))
        schema = None
        for path in paths(below):
            items, condition, made = self._wiring.compose(path, wanted, below, {}, False, ())
            self._wiring.add(path.origin.id, node.id, "", items, condition, (), made)
            schema = schema or made
        assert schema is not None
        given = pa.schema([field for field in schema if field.name not in (*dict(CARRIED_FIELDS), RECEIVED)])
        made = self._analyst.transformed(node, given)
        for name in node.schema:
            if name not in made.names:
                raise Invalid(f"{node.place}: transform makes no column {name!r}", hint=did_you_mean(name, made.names))
        kept = [(f.name, ddl.to_arrow(node.schema.get(f.name) or ddl.from_arrow(f.type))) for f in made]
        if not node.schema.open:
            kept = [field for field in kept if field[0] in node.schema]
        output = pa.schema([*kept, *([(RECEIVED, MOMENT)] if received else [])])
        self._wiring.outputs[node.id] = output
        return Transformed(node.id, depth(node), output)

    def _columns(self, node: Node) -> list[str]:
        """The columns of a node, also of one behind a transform that only Spark knows."""
        if not node.schema.open:
            return list(node.schema)
        if isinstance(node, Transform) or node.stateful:
            return [name for name in self._wiring.outputs[node.id].names if name != RECEIVED]
        below = self._columns(node.inputs[0])
        dropped = node.names if isinstance(node, Drop) else ()
        return list(dict.fromkeys([*(name for name in below if name not in dropped), *node.schema]))

    def _raw(self, node: TableSource) -> pa.Schema:
        """A topic's rows with tombstones, for the kernel that makes a table of them."""
        columns = self._wiring.outputs[node.id + RAW]
        schema = pa.schema([*columns, *CARRIED_FIELDS])
        items = tuple(Item(name, name, f"`s`.{ddl.backquoted(name)}") for name in columns.names)
        self._wiring.add(node.id + RAW, node.id, "in", items, None, node.key, schema)
        return schema

    def _wanted(self, node: Node, number: int) -> Wanted:
        below = node.inputs[number]
        if isinstance(node, Window | Group):
            aggregated = self._aggregated(node)
            if isinstance(node, Window) and isinstance(node.late, Side):
                aggregated += [(name, None) for name in below.schema if name not in node.by]
            return aggregated
        needed = self._needed[below.id]
        columns: Wanted = [(name, None) for name in self._columns(below) if below.schema.open or name in needed]
        if isinstance(node, Top):
            columns += [(order_column(i), part.expression) for i, part in enumerate(node.order)]
        # A device's offsets, which row came first, which version is the newer.
        streams = isinstance(node, ClockNode | Dedupe | JoinStreams) or (
            isinstance(node, Lookup | AsOf) and number == 0
        )
        if streams or reads_versions(node, below):
            columns.append((RECEIVED, None))
        return columns

    def _aggregated(self, node: Node) -> Wanted:
        assert isinstance(node, Window | Group)
        wanted: Wanted = [(name, None) for name in node.by]
        for number, made in enumerate(node.measures):
            if made.value:
                wanted.append((value_column(number), made.value))
            if made.where:
                wanted.append((filter_column(number), made.where))
        return wanted

    def _input(self, node: Node, number: int, input: str) -> pa.Schema:
        """The branches to one input of a node; the columns it gets."""
        below, wanted = node.inputs[number], self._wanted(node, number)
        route = node.routes[number] if node.routes else ()
        kinds: dict[str, pa.DataType] = {}
        if isinstance(node, Join):  # both sides of `on` in the same type
            for pair in node.on:
                if pair.type is not None:
                    kinds[pair.left if number == 0 else pair.right] = ddl.to_arrow(pair.type)
        hidden = hidden_key(below) if isinstance(node, JoinTables | Changes | Top) else ()
        versions = reads_versions(node, below)
        schema = None
        found = list(paths(below))
        for path in found:
            items, condition, made = self._wiring.compose(path, wanted, below, kinds, versions, hidden)
            origin = path.origin.id + (RAW if versions else "")
            placed = _rides(path.origin, ROW_ID)
            united = len(found) > 1
            branch = self._wiring.add(origin, node.id, input, items, condition, route, made, hidden, placed, united)
            schema = schema or branch.arriving
            if not branch.arriving.equals(schema):
                raise Invalid(f"{node.place}: the branches of a union have other types: {branch.arriving} and {schema}")
        assert schema is not None
        return schema

    def _output(self, node: Node, schemas: Mapping[str, pa.Schema], kernel: Kernel) -> pa.Schema:
        """Value columns of a stateful node: types as the flow knows them, else as they came in or as they are made."""
        inner = schemas[next(iter(schemas))]
        fields = []
        if isinstance(node, Join):
            sides = {"key": "left", "left": "left", "right": "right"}
            for part in node.outputs:
                came = schemas[sides[part.side]]
                kind = (
                    came.field(part.column).type if part.column in came.names else ddl.to_arrow(_known(part.type, node))
                )
                fields.append((part.name, kind))
        else:
            fields = [(name, self._type(node, name, known, inner, kernel)) for name, known in node.schema.columns]
            if node.schema.open:
                known_here = {name for name, _ in fields}
                fields += [(f.name, f.type) for f in inner if f.name not in known_here and not f.name.startswith("_")]
        if isinstance(node, ClockNode | Dedupe):  # they hand rows on as they came
            fields = [field for field in fields if field[0] in inner.names]
        if isinstance(node, JoinTables | Top):  # what tells their rows apart goes with them
            fields += [(name, HIDDEN_KEYS[base_name(name)]) for name in hidden_key(node) if not _rides(node, name)]
        if isinstance(node, _STREAMS):
            fields.append((RECEIVED, MOMENT))
        return pa.schema(fields)

    def _type(self, node: Node, name: str, known: ddl.Type | None, inner: pa.Schema, kernel: Kernel) -> pa.DataType:
        aggregates = getattr(kernel, "aggregates", None)
        if known is not None:
            return ddl.to_arrow(known)
        if name in inner.names:
            return inner.field(name).type
        if aggregates is not None and name in aggregates.schema:
            made = pl.DataFrame(schema={name: aggregates.schema[name]}).to_arrow().schema.field(0)
            return ddl.to_arrow(ddl.from_arrow(made.type))
        if isinstance(node, Changes) and name != "_op":
            visible = node.inputs[0].schema
            return pa.struct([field for field in inner if field.name in visible])
        raise Invalid(f"{node.place}: the type of {name} is not known", hint="Cast it: cast(… as double)")

    def _end(self, end: End) -> None:
        wanted: Wanted = [(name, None) for name in self._columns(end.node)]
        found = list(paths(end.node))
        hidden: tuple[str, ...] = ()
        if isinstance(end, ViewEnd | AlertEnd):
            hidden = unseen(end.key if isinstance(end, ViewEnd) else end.node.key, end.node)
            if not end.node.is_table or all(_rides(path.origin, ROW_ID) for path in found):
                hidden = tuple(name for name in hidden if name != ROW_ID)
            keeps_all = isinstance(end, AlertEnd) or end.keeps_all
            if not end.node.is_table and not keeps_all and all(_tells_order(path.origin) for path in found):
                wanted.append((RECEIVED, None))  # the newest row wins
        for path in found:
            items, condition, schema = self._wiring.compose(path, wanted, end.node, {}, False, hidden)
            placed = _rides(path.origin, ROW_ID)
            self._wiring.add(path.origin.id, end.id, "", items, condition, (), schema, hidden, placed, len(found) > 1)


def depth(node: Node) -> int:
    """The stage of a node, from 1: how many stateful nodes its rows pass, itself included."""
    below = (depth(part) for part in node.inputs if not reads_versions(node, part))
    return max(below, default=0) + node.stateful


def hidden_key(node: Node) -> tuple[str, ...]:
    """The parts of a table's key that are none of its columns."""
    return unseen(node.key, node)


def _rides(node: Node, name: str) -> bool:
    """Whether a row's id need not be a column, since it is where the row stands in the log, and that is carried."""
    return name == ROW_ID and isinstance(node, Top) and not node.inputs[0].is_table


def _tells_order(origin: Node) -> bool:
    if isinstance(origin, Transform):
        return not origin.is_table and all(_tells_order(path.origin) for path in paths(origin.inputs[0]))
    return isinstance(origin, (Source, *_STREAMS)) and not isinstance(origin, TableSource)


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
