"""Flow → job: which columns go where, by which branches, and what every stateful node's kernel is told."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import polars as pl
import pyarrow as pa

from riverrun import ddl
from riverrun.columns import CARRIED, DELETED, ENVELOPE, RECEIVED, ROW_ID
from riverrun.errors import Invalid, did_you_mean
from riverrun.flow import Flow
from riverrun.flow.analysis import clocks, depth, followed, holds, lags, sources
from riverrun.flow.composition import paths
from riverrun.flow.expressions import Wanted
from riverrun.flow.fingerprint import needed
from riverrun.flow.operators.ends import End
from riverrun.flow.operators.node import Node, Row
from riverrun.flow.operators.source import Source
from riverrun.flow.operators.table import TableSource
from riverrun.runtime.compile.branch import Analyst, Branches, Request, Target
from riverrun.runtime.compile.job import (
    MOMENT,
    RAW,
    Aside,
    Branch,
    Correction,
    Engine,
    Job,
    Operator,
    Reading,
    Settling,
    Transformed,
    Waiting,
    late_schema,
    own_columns,
    topic_fields,
)
from riverrun.runtime.compile.row_id import hidden_type, topic_numbers
from riverrun.runtime.compile.view_spec import view_spec
from riverrun.runtime.operators import kernel_of
from riverrun.runtime.quarantine import quarantine_topic


def compile_flow(flow: Flow, shards: int, analyst: Analyst | None = None, engine: Engine = "arrow") -> Job:
    """The job of a flow. Without an analyst, only what can be known without Spark; `engine` is for expressions."""
    return _Compiler(flow, shards, analyst, engine).job()


class _Compiler:
    def __init__(self, flow: Flow, shards: int, analyst: Analyst | None, engine: Engine) -> None:
        self._flow = flow
        self._shards = shards
        self._analyst = analyst
        self._needed = needed(flow.nodes, flow.ends)
        self._branches = Branches(flow.name, analyst, engine)
        self._numbers = topic_numbers(flow.inputs)

    def job(self) -> Job:
        flow = self._flow
        readings = [self._reading(source) for source in sources(flow.nodes)]
        read = self._origins()
        stages: dict[int, list[Operator]] = {}
        transforms: list[Transformed] = []
        for node in flow.nodes:
            if node.by_spark:
                transforms.append(self._transform(node))
            elif node.stateful and node.id in read:
                stages.setdefault(depth(node), []).append(self._operator(node))
        for end in flow.ends:
            self._end(end)
        job = Job(
            flow=flow.name,
            shards=self._shards,
            readings=tuple(readings),
            stages=tuple(tuple(stages[stage]) for stage in sorted(stages)),
            branches=tuple(self._branches.laid),
            transforms=tuple(transforms),
            names=dict(flow.graph.names),
            waiting=tuple(self._waiting()),
        )
        views = {end.id: view_spec(flow, job, end) for end in flow.views.values()}
        return replace(job, views=views, keys={end.id: end.key for end in flow.derived.values()})

    def _origins(self) -> set[str]:
        """The origins somebody reads. A table of which only the versions are wanted need not be made."""
        targets = [end.node for end in self._flow.ends]
        for node in self._flow.nodes:
            if node.stateful or node.by_spark:
                targets += [below for number, below in enumerate(node.inputs) if not node.reads_versions(number)]
        return {path.origin.id for node in targets for path in paths(node)}

    def _waiting(self) -> Iterator[Waiting]:
        """The nodes for which receive time passes, also when nothing comes."""
        passing = {source.id for source in sources(self._flow.nodes) if source.event_time == RECEIVED}
        for node in self._flow.nodes:
            if node.stateful and node.hold and passing & set(lags(node)):
                yield Waiting(lags(node), holds(node), node.hold)

    def _reading(self, node: Source) -> Reading:
        wanted = [name for name in self._needed[node.id] if name in node.schema]
        columns = pa.schema([(name, ddl.to_arrow(_known(node.schema[name], node))) for name in wanted])
        self._branches.add_origin(node, columns)
        envelope = node.envelope if isinstance(node, TableSource) else None
        self._branches.outputs[node.id + RAW] = topic_fields(columns, envelope)
        timed = node.event_time != RECEIVED  # else no producer can lag another
        return Reading(
            id=node.id,
            topic=node.topic,
            columns=columns,
            time=node.event_time if timed else None,
            is_table=node.stateful,
            lateness=node.lateness,
            producers=node.producers if timed else None,
            idle=node.idle if timed else None,
            max_skew=node.max_skew,
            number=self._numbers[node.topic],
            clocks=tuple(Correction(c.id, c.occurred, c.sent, c.by) for c in clocks(node, self._flow.nodes)),
            envelope=envelope,
            completes=node.id not in self._read_as_versions(),
        )

    def _read_as_versions(self) -> set[str]:
        """The tables of which somebody reads the versions as they come."""
        return {
            path.origin.id
            for node in self._flow.nodes
            for number, below in enumerate(node.inputs)
            if node.reads_versions(number)
            for path in paths(below)
        }

    def _operator(self, node: Node) -> Operator:
        inputs = {name: self._input(node, number, name) for number, name in enumerate(node.input_names)}
        # A kernel keeps what it knows of; what rows carry, and what only late rows are written with, passes it by.
        carried = {*CARRIED, RECEIVED, DELETED, ENVELOPE}
        seen = {
            name: {f.name: _polars(f.type) for f in schema if f.name not in carried | node.passed_by(number)}
            for number, (name, schema) in enumerate(inputs.items())
        }
        output = self._output(node, inputs)
        self._branches.add_origin(node, output)
        return Operator(
            id=node.id,
            kernel=kernel_of(node, seen),
            inputs=node.input_names,
            lags=followed(node),
            holds_watermark=node.holds_watermark,
            late={
                name: Aside(node.late_topics[name], late_schema(inputs[name], below.schema))
                for name, below in zip(node.input_names, node.inputs, strict=False)
                if name in node.late_topics
            },
            output=output,
            timed=node.timed,
            quarantined={
                name: Aside(topic or f"{self._flow.name}.{node.id}", own_columns(inputs[name]))
                for name, topic in node.quarantines.items()
            },
            withheld=self._withheld(node, output) if node.withholds else None,
        )

    def _withheld(self, node: Node, output: pa.Schema) -> Aside:
        called = self._flow.graph.names.get(node.id, node.id)
        columns = [field for field in output if not field.name.startswith("_")]
        topic = quarantine_topic(f"{self._flow.name}.{called}")
        return Aside(topic, pa.schema([*columns, ("_error", pa.string())]))

    def _input(self, node: Node, number: int, name: str) -> pa.Schema:
        """The branches to one input of a node; the columns it gets."""
        target = Target(node.id, str(node.place), name, node.routes[number] if node.routes else ())
        if not node.inputs:  # a table source reads its topic's rows, tombstones among them
            fields = self._branches.outputs[node.id + RAW]
            if ENVELOPE in fields.names:  # a message may be about two keys, one of which is in another partition
                fields = fields.append(pa.field(RECEIVED, MOMENT))
            return self._branches.pick(node.id + RAW, target, fields).schema
        below = node.inputs[number]
        columns = [column for column in self._columns(below) if below.schema.open or column in self._needed[below.id]]
        wanted = node.reads(number, columns)
        if node.reads_receipt(number):
            wanted.append((RECEIVED, None))
        ways = list(paths(below))
        request = Request(
            node=below,
            wanted=wanted,
            types={column: ddl.to_arrow(kind) for column, kind in node.key_types(number).items()},
            hidden=below.hidden_key if node.key_travels else (),
            versions=node.reads_versions(number),
            absences=node.reads_absences(number),
            united=len(ways) > 1,
        )
        schemas = [self._branches.lay(path, target, request).arriving for path in ways]
        for schema in schemas:
            if not schema.equals(schemas[0]):
                raise Invalid(f"{node.place}: the branches of a union have other types: {schema} and {schemas[0]}")
        return schemas[0]

    def _output(self, node: Node, inputs: Mapping[str, pa.Schema]) -> pa.Schema:
        """Value columns of a stateful node: types as the flow knows them, else as they follow from what comes in."""
        types = {name: {field.name: ddl.from_arrow(field.type) for field in schema} for name, schema in inputs.items()}
        columns = [(name, ddl.to_arrow(_told(name, kind, node))) for name, kind in node.resolve(types)]
        if node.hands_on_wanted:
            columns = [column for column in columns if column[0] in self._needed[node.id]]
        if node.passes_rows:
            columns = [column for column in columns if column[0] in inputs["in"].names]
        if node.key_travels:
            hidden = [name for name in node.hidden_key if not (name == ROW_ID and node.row_id_is_position)]
            columns += [(name, hidden_type(name)) for name in hidden]
        if node.hands_on_receipt:
            columns.append((RECEIVED, MOMENT))
        return pa.schema(columns)

    def _transform(self, node: Node) -> Transformed:
        """The branches to a transform, and what Spark says that it makes of them."""
        (below,) = node.inputs
        if below.hidden_key:
            raise Invalid(
                f"{node.place}: transform cannot follow a union or a full join of tables", hint="Use it on each of them"
            )
        if self._analyst is None:
            raise Invalid(f"{node.place}: transform is plain Spark", hint='Run the flow with engine="spark"')
        wanted: Wanted = [(name, None) for name in self._columns(below)]
        received = not below.is_table and below.orders_by_receipt
        if received:
            wanted.append((RECEIVED, None))
        request = Request(below, wanted)
        laid = [
            self._branches.lay(path, Target(node.id, str(node.place)), request, by_spark=True) for path in paths(below)
        ]
        given = pa.schema([field for field in laid[0].schema if field.name not in (*CARRIED, RECEIVED)])
        columns = self._analyst.transformed(node, given)
        for name in node.schema:
            if name not in columns.names:
                raise Invalid(
                    f"{node.place}: transform makes no column {name!r}", hint=did_you_mean(name, columns.names)
                )
        kept = [(f.name, ddl.to_arrow(node.schema.get(f.name) or ddl.from_arrow(f.type))) for f in columns]
        if not node.schema.open:
            kept = [column for column in kept if column[0] in node.schema]
        output = pa.schema([*kept, *([(RECEIVED, MOMENT)] if received else [])])
        self._branches.add_origin(node, output)
        return Transformed(node.id, depth(node), output)

    def _columns(self, node: Node) -> list[str]:
        """The columns of a node, also of one after a transform that only Spark knows."""
        if not node.schema.open:
            return list(node.schema)
        if not isinstance(node, Row) or node.by_spark:
            return [name for name in self._branches.outputs[node.id].names if name != RECEIVED]
        return node.widen(self._columns(node.inputs[0]))

    def _end(self, end: End) -> None:
        wanted: Wanted = [(name, None) for name in self._columns(end.node)]
        if end.order_counts and end.node.orders_by_receipt:
            wanted.append((RECEIVED, None))
        ways = list(paths(end.node))
        request = Request(end.node, wanted, hidden=end.hidden_key, united=len(ways) > 1)
        for path in ways:
            branch = self._branches.lay(path, Target(end.id, str(end.place)), request)
            if len(ways) == 1 and branch.engine == "arrow":
                self._branches.laid[branch.index] = replace(branch, settling=_settling(end, path.origin, branch))


def _settling(end: End, origin: Node, branch: Branch) -> Settling | None:
    """Whether one task has everything that an epoch brings for a key of an end: its origin's shards are by that key."""
    if end.settles_new and not end.node.retracts:
        return "new"
    if not end.node.is_table or end.settling is None:
        return None
    in_key = {item.column for item in branch.items if item.name in end.key}
    return end.settling if set(origin.routes[0]) <= in_key else None


def _known(kind: ddl.Type | None, node: Node) -> ddl.Type:
    assert kind is not None, node.place
    return kind


def _told(name: str, kind: ddl.Type | None, node: Node) -> ddl.Type:
    if kind is None:
        raise Invalid(f"{node.place}: the type of {name} is not known", hint="Cast it: cast(… as double)")
    return kind


def _polars(kind: pa.DataType) -> pl.DataType:
    return pl.from_arrow(pa.schema([("x", kind)]).empty_table()).schema["x"]  # type: ignore[union-attr]
