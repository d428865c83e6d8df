"""What the rules of a flow have come to, as its state has it: for people who look at them, in any process."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from riverrun.errors import RiverrunError
from riverrun.flow.operators.rule_match import RULE_ID, RuleMatch
from riverrun.kernels.rulebook import HITS, NUMBER, OFF, OPEN, STEPS
from riverrun.runtime.home import state_place
from riverrun.runtime.manifest import Manifest
from riverrun.state.directory import StateDirectory
from riverrun.state.table import TableSpec
from riverrun.views import Last

_TABLE = "rules"
_SPEC = TableSpec(
    {
        RULE_ID: pl.String(),
        NUMBER: pl.Int64(),
        HITS: pl.Int64(),
        OPEN: pl.Int64(),
        STEPS: pl.Int64(),
        OFF: pl.String(),
    },
    identity=(RULE_ID,),
    probe=(RULE_ID,),
    route=(),
)


@dataclass(frozen=True)
class RuleFigures:
    """A rule since it was put: matches, attempts that are open now, its share of all rules' steps, and why it was switched
    off, if it was."""

    rule_id: str
    hits: int
    open: int
    share: float
    off: str | None


def read_figures(last: Last, home: str) -> list[RuleFigures]:
    """The rules of a flow whose newest epoch is `last`; `home` is its directory. What a run has just replaced is not there
    for a moment."""
    if not last.manifest:
        return []
    manifest = Manifest.decode(last.manifest)
    directory = StateDirectory(state_place(home))
    rows = []
    for node, entries in manifest.nodes.items():
        if node.startswith(f"{RuleMatch.kind}-"):
            try:
                state = directory.open(entries, {_TABLE: _SPEC}, node, None, manifest.shards)
                rows += state[_TABLE].scan().to_dicts()
            except (FileNotFoundError, RiverrunError):
                continue
    steps = sum(row[STEPS] for row in rows)
    return [
        RuleFigures(row[RULE_ID], row[HITS], row[OPEN], row[STEPS] / steps if steps else 0.0, row[OFF])
        for row in sorted(rows, key=lambda row: str(row[RULE_ID]))
    ]
