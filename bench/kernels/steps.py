"""B: one step of every stateful operator, as the host takes it: open the state, step, commit, on files.

Small steps have some rows and little state: what counts is what a step costs however little there is to do. Large ones
have as many rows as an epoch of a busy shard: what counts is what a row costs, merging of state included. Processor
time is measured, in a process of its own with one thread, as the workers are.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from statistics import fmean, median
from typing import Any, NamedTuple

import polars as pl

from bench.crew import Crew
from bench.effort import Effort
from bench.figure import Figure, WrongResult, spread
from bench.kernels.batch import net
from bench.kernels.cases import CASES, KernelCase
from bench.kernels.rows import watermark
from riverrun.kernels.kernel import EpochClock, Step
from riverrun.state.directory import StateDirectory

SMALL_ROWS, SMALL_KEYS = 100, 500
IDLE = 0.3e-3  # target: seconds of a step without rows
WARM_STEPS, WARM_EPOCHS = 20, 2
_THREADS = "POLARS_MAX_THREADS"


class Measured(NamedTuple):
    """Seconds of processor time: of each small step, of each step without rows, of a row in each large step."""

    small: list[float]
    idle: list[float]
    row: list[float]


def run(directory: str, effort: Effort) -> Iterator[Figure]:
    before = os.environ.get(_THREADS)
    os.environ[_THREADS] = "1"  # Polars reads it when it is loaded, so it must be set before the process begins
    try:
        crew = Crew(1)
    finally:
        os.environ.pop(_THREADS) if before is None else os.environ.update({_THREADS: before})
    with crew:
        for name, case in CASES.items():
            (measured,) = crew.together(_prepare, _measure, name, directory, effort)
            yield _figure(f"{name}: small step", measured.small, median(measured.small), case.step)
            yield _figure(f"{name}: step without rows", measured.idle, median(measured.idle), IDLE)
            yield _figure(f"{name}: row of a large step", measured.row, fmean(measured.row), case.row)


def _figure(case: str, times: list[float], value: float, target: float) -> Figure:
    return Figure("kernels", case, "s", value, spread(times), target=target, less_is_better=True)


def _prepare(number: int, name: str, directory: str, effort: Effort) -> tuple[KernelCase, str, Effort]:
    return CASES[name], directory, effort


def _measure(prepared: tuple[KernelCase, str, Effort]) -> Measured:
    case, directory, effort = prepared
    with tempfile.TemporaryDirectory(dir=directory) as place:
        small = Steps(case, place, SMALL_ROWS, SMALL_KEYS)
        small.take(WARM_STEPS)
        steps = small.take(effort.small_steps)
        idle = small.idle(effort.small_steps)
        small.verify()
        shutil.rmtree(place)
        large = Steps(case, place, effort.step_rows, effort.step_keys)
        large.take(WARM_EPOCHS)
        rows = [seconds / effort.step_rows for seconds in large.take(effort.step_epochs)]
        large.verify()
    return Measured(steps, idle, rows)


class Steps:
    """The epochs of one kernel, its state, and what it has given so far."""

    def __init__(self, case: KernelCase, directory: str, rows: int, keys: int) -> None:
        self._case = case
        self._inputs = case.inputs(rows, keys)
        self._state = StateDirectory(directory)
        self._entries: dict[str, Any] = {}
        self._epoch = 0
        self._time = 0
        self._read: dict[str, list[pl.DataFrame]] = {}
        self._changes: list[pl.DataFrame] = []

    def take(self, epochs: int) -> list[float]:
        """Seconds that each of the next epochs takes."""
        times = []
        for _ in range(epochs):
            inputs = self._inputs(self._time)
            self._time += 1
            for name, rows in inputs.items():
                self._read.setdefault(name, []).append(rows)
            times.append(self._step(inputs))
        return times

    def idle(self, epochs: int) -> list[float]:
        """Seconds that epochs take in which nothing comes and no time passes."""
        nothing = {name: parts[0].clear() for name, parts in self._read.items()}
        return [self._step(nothing) for _ in range(epochs)]

    def _step(self, inputs: Mapping[str, pl.DataFrame]) -> float:
        clock = EpochClock(self._epoch, watermark(self._time - any(map(len, inputs.values()))), watermark(self._time))
        begun = time.process_time()
        state = self._state.open(self._entries, self._case.kernel.tables, "node", 0)
        step: Step = self._case.kernel.step(state, inputs, clock)
        self._entries = state.commit(self._epoch)
        seconds = time.process_time() - begun
        self._changes.append(step.changes)
        self._state.sweep(self._entries.values(), self._epoch)
        self._epoch += 1
        return seconds

    def verify(self) -> None:
        """The changes add up to what a batch over the same rows says."""
        if self._case.expected is None:
            return
        expected = self._case.expected({name: pl.concat(parts) for name, parts in self._read.items()}, self._time)
        found = net(self._changes)
        if not found.sort(found.columns).equals(expected.select(found.columns).sort(found.columns)):
            raise WrongResult(f"{self._case.kernel}: the changes do not add up to the result of a batch")
