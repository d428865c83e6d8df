"""Which expressions of a flow the tasks compute, and which Spark has to, without asking Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from riverrun import ddl
from riverrun.errors import Invalid
from riverrun.flow import Flow
from riverrun.flow.composition import Item
from riverrun.flow.fingerprint import needed
from riverrun.flow.operators.node import Node
from riverrun.runtime.compile.compiler import compile_flow
from riverrun.runtime.compile.job import Engine, Job
from riverrun.runtime.status import ComputedBy


def engines_of(job: Job) -> list[ComputedBy]:
    """The engines of all branches that compute anything."""
    computing = [branch for branch in job.branches if not branch.picks]
    return [ComputedBy(b.origin.partition(":")[0], b.target, b.engine, b.reason) for b in computing]


def plan_engines(flow: Flow, engine: Engine) -> list[ComputedBy]:
    """The same for a flow that is not compiled yet."""
    return engines_of(compile_flow(flow, 1, _Guess(flow), engine))


def needs_spark(flow: Flow, engine: Engine) -> bool:
    """Whether Spark has to compute any expression of a flow that is not compiled yet."""
    try:
        return any(one.engine == "spark" for one in plan_engines(flow, engine))
    except Invalid:  # a type that only Spark can tell was guessed wrong; what is really wrong, compiling will say
        return True


class _Guess:
    """Stands in for Spark where only the engine matters: what it would be asked for is taken for a string, and a transform to
    give what is asked of it."""

    def __init__(self, flow: Flow) -> None:
        self._needed = needed(flow.nodes, flow.ends)

    def types(self, origin: str, fields: pa.Schema, items: Sequence[Item]) -> Mapping[str, pa.DataType]:
        return {item.name: pa.string() for item in items}

    def transformed(self, node: Node, columns: pa.Schema) -> pa.Schema:
        declared = [(name, pa.string() if kind is None else ddl.to_arrow(kind)) for name, kind in node.schema.columns]
        schema = pa.schema(declared) if declared else columns
        more = sorted(name for name in self._needed[node.id] if name not in schema.names and name[0] != "_")
        return pa.schema([*schema, *((name, pa.string()) for name in more)])
