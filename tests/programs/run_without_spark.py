"""run_without_spark.py RIVER [--drain] [--max-rows N] [--flow NAME]: a flow, by default shop.py, as Spark would run it.

Plans and commits are written where Spark writes them; expressions are computed by DuckDB; all else is what runs under
Spark, too. Starts in a second, so it can be killed often. Prints each epoch that is committed, then "drained LEDGER".
"""

import argparse
import importlib
import json
import os
import sys

import pyarrow as pa

from riverrun.errors import RiverrunError
from riverrun.failpoints import failpoint
from riverrun.river import River
from riverrun.runtime import source
from riverrun.runtime.admission import refuse_drained, resumable
from riverrun.runtime.blob import PACKED
from riverrun.runtime.checkpoint import Checkpoint, check_same
from riverrun.runtime.commit import Committer
from riverrun.runtime.compiler import compile_flow
from riverrun.runtime.outputs import output_specs, view_spec
from riverrun.runtime.planner import Limit, Plan, Planner
from riverrun.runtime.shape import Shape
from riverrun.testing.local import _hosted
from riverrun.testing.projection import Projection

arguments = argparse.ArgumentParser()
arguments.add_argument("river")
arguments.add_argument("--drain", action="store_true")
arguments.add_argument("--max-rows", type=int, default=20)
arguments.add_argument("--flow", default="shop")
asked = arguments.parse_args()


def write(path: str, *lines: str) -> None:
    """As Spark does: whole files, and no sync."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if os.path.exists(path):
        raise FileExistsError(path)
    with open(f"{path}.{os.getpid()}.tmp", "w", encoding="utf-8") as file:
        file.write("\n".join(lines))
    os.rename(file.name, path)


def main(river: River) -> None:
    flow = getattr(importlib.import_module(asked.flow), asked.flow)()
    home = f"{river.checkpoints}/{flow.name}"
    os.makedirs(f"{home}/state", exist_ok=True)
    store, checkpoint = river.store, Checkpoint(home, flow.name)
    inputs = {name: river.topic(name) for name in flow.topics()}
    resumable(flow.name, store, checkpoint, inputs)
    projection = Projection()
    job = compile_flow(flow, 2, projection)
    fence = store.take_fence(flow.name)
    for end in flow.views.values():
        store.declare(view_spec(flow, job, end, ""))
    specs = output_specs(flow, job, inputs, "")
    topics = {spec.name: river.topic(spec) for spec in specs}
    for topic in topics.values():
        topic.raise_fence(flow.name, fence)
    committer = Committer(flow, job, store, topics, home, "", fence)
    refuse_drained(flow.name, committer.last, inputs)
    planner = Planner(job, inputs, f"{home}/planner", Limit(asked.max_rows))
    if not os.path.exists(f"{checkpoint.directory}/metadata"):
        write(f"{checkpoint.directory}/metadata", '{"id":"one"}')

    def computed(before: Plan, plan: Plan) -> pa.Table:
        last = store.last(flow.name)
        if before.epoch and before.epoch == last.epoch:
            check_same(before.positions, last, flow.name)
        control = source.control(before, plan, last, flow.name, f"{home}/state")
        packed = list(
            projection.packed(job, list(job.sources), source.read(job, inputs, source.ranges(before, plan), control))
        )
        for stage, operators in enumerate(job.stages):
            shape = Shape(job, {operator.id: operator.output for operator in operators}, are_sources=False)
            made = _hosted(job, stage, shape, packed)
            packed = list(projection.packed(job, [operator.id for operator in operators], made))
        return pa.Table.from_batches(packed, schema=PACKED)

    while True:
        planned = checkpoint.planned
        if checkpoint.finished == planned:  # else the newest plan is carried out again
            before = checkpoint.plan(planned) if planned else planner.first()
            following = planner.next(before, finish=asked.drain)
            if following is None:
                break
            write(f"{checkpoint.directory}/offsets/{planned}", "v1", "{}", json.dumps(following.to_json()))
            planned += 1
        failpoint("plan.logged")
        plan = checkpoint.plan(planned)
        before = checkpoint.plan(planned - 1) if planned > 1 else planner.first(plan.begin)
        if not committer.is_committed(planned):
            made = committer.received(computed(before, plan))
            checkpoint.settle(planned, made.control.positions)
            committer.apply(made)
            print("epoch", planned, flush=True)
        failpoint("epoch.done")
        write(f"{checkpoint.directory}/commits/{planned - 1}", "v1", "{}")
        failpoint("epoch.finished")
    if asked.drain:
        print("drained", json.dumps(committer.last.ledger), flush=True)


try:
    with River(asked.river) as river:
        main(river)
except RiverrunError as error:
    sys.exit(f"{type(error).__name__}: {error}")
