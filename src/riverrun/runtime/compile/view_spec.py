"""A flow's view as its store keeps it."""

from __future__ import annotations

import pyarrow as pa

from riverrun.columns import LOG_ORDER, OFFSET, PARTITION, ROW_ID, TIME, WEIGHT
from riverrun.flow import Flow
from riverrun.flow.analysis import topics_below
from riverrun.flow.operators.ends import ViewEnd
from riverrun.flow.operators.node import unseen
from riverrun.runtime.compile.job import Job
from riverrun.views.spec import ViewSpec


def view_spec(flow: Flow, job: Job, end: ViewEnd) -> ViewSpec:
    """A view's declaration for its store. Rows of a stream without a key are told apart by their place in the log."""
    schema = next(branch.arriving for branch in job.branches if branch.target == end.id)
    columns = [field for field in schema if field.name not in (TIME, WEIGHT, *LOG_ORDER)]
    key = end.key
    if ROW_ID in key and ROW_ID not in schema.names:
        key = tuple(part for name in key for part in ((PARTITION, OFFSET) if name == ROW_ID else (name,)))
        columns += [schema.field(PARTITION), schema.field(OFFSET)]
    hidden = unseen(key, end.node)
    return ViewSpec(
        name=end.name,
        flow=flow.name,
        schema=pa.schema(columns),
        key=key,
        topics=tuple(topics_below(end.node)),
        history=None if end.history is None else end.history / 1_000_000,
        hidden=hidden,
        indexes=end.index,
        to=None if end.to is None else end.to.public,
        partition_by=end.partition_by,
    )
