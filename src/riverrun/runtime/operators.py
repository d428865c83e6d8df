"""Stateful nodes of a flow → kernels, configured for the columns that reach them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from riverrun.errors import Invalid
from riverrun.flow import windows
from riverrun.flow.aggregates import Measure
from riverrun.flow.nodes import Clock, Dedupe, Group, Latest, Node, TableSource, Versus, Window
from riverrun.kernels import clock, dedupe, group, hopping, kernel, latest, session, sliding, table, tumbling, versus
from riverrun.kernels.aggregates import Agg, Aggregates


def value_column(number: int) -> str:
    """Where the projection puts what the aggregate of this number reads."""
    return f"_value{number}"


def filter_column(number: int) -> str:
    """Where the projection puts an aggregate's `where`."""
    return f"_where{number}"


def kernel_of(node: Node, schema: Mapping[str, pl.DataType]) -> kernel.Kernel:
    """The kernel of a stateful node whose (single) input has these columns, hidden ones apart."""
    match node:
        case Window():
            return _windowed(node, schema)
        case Group():
            return group.Group(node.by, _aggregates(node.measures, schema, node.inputs[0].retracts), schema)
        case Latest():
            return latest.Latest(node.by, schema)
        case Dedupe():
            return dedupe.Dedupe(node.on, node.within, schema)
        case Versus():
            return versus.Versus(node.routes[0], node.earlier, schema)
        case Clock():
            return clock.ClockCorrection(node.occurred, node.sent, node.by, schema)
        case TableSource():
            return table.Table(node.key, schema)
    raise Invalid(f"{node.place}: {node.kind} cannot be run yet")


def _windowed(node: Window, schema: Mapping[str, pl.DataType]) -> kernel.Kernel:
    span = node.window.size if isinstance(node.window, windows.Tumbling | windows.Hopping | windows.Sliding) else None
    aggregates = _aggregates(node.measures, schema, node.inputs[0].retracts, span)
    late: dict[str, Any] = {
        "horizon": node.late.horizon,
        "aside": isinstance(node.late, windows.Side),
        "update": node.emit == "update",
    }
    match node.window:
        case windows.Tumbling(size, offset):
            return tumbling.Tumbling(node.by, size, aggregates, schema, offset=offset, **late)
        case windows.Hopping(size, every):
            return hopping.Hopping(node.by, size, every, aggregates, schema, **late)
        case windows.Sliding(size):
            return sliding.Sliding(node.by, size, aggregates, schema, **late)
        case windows.Session(gap):
            return session.Session(node.by, gap, aggregates, schema, **late)


def _aggregates(
    measures: tuple[Measure, ...], schema: Mapping[str, pl.DataType], retracts: bool, span: int | None = None
) -> Aggregates:
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
