"""Stateful nodes of a flow → kernels, configured for the columns that reach them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import polars as pl

from riverrun.flow import windows
from riverrun.flow.aggregates import Measure
from riverrun.flow.nodes import (
    AsOf,
    Changes,
    ClockNode,
    Dedupe,
    Group,
    Join,
    JoinStreams,
    JoinTables,
    Latest,
    Lookup,
    Node,
    TableSource,
    Top,
    Versus,
    Window,
)
from riverrun.kernels import clock, dedupe, group, hopping, kernel, latest, session, sliding, table, tumbling, versus
from riverrun.kernels.aggregates import Agg, Aggregates
from riverrun.kernels.as_of import AsOfKernel
from riverrun.kernels.change_rows import ChangesKernel
from riverrun.kernels.join_streams import JoinStreamsKernel
from riverrun.kernels.join_tables import JoinTablesKernel
from riverrun.kernels.lookup import LookupKernel
from riverrun.kernels.sides import JoinOutput, Sides
from riverrun.kernels.top import OrderBy, TopKernel
from riverrun.runtime.branch import paths

Schema = Mapping[str, pl.DataType]


def value_column(number: int) -> str:
    """Where the projection puts what the aggregate of this number reads."""
    return f"_value{number}"


def filter_column(number: int) -> str:
    """Where the projection puts an aggregate's `where`."""
    return f"_where{number}"


def order_column(number: int) -> str:
    """Where the projection puts what rows are ordered by."""
    return f"_order{number}"


def reads_versions(node: Node, below: Node) -> bool:
    """Whether a node reads the versions of a table, as they came, and not its changes."""
    if not isinstance(node, AsOf) or below is not node.right:
        return False
    return all(isinstance(path.origin, TableSource) for path in paths(below))


def kernel_of(node: Node, schemas: Mapping[str, Schema]) -> kernel.Kernel:
    """The kernel of a stateful node whose inputs have these columns, carried ones apart."""
    if isinstance(node, Join):
        return _joined(node, schemas)
    schema = schemas["in"]
    match node:
        case Window():
            return _windowed(node, schema)
        case Group():
            return group.GroupKernel(node.by, _aggregates(node.measures, schema, node.inputs[0].retracts), schema)
        case Latest():
            return latest.LatestKernel(node.by, schema)
        case Dedupe():
            return dedupe.DedupeKernel(node.on, node.within, schema)
        case Versus():
            return versus.VersusKernel(node.routes[0], node.earlier, schema)
        case ClockNode():
            return clock.ClockCorrection(node.occurred, node.sent, node.by, schema)
        case TableSource():
            return table.TableKernel(node.key, schema)
        case Top():
            return _top(node, schema)
        case Changes():
            return ChangesKernel(node.inputs[0].key, schema, tuple(node.inputs[0].schema))
    raise AssertionError(f"{node.place}: there is no kernel for {node.kind}")


def _joined(node: Join, schemas: Mapping[str, Schema]) -> kernel.Kernel:
    sides = Sides(
        left_on=node.routes[0],
        right_on=node.routes[1],
        left=schemas["left"],
        right=schemas["right"],
        outputs=tuple(JoinOutput(part.name, part.side, part.column) for part in node.outputs),
    )
    match node:
        case JoinStreams():
            return JoinStreamsKernel(sides, node.how, node.lo, node.hi)
        case Lookup():
            return LookupKernel(sides, node.how, retracts=node.left.retracts)
        case AsOf():
            correct = isinstance(node.late, windows.Correct)
            return AsOfKernel(
                sides,
                node.how,
                horizon=node.late.horizon,
                wait=not correct,
                changelog=reads_versions(node, node.right),
                retracts=node.left.retracts,
            )
        case JoinTables():
            hidden = [JoinOutput(name, "left", name) for name in node.left.key if name not in node.left.schema]
            hidden += [JoinOutput(name, "right", column) for column, name in node.apart.items()]
            whole = replace(sides, outputs=(*sides.outputs, *hidden))
            return JoinTablesKernel(whole, node.how, node.left.key, node.right.key)
    raise AssertionError(f"{node.place}: there is no kernel for {node.kind}")


def _top(node: Top, schema: Schema) -> kernel.Kernel:
    below = node.inputs[0]
    order = tuple(OrderBy(order_column(i), part.descending, part.nulls_first) for i, part in enumerate(node.order))
    ordered = {part.column for part in order}
    return TopKernel(
        node.n,
        order,
        node.per,
        key=below.key,
        schema=schema,
        outputs=tuple(name for name in schema if name not in ordered),
        rank=node.rank,
        ties=node.ties,
        stream=not below.is_table,
        retracts=below.retracts,
    )


def _windowed(node: Window, schema: Schema) -> kernel.Kernel:
    span = node.window.size if isinstance(node.window, windows.Tumbling | windows.Hopping | windows.Sliding) else None
    aggregates = _aggregates(node.measures, schema, node.inputs[0].retracts, span)
    late: dict[str, Any] = {
        "horizon": node.late.horizon,
        "aside": isinstance(node.late, windows.Side),
        "update": node.emit == "update",
    }
    match node.window:
        case windows.Tumbling(size, offset):
            return tumbling.TumblingKernel(node.by, size, aggregates, schema, offset=offset, **late)
        case windows.Hopping(size, every):
            return hopping.HoppingKernel(node.by, size, every, aggregates, schema, **late)
        case windows.Sliding(size):
            return sliding.SlidingKernel(node.by, size, aggregates, schema, **late)
        case windows.Session(gap):
            return session.SessionKernel(node.by, gap, aggregates, schema, **late)


def _aggregates(measures: tuple[Measure, ...], schema: Schema, retracts: bool, span: int | None = None) -> Aggregates:
    aggs = tuple(
        Agg(
            name=made.name,
            fn=made.kind,
            column=value_column(number) if made.value else None,
            where=filter_column(number) if made.where else None,
            q=made.q,
            n=made.n,
            per=made.per,
        )
        for number, made in enumerate(measures)
    )
    return Aggregates(aggs, schema, span=span, retracts=retracts)
