"""B: a thousand rules of five shapes over a hundred thousand keys, as the host takes a step: open the state, step, commit, on
files. Each user has a row every 20 seconds, a match takes at most a minute, and the first row of a rule is one in some hundred.

The same with a tenth of the rules swapped in every epoch says what changing them costs.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from statistics import median

from bench.effort import Effort
from bench.figure import Figure, Stopwatch, Took, check, spread
from bench.rules.workload import changes, events, kernel, rule
from riverrun.kernels.kernel import MIN_TIME, EpochClock
from riverrun.state.directory import StateDirectory

RULES, KEYS = 1000, 100_000
_TARGET = 50_000.0  # rows a second
_WARM = 1  # the first epoch reads all rules, and has nothing open


def run(directory: str, effort: Effort) -> Iterator[Figure]:
    """Rates with rules that stay, and with rules that are swapped."""
    rows = effort.step_rows
    many, keys = min(RULES, max(rows // 100, 10)), min(KEYS, rows)
    for swapped in (0, many // 10):
        with tempfile.TemporaryDirectory(dir=directory) as place:
            took = _epochs(place, rows, many, keys, swapped, effort.step_epochs + _WARM)[_WARM:]
        seconds = [rows / one.seconds for one in took]
        what = f"{many} rules, {swapped} of them swapped in each epoch" if swapped else f"{many} rules of five shapes"
        yield Figure(
            benchmark="rules",
            case=f"{what}, {keys} keys",
            unit="rows/s",
            value=median(seconds),
            spread=spread(seconds),
            per_processor=median(rows / one.processor for one in took if one.processor),
            target=_TARGET if many == RULES and not swapped else None,
        )


def _epochs(directory: str, rows: int, many: int, keys: int, swapped: int, epochs: int) -> list[Took]:
    made, state = kernel(), StateDirectory(directory)
    entries: dict[str, dict[str, object]] = {}
    took, start = [], MIN_TIME
    for epoch in range(epochs):
        put = [rule(number) for number in range(many)] if epoch == 0 else _others(epoch, swapped)
        inputs = {"left": events(epoch, rows, keys), "right": changes(put)}
        end = int(inputs["left"]["_time"][-1]) + 1
        watch = Stopwatch()
        opened = state.open(entries, made.tables, "rules")
        step = made.step(opened, inputs, EpochClock(epoch, start, end))
        entries = {**entries, **opened.commit(epoch)}
        took.append(watch.read())
        check(0, len(step.quarantined["right"]), "rules that cannot be read, or are beyond their limits")
        start = end
    return took


def _others(epoch: int, swapped: int) -> list[dict[str, object]]:
    """Rules of the same names that look for something else."""
    return [{**rule(number), "within": f"{60 - epoch} seconds"} for number in range(swapped)]
