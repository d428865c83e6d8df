"""demo_without_spark.py RIVER: stands in for the demo's processing. As run_without_spark.py does it, until SIGTERM."""

import json
import os
import sys
import time

import pyarrow as pa

from riverrun.alerts.alerts import Alerts
from riverrun.demo.shop.processing import Ending, Report
from riverrun.demo.shop.shop_flow import TOPICS, flow
from riverrun.river import River
from riverrun.runtime import source
from riverrun.runtime.admission import resumable
from riverrun.runtime.blob import PACKED
from riverrun.runtime.checkpoint import Checkpoint
from riverrun.runtime.commit import Committer
from riverrun.runtime.compiler import compile_flow
from riverrun.runtime.outputs import declare_views, output_specs
from riverrun.runtime.planner import Limit, Plan, Planner
from riverrun.runtime.shape import Shape
from riverrun.runtime.status import FlowStatus
from riverrun.testing.local import _hosted
from riverrun.testing.projection import DuckProjection


def write(path: str, *lines: str) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if os.path.exists(path):
        return
    with open(f"{path}.{os.getpid()}.tmp", "w", encoding="utf-8") as file:
        file.write("\n".join(lines))
    os.rename(file.name, path)


def main(river: River, report: Report, ending: Ending) -> None:
    home = f"{river.checkpoints}/{flow.name}"
    os.makedirs(f"{home}/state", exist_ok=True)
    report.step("compiling the flow")
    store, checkpoint = river.store, Checkpoint(home, flow.name)
    inputs = {spec.name: river.topic(spec) for spec in TOPICS}
    resumable(flow.name, store, checkpoint, inputs)
    projection = DuckProjection()
    job = compile_flow(flow, 2, projection)
    fence = store.take_fence(flow.name)
    declare_views(store, flow, job, fence)
    topics = {spec.name: river.topic(spec) for spec in output_specs(flow, job, inputs, "")}
    for topic in topics.values():
        topic.raise_fence(flow.name, fence)
    committer = Committer(flow, job, store, topics, home, "", fence)
    planner = Planner(job, inputs, f"{home}/planner", Limit(100_000))
    write(f"{checkpoint.directory}/metadata", '{"id":"one"}')

    def computed(before: Plan, plan: Plan) -> pa.Table:
        control = source.control(before, plan, store.last(flow.name), flow.name, f"{home}/state")
        packed = list(
            projection.packed(job, list(job.sources), source.read(job, inputs, source.ranges(before, plan), control))
        )
        for stage, operators in enumerate(job.stages):
            shape = Shape(job, {operator.id: operator.output for operator in operators}, are_sources=False)
            made = _hosted(job, stage, shape, packed)
            packed = list(projection.packed(job, [operator.id for operator in operators], made))
        return pa.Table.from_batches(packed, schema=PACKED)

    ending.runs = True
    alerts = Alerts(river, flow)
    alerts.start()
    begun = False
    while not ending.is_asked:
        planned = checkpoint.planned
        if checkpoint.finished == planned:
            before = checkpoint.plan(planned) if planned else planner.first()
            following = planner.next(before, finish=False)
            if following is None:
                time.sleep(0.1)
                continue
            write(f"{checkpoint.directory}/offsets/{planned}", "v1", "{}", json.dumps(following.to_json()))
            planned += 1
        plan = checkpoint.plan(planned)
        before = checkpoint.plan(planned - 1) if planned > 1 else planner.first(plan.begin)
        if not committer.is_committed(planned):
            made = committer.received(computed(before, plan))
            checkpoint.settle(planned, made.control.positions)
            committer.apply(made)
        write(f"{checkpoint.directory}/commits/{planned - 1}", "v1", "{}")
        if not begun:
            begun = True
            report.step("running")
        status = FlowStatus(flow=flow.name, state="running", rows_per_second=1.0, alerts=alerts.status())
        report.put(status=status)
    alerts.stop()


with River(sys.argv[1]) as river:
    main(river, Report(river.path), Ending())
