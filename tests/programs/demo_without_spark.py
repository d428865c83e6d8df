"""demo_without_spark.py RIVER: stands in for the demo's processing. As run_without_spark.py does it, until SIGTERM."""

import json
import os
import sys
import time

from riverrun.alerts.alerts import Alerts
from riverrun.demo.shop.processing import Ending, ProcessingReport
from riverrun.demo.shop.shop_flow import TOPICS, flow
from riverrun.river import River
from riverrun.runtime import source
from riverrun.runtime.admission import resumable
from riverrun.runtime.checkpoint import Checkpoint
from riverrun.runtime.commit import Committer
from riverrun.runtime.compile.compiler import compile_flow
from riverrun.runtime.epoch import EpochResult, compute_epoch
from riverrun.runtime.outputs import declare_views, output_specs
from riverrun.runtime.plan import Limit, Plan
from riverrun.runtime.planner import Planner
from riverrun.runtime.status import FlowStatus
from riverrun.runtime.task import Tasks


def write(path: str, *lines: str) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if os.path.exists(path):
        return
    with open(f"{path}.{os.getpid()}.tmp", "w", encoding="utf-8") as file:
        file.write("\n".join(lines))
    os.rename(file.name, path)


def main(river: River, report: ProcessingReport, ending: Ending) -> None:
    home = f"{river.checkpoints}/{flow.name}"
    os.makedirs(f"{home}/state", exist_ok=True)
    report.step("compiling the flow")
    store, checkpoint = river.store, Checkpoint(home, flow.name)
    inputs = {spec.name: river.topic(spec) for spec in TOPICS}
    resumable(flow.name, store, checkpoint, inputs)
    job = compile_flow(flow, 2)
    tasks = Tasks(job)
    fence = store.take_fence(flow.name)
    declare_views(store, flow, job, fence)
    topics = {spec.name: river.topic(spec) for spec in output_specs(flow, job, inputs, "")}
    for topic in topics.values():
        topic.raise_fence(flow.name, fence)
    committer = Committer(flow, job, store, topics, home, "", fence)
    planner = Planner(job, inputs, f"{home}/planner", Limit(100_000))
    write(f"{checkpoint.directory}/metadata", '{"id":"one"}')

    def computed(before: Plan, plan: Plan) -> EpochResult:
        control = source.control(before, plan, store.last(flow.name), flow.name, f"{home}/state")
        return compute_epoch(tasks, inputs, source.ranges(before, plan), control)

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
            result = computed(before, plan)
            committer.check(result)
            checkpoint.settle(planned, result.control.positions)
            committer.apply(result)
        write(f"{checkpoint.directory}/commits/{planned - 1}", "v1", "{}")
        if not begun:
            begun = True
            report.step("running")
        status = FlowStatus(flow=flow.name, state="running", rows_per_second=1.0, alerts=alerts.status())
        report.put(status=status)
    alerts.stop()


with River(sys.argv[1]) as river:
    main(river, ProcessingReport(river.path), Ending())
