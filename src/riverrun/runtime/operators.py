"""Stateful nodes of a flow → kernels, configured for the columns that reach them. `KERNELS` is the whole table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import polars as pl
import pyarrow as pa

from riverrun import ddl
from riverrun.columns import filter_column, order_column, value_column
from riverrun.flow import windows
from riverrun.flow.operators.apply import Apply, PerKey
from riverrun.flow.operators.as_of import AsOf
from riverrun.flow.operators.changes import Changes
from riverrun.flow.operators.dedupe import Dedupe
from riverrun.flow.operators.group import Group
from riverrun.flow.operators.join import Join
from riverrun.flow.operators.join_streams import JoinStreams
from riverrun.flow.operators.join_tables import JoinTables
from riverrun.flow.operators.latest import Latest
from riverrun.flow.operators.lookup import Lookup
from riverrun.flow.operators.match import ONE, Match
from riverrun.flow.operators.node import Node
from riverrun.flow.operators.ordered import Ordered
from riverrun.flow.operators.percolate import Percolate
from riverrun.flow.operators.rule_match import RuleMatch
from riverrun.flow.operators.sample import Sample
from riverrun.flow.operators.table import TableSource
from riverrun.flow.operators.top import Newest, OnePerKey, Top
from riverrun.flow.operators.versus import Versus
from riverrun.flow.operators.window import Window
from riverrun.flow.schema import Schema
from riverrun.kernels.aggregates import Agg, Aggregates
from riverrun.kernels.apply import ApplyKernel
from riverrun.kernels.as_of import AsOfKernel
from riverrun.kernels.changes import ChangesKernel
from riverrun.kernels.dedupe import DedupeKernel
from riverrun.kernels.group import GroupKernel
from riverrun.kernels.hopping import HoppingKernel
from riverrun.kernels.join_streams import JoinStreamsKernel
from riverrun.kernels.join_tables import JoinTablesKernel
from riverrun.kernels.kernel import Kernel
from riverrun.kernels.latest import LatestKernel
from riverrun.kernels.lookup import LookupKernel
from riverrun.kernels.match import MatchKernel
from riverrun.kernels.match_output import MatchOutput, value_kind
from riverrun.kernels.ordered import OrderedKernel
from riverrun.kernels.per_key import step_by_key
from riverrun.kernels.percolate import PercolateKernel
from riverrun.kernels.rule_match import RuleMatchKernel
from riverrun.kernels.rulebook import Rulebook, RuleLimits
from riverrun.kernels.sample import SampleKernel
from riverrun.kernels.session import SessionKernel
from riverrun.kernels.sides import JoinOutput, Sides
from riverrun.kernels.sliding import SlidingKernel
from riverrun.kernels.table import TableKernel
from riverrun.kernels.top import OrderBy, TopKernel
from riverrun.kernels.tumbling import TumblingKernel
from riverrun.kernels.versus import VersusKernel
from riverrun.rules.rule import RuleReader

Columns = Mapping[str, pl.DataType]
"""The columns of an input, those every row carries apart."""


def kernel_of(node: Node, inputs: Mapping[str, Columns]) -> Kernel:
    """The kernel of a stateful node whose inputs have these columns."""
    return KERNELS[type(node)](node, inputs)


def _window(node: Window, inputs: Mapping[str, Columns]) -> Kernel:
    columns = inputs["in"]
    span = None if isinstance(node.window, windows.Session) else node.window.size
    aggregates = _aggregates(node, columns, span)
    policy: dict[str, Any] = {
        "horizon": node.late.horizon,
        "aside": bool(node.late_topics),
        "update": node.emit == "update",
    }
    match node.window:
        case windows.Tumbling(size, offset):
            return TumblingKernel(node.by, size, aggregates, columns, offset=offset, **policy)
        case windows.Hopping(size, every):
            return HoppingKernel(node.by, size, every, aggregates, columns, **policy)
        case windows.Sliding(size, keep):
            return SlidingKernel(node.by, size, aggregates, columns, keep=keep, **policy)
        case windows.Session(gap):
            return SessionKernel(node.by, gap, aggregates, columns, **policy)


def _group(node: Group, inputs: Mapping[str, Columns]) -> Kernel:
    return GroupKernel(node.by, _aggregates(node, inputs["in"]), inputs["in"])


def _top(node: Top, inputs: Mapping[str, Columns]) -> Kernel:
    below, columns = node.inputs[0], inputs["in"]
    order = tuple(OrderBy(order_column(i), part.descending, part.nulls_first) for i, part in enumerate(node.order))
    ordered = {part.column for part in order}
    return TopKernel(
        node.n,
        order,
        node.per,
        key=below.key,
        schema=columns,
        outputs=tuple(name for name in columns if name not in ordered),
        rank=node.rank,
        ties=node.ties,
        stream=not below.is_table,
        retracts=below.retracts,
    )


def _apply(node: Apply, inputs: Mapping[str, Columns]) -> Kernel:
    state, output = _columns(node.state), _columns(node.output)
    function = node.function
    if isinstance(function, PerKey):
        function = step_by_key(function.function, {name: inputs["in"][name] for name in node.by}, state, output)
    waited = node.emergence == "time"
    return ApplyKernel(function, node.by, inputs["in"], state, output, f"{node.place}: {node.label}", waited)


def _columns(schema: Schema) -> Columns:
    fields = pa.schema([(name, ddl.to_arrow(kind)) for name, kind in schema.columns if kind is not None])
    frame = pl.from_arrow(fields.empty_table())
    assert isinstance(frame, pl.DataFrame)
    return frame.schema


def _as_of(node: AsOf, inputs: Mapping[str, Columns]) -> Kernel:
    return AsOfKernel(
        _sides(node, inputs),
        node.how,
        horizon=node.late.horizon,
        wait=node.waits,
        changelog=node.reads_versions(1),
        retracts=node.left.retracts,
    )


def _join_streams(node: JoinStreams, inputs: Mapping[str, Columns]) -> Kernel:
    return JoinStreamsKernel(
        _sides(node, inputs),
        node.how,
        node.lo,
        node.hi,
        horizon=node.late[0].horizon,
        aside=frozenset(node.late_topics),
    )


def _join_tables(node: JoinTables, inputs: Mapping[str, Columns]) -> Kernel:
    sides = _sides(node, inputs)
    hidden = [JoinOutput(name, "left", name) for name in node.left.key if name not in node.left.schema]
    hidden += [JoinOutput(name, "right", column) for column, name in node.apart.items()]
    whole = replace(sides, outputs=(*sides.outputs, *hidden))
    return JoinTablesKernel(whole, node.how, node.left.key, node.right.key, node.side)


def _percolate(node: Percolate, inputs: Mapping[str, Columns]) -> Kernel:
    sides = _sides(node, inputs)
    return PercolateKernel(
        sides, node.right.key, node.query, node.text, node.fold, node.language, retracts=node.left.retracts
    )


def _rule_match(node: RuleMatch, inputs: Mapping[str, Columns]) -> Kernel:
    reader = RuleReader(node.left.schema, node.within)
    rules = Rulebook(inputs["right"], reader)
    limits = RuleLimits(node.open_attempts, node.steps)
    return RuleMatchKernel(node.by, inputs["left"], rules, limits, aside=bool(node.late_topics))


def _match(node: Match, inputs: Mapping[str, Columns]) -> Kernel:
    columns = inputs["in"]
    output = MatchOutput(
        names=node.automaton.names,
        columns={name: columns[name] for name in node.handed_on},
        values=node.values,
        kinds={value.name: value_kind(value, columns) for value in node.values},
        every_row=node.rows != ONE,
        within=node.within,
        at_deadline=bool(node.tree.absent),
        timeouts=node.on_timeout,
        misplaced=f"{node.place}: {node.after}: no such row, or the match's own start" if node.withholds else None,
    )
    return MatchKernel(node.by, node.matcher, output, columns, node.late.horizon, bool(node.late_topics))


def _sides(node: Join, inputs: Mapping[str, Columns]) -> Sides:
    return Sides(
        left_on=node.routes[0],
        right_on=node.routes[1],
        left=inputs["left"],
        right=inputs["right"],
        outputs=tuple(JoinOutput(part.name, part.side, part.column) for part in node.outputs),
    )


def _aggregates(node: Window | Group, columns: Columns, span: int | None = None) -> Aggregates:
    aggs = tuple(
        Agg(
            name=measure.name,
            fn=measure.kind,
            column=value_column(number) if measure.value else None,
            where=filter_column(number) if measure.where else None,
            q=measure.q,
            n=measure.n,
            per=measure.per,
            place=str(node.place),
        )
        for number, measure in enumerate(node.measures)
    )
    return Aggregates(aggs, columns, span=span, retracts=node.inputs[0].retracts)


KERNELS: dict[type[Node], Callable[[Any, Mapping[str, Columns]], Kernel]] = {
    Apply: _apply,
    AsOf: _as_of,
    Changes: lambda node, inputs: ChangesKernel(node.inputs[0].key, inputs["in"], tuple(node.inputs[0].schema)),
    Dedupe: lambda node, inputs: DedupeKernel(node.on, node.within, inputs["in"]),
    Group: _group,
    JoinStreams: _join_streams,
    JoinTables: _join_tables,
    Latest: lambda node, inputs: LatestKernel(node.by, inputs["in"]),
    Lookup: lambda node, inputs: LookupKernel(_sides(node, inputs), node.how, retracts=node.left.retracts),
    Match: _match,
    Newest: _top,
    OnePerKey: _top,
    Ordered: lambda node, inputs: OrderedKernel(node.by, inputs["in"]),
    Percolate: _percolate,
    RuleMatch: _rule_match,
    Sample: lambda node, inputs: SampleKernel(node.fraction, node.by),
    TableSource: lambda node, inputs: TableKernel(node.key, inputs["in"], node.partial),
    Top: _top,
    Versus: lambda node, inputs: VersusKernel(node.routes[0], node.earlier, inputs["in"]),
    Window: _window,
}
