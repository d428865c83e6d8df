"""`riverrun plan FLOW.py`: what a run would do with the state that is there."""

from __future__ import annotations

import os

from riverrun.cli.flow_file import FlowArgument, load_flow
from riverrun.cli.options import DEFAULT_RIVER, JsonOption, RiverOption, open_river
from riverrun.cli.output import print_json, print_line, print_table, safe


def plan(flow_file: FlowArgument, json: JsonOption = False, river: RiverOption = DEFAULT_RIVER) -> None:
    """Compare a flow with what its last run left: which state is kept, what is rebuilt, what is refused and why.

    Nothing is started or changed.
    """
    flow = load_flow(flow_file)
    from dataclasses import asdict

    from riverrun.runtime.evolution import plan_flow

    if os.path.exists(f"{river}/river.json"):
        with open_river(river) as opened:
            found = plan_flow(flow, opened)
    else:
        found = plan_flow(flow, None)
    if json:
        print_json(asdict(found))
        return
    says = {
        "starts": "has not run yet; a run starts it",
        "resumes": f"is at epoch {found.epoch}; a run goes on from there",
        "rebuilds": f"is at epoch {found.epoch}; a run computes its views from the log again, beside the old ones",
        "refused": f"is at epoch {found.epoch}; a run is refused",
    }
    print_line(safe(f"{found.flow} {says[found.run]}"))
    if found.reason:
        print_line(safe(f"  {found.reason}"))
    if found.nodes:
        print_line()
        headers = ["node", "", "what happens", "declared at"]
        print_table(headers, [[n.node, n.fate, n.note or "", n.place or "–"] for n in found.nodes])
