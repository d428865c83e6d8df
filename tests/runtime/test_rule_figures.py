"""What rules have come to, read from the state of a flow as a page reads it."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from kernels.test_rule_match import COLUMNS, HIDDEN, RULES, kernel
from riverrun.kernels.kernel import MIN_TIME, EpochClock
from riverrun.kernels.rulebook import RuleLimits
from riverrun.runtime.manifest import Manifest
from riverrun.runtime.rule_figures import read_figures
from riverrun.runtime.status import Lag
from riverrun.runtime.stored_status import read_status
from riverrun.state.directory import StateDirectory
from riverrun.views import Last


def last_of(manifest: Manifest | None) -> Last:
    return Last(epoch=1, fence=1, positions={}, manifest=manifest.encode() if manifest else None)


def test_figures_of_rules(tmp_path: Path) -> None:
    made, state = kernel(RuleLimits(attempts=1)), StateDirectory(tmp_path / "state")
    hidden = {"_time": 0, "_weight": 1, "_partition": 0}
    rules = [
        {"rule_id": "pair", "pattern": "a b", "define": '{"a": "x = 1", "b": "x = 2"}', "within": "5 us"},
        {"rule_id": "wide", "pattern": "a -> b", "define": '{"a": "x = 1", "b": "x = 9"}', "within": "5 us"},
    ]
    rows = [
        {"k": key, "time": time, "x": time, **hidden, "_time": time, "_offset": 10 * number + time}
        for number, key in enumerate("pqr")
        for time in (1, 2)
    ]
    inputs = {
        "left": pl.DataFrame(rows, schema={**COLUMNS, **HIDDEN}),
        "right": pl.DataFrame(
            [{**row, **hidden, "_offset": at} for at, row in enumerate(rules)], schema={**RULES, **HIDDEN}
        ),
    }
    opened = state.open({}, made.tables, "match_rules-1")
    made.step(opened, inputs, EpochClock(0, MIN_TIME, 3))
    manifest = Manifest(1, 1, {"match_rules-1": opened.commit(0), "window-2": {}}, {})
    pair, wide = read_figures(last_of(manifest), str(tmp_path))
    assert (pair.rule_id, pair.hits, pair.off) == ("pair", 3, None)
    assert (wide.rule_id, wide.hits) == ("wide", 0)
    assert wide.off is not None and "more than 1 open attempts" in wide.off
    assert pair.share + wide.share == 1.0
    assert read_figures(last_of(None), str(tmp_path)) == []
    status = read_status("f", last_of(manifest), Lag(), str(tmp_path))
    assert status.rules_off == {"wide": wide.off}
