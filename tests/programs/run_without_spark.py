"""run_without_spark.py RIVER [--drain] [--max-rows N] [--flow NAME] [--changed] [--rebuild]: a flow of
recovery_flows.py, by default the shop, epoch by epoch as Spark would run it.

Plans and commits are written where Spark writes them; expressions are computed by DuckDB; all else is what runs under
Spark, too. Starts in a second, so it can be killed often. Prints each epoch that is committed, then "drained LEDGER".
"""

import argparse
import json
import os
import sys
from typing import Any

import recovery_flows

from riverrun.errors import RiverrunError
from riverrun.failpoints import failpoint
from riverrun.river import River
from riverrun.runtime import bounds, source
from riverrun.runtime.admission import admitted, refuse_drained
from riverrun.runtime.checkpoint import Checkpoint, check_same
from riverrun.runtime.commit import Committer
from riverrun.runtime.compile.compiler import compile_flow
from riverrun.runtime.epoch import EpochResult, compute_epoch
from riverrun.runtime.opening import check_written, mend_checkpoint, open_inputs, open_outputs, shut_out
from riverrun.runtime.outputs import declare_views
from riverrun.runtime.patience import Patience
from riverrun.runtime.plan import Limit, Plan
from riverrun.runtime.planner import Planner
from riverrun.runtime.rebuild import Successor, clean
from riverrun.runtime.task import Tasks
from riverrun.runtime.transactions import find_transactions

arguments = argparse.ArgumentParser()
arguments.add_argument("river")
arguments.add_argument("--drain", action="store_true")
arguments.add_argument("--max-rows", type=int, default=20)
arguments.add_argument("--flow", default="shop")
arguments.add_argument("--changed", action="store_true")
arguments.add_argument("--rebuild", action="store_true")
asked = arguments.parse_args()


def write(path: str, *lines: str) -> None:
    """As Spark does: whole files, and no sync."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if os.path.exists(path):
        raise FileExistsError(path)
    with open(f"{path}.{os.getpid()}.tmp", "w", encoding="utf-8") as file:
        file.write("\n".join(lines))
    os.rename(file.name, path)


class Running:
    """The flow, compiled; its epochs are run in one home or another."""

    def __init__(self, river: River) -> None:
        make = getattr(recovery_flows, asked.flow)
        self.flow, self.store, self.checkpoints = make(3) if asked.changed else make(), river.store, river.checkpoints
        self.inputs = open_inputs(river, self.flow)
        self.transactions = find_transactions(self.inputs, set(river.topics()), river.topic)
        self.job = compile_flow(self.flow, 2)
        self.tasks = Tasks(self.job)
        self.topics = open_outputs(river, self.flow, self.job, self.inputs, "")

    def start(self) -> None:
        name = self.flow.name
        admission = admitted(name, self.flow, self.store, self.checkpoints, self.inputs, rebuild=asked.rebuild)
        if admission.anew:
            home, fence = self.rebuild()
        else:
            home, fence = admission.home, shut_out(name, self.store, self.topics.values())
            check_written(name, self.store.last(name), home, self.topics.values())
            mend_checkpoint(name, self.store.last(name), home, self.topics.values())
            declare_views(self.store, self.flow, self.job, fence)
            clean(self.checkpoints, name, self.store)
        os.makedirs(f"{home}/state", exist_ok=True)
        committer = Committer(self.flow, self.job, self.store, self.topics, home, "", fence)
        refuse_drained(name, committer.last, self.inputs)
        together = bounds.read_positions(bounds.together(home))
        self.run(home, committer, None, {"finish": asked.drain, "together": together})
        if asked.drain:
            print("drained", json.dumps(committer.last.ledger), flush=True)

    def rebuild(self) -> tuple[str, int]:
        parts = (self.flow, "", self.job, self.store, self.checkpoints, self.inputs)
        made = Successor(*parts)
        self.run(made.home, made.committer, made.token, {"until": made.goal()})
        failpoint("rebuild.caught_up")
        fence = shut_out(made.name, self.store, self.topics.values())
        failpoint("rebuild.fenced")
        self.run(made.home, made.committer, made.token, {"until": made.goal()})
        made.switch(fence, self.topics.values(), Patience("a rebuild"))
        print("rebuilt", flush=True)
        return made.home, fence

    def run(self, home: str, committer: Committer, rebuild: int | None, bound: dict[str, Any]) -> None:
        """Epoch after epoch, until there is nothing to do."""
        checkpoint = Checkpoint(home, self.flow.name)
        planner = Planner(
            self.job, self.inputs, f"{home}/planner", Limit(asked.max_rows), transactions=self.transactions
        )
        if not os.path.exists(f"{checkpoint.directory}/metadata"):
            write(f"{checkpoint.directory}/metadata", '{"id":"one"}')
        while True:
            planned = checkpoint.planned
            if checkpoint.finished == planned:  # else the newest plan is carried out again
                before = checkpoint.plan(planned) if planned else planner.first()
                following = planner.next(before, **bound)
                if following is None:
                    return
                write(f"{checkpoint.directory}/offsets/{planned}", "v1", "{}", json.dumps(following.to_json()))
                planned += 1
            failpoint("plan.logged")
            plan = checkpoint.plan(planned)
            before = checkpoint.plan(planned - 1) if planned > 1 else planner.first(plan.begin)
            if not committer.is_committed(planned):
                result = self.computed(before, plan, home, rebuild)
                committer.check(result)
                checkpoint.settle(planned, result.control.positions)
                Patience(f"flow {self.flow.name}").through(lambda: committer.apply(result))  # noqa: B023
                print("epoch", planned, flush=True)
            failpoint("epoch.done")
            write(f"{checkpoint.directory}/commits/{planned - 1}", "v1", "{}")
            failpoint("epoch.finished")

    def computed(self, before: Plan, plan: Plan, home: str, rebuild: int | None) -> EpochResult:
        name = self.flow.name
        last = self.store.last(name, rebuild)
        if before.epoch and before.epoch == last.epoch:
            check_same(before.positions, last, name)
        control = source.control(before, plan, last, name, f"{home}/state")
        return compute_epoch(self.tasks, self.inputs, source.ranges(before, plan), control)


try:
    with River(asked.river) as river:
        Running(river).start()
except RiverrunError as error:
    sys.exit(f"{type(error).__name__}: {error}")
