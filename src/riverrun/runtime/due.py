"""How much an epoch has to do because time passes, whatever rows come: windows close, deadlines are over."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from riverrun.kernels.kernel import Buckets, TimedKernel
from riverrun.runtime.compile.job import Job
from riverrun.runtime.control import Control


def due_rows(job: Job, control: Control) -> int:
    """About how many rows of the state are looked at, by what the manifest says of its files; small changes are not in
    files."""
    total = 0.0
    for operator in (one for stage in job.stages for one in stage):
        clock = control.clock(operator)
        if clock.start < clock.end and isinstance(operator.kernel, TimedKernel):
            for name, buckets in operator.kernel.due(clock).items():
                for entry in control.manifest.get(operator.id, {}).values():
                    table = entry["tables"].get(name, {"runs": ()})
                    total += sum(_rows_within(run, buckets) for run in table["runs"])
    return round(total)


def _rows_within(run: Mapping[str, Any], buckets: Buckets) -> float:
    """Rows of a run that are in these buckets, if they are spread evenly over those it has."""
    lo, hi = max(run["lo"], buckets[0]), min(run["hi"] + 1, buckets[1])
    return float(run["rows"] * max(hi - lo, 0) / (run["hi"] + 1 - run["lo"]))
