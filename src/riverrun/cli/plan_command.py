"""`riverrun plan FLOW.py`: what a run would do with the state that is there."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated

import typer

from riverrun import figures
from riverrun.cli.flow_file import FlowArgument, load_flow
from riverrun.cli.options import DEFAULT_RIVER, JsonOption, RiverOption, open_river
from riverrun.cli.output import print_json, print_line, print_table

if TYPE_CHECKING:
    from riverrun.runtime.evolution import FlowPlan
    from riverrun.runtime.status import ComputedBy


REBUILDS = 3  # what --exit-code ends with where views would be computed again


def plan(
    flow_file: FlowArgument,
    exit_code: Annotated[
        bool, typer.Option("--exit-code", help="End with 3 where a run computes its views from the log again.")
    ] = False,
    json: JsonOption = False,
    river: RiverOption = DEFAULT_RIVER,
) -> None:
    """Compare a flow with what its last run left: which state is kept, what is rebuilt, what is refused and why.

    Nothing is started or changed. Where a run would be refused, it ends with 1.
    """
    from dataclasses import asdict

    with ExitStack() as stack:
        is_there = os.path.exists(f"{river}/river.json")
        opened = stack.enter_context(open_river(river)) if is_there else None  # it knows schemas that a flow leaves out
        flow = load_flow(flow_file)
        from riverrun.runtime.evolution import plan_flow

        fate = plan_flow(flow, opened)
    if json:
        print_json(asdict(fate))
    else:
        _print(fate)
    if fate.run == "refused":
        raise typer.Exit(1)
    if exit_code and fate.run == "rebuilds":
        raise typer.Exit(REBUILDS)


def _print(fate: FlowPlan) -> None:
    says = {
        "starts": "has not run yet; a run starts it",
        "resumes": f"is at epoch {fate.epoch}; a run goes on from there",
        "rebuilds": f"is at epoch {fate.epoch}; a run computes its views from the log again, beside the old ones"
        if fate.epoch
        else "has run before; a run computes its views from the log again",
        "refused": f"{f'is at epoch {fate.epoch}' if fate.epoch else 'has not run yet'}; a run is refused",
    }
    print_line(f"{fate.flow} {says[fate.run]}")
    if fate.reason:
        print_line(f"  {fate.reason}")
    if fate.nodes:
        print_line()
        headers = ["node", "", "what happens", "declared at"]
        print_table(headers, [[n.name or n.node, n.fate, n.note or "", n.place or "–"] for n in fate.nodes])
    if fate.views:
        print_line()
        print_table(["view", "", "columns"], [[v.view, v.fate, "; ".join(v.differences)] for v in fate.views])
    _print_expressions(fate.expressions)


def _print_expressions(expressions: Sequence[ComputedBy]) -> None:
    """Who computes the SQL of a flow. What goes through Spark takes several times as long, so it is listed."""
    by_spark = [one for one in expressions if one.engine == "spark"]
    in_tasks = len(expressions) - len(by_spark)
    if expressions:
        print_line()
        print_line(f"expressions: {in_tasks} computed by the tasks (arrow), {len(by_spark)} by Spark (spark)")
    if by_spark:
        rows = [[one.origin, one.target, one.engine, figures.safe(one.reason or "a transform")] for one in by_spark]
        print_table(["from", "to", "", "because of"], rows)
