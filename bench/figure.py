"""One line of the report, and the rounds it comes from."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple


class WrongResult(AssertionError):
    """What was measured did not do its work; its speed is not reported."""


class Took(NamedTuple):
    """How long a round took. Others may share the processor, so its own time says more about the code."""

    seconds: float
    processor: float | None = None  # unknown where others compute


class Stopwatch:
    """Runs from when it is made."""

    def __init__(self) -> None:
        self._processor, self._begin = time.process_time(), time.perf_counter()

    def read(self) -> Took:
        return Took(time.perf_counter() - self._begin, time.process_time() - self._processor)


@dataclass(frozen=True, slots=True)
class Figure:
    """What was measured in one case, with its reference and its target."""

    benchmark: str
    case: str
    unit: str
    value: float  # the median of the rounds
    spread: float  # half the distance between the extreme rounds, as a part of the median
    per_processor: float | None = None  # the same rate by a second of processor time
    reference: str | None = None
    reference_value: float | None = None
    ratio: float | None = None  # the median of value / reference, round by round
    target: float | None = None
    target_is_ratio: bool = False
    less_is_better: bool = False

    @property
    def on_target(self) -> bool | None:
        """Whether the target is met; None where there is none."""
        measured = self.ratio if self.target_is_ratio else self.value
        if self.target is None or measured is None:
            return None
        return measured <= self.target if self.less_is_better else measured >= self.target


def check(expected: object, found: object, what: str) -> None:
    """Refuse to go on with a wrong result."""
    if expected != found:
        raise WrongResult(f"{what}: expected {expected}, found {found}")


def alternate(work: Callable[[], Took], reference: Callable[[], Took], rounds: int) -> tuple[list[Took], list[Took]]:
    """What each round of both took, after one of each that does not count. They take turns in going first."""
    work(), reference()
    mine: list[Took] = []
    other: list[Took] = []
    for i in range(rounds):
        for run, times in ((work, mine), (reference, other))[:: 1 if i % 2 else -1]:
            times.append(run())
    return mine, other


def rates(
    benchmark: str,
    case: str,
    amount: float,
    times: tuple[Sequence[Took], Sequence[Took]],
    *,
    unit: str = "rows/s",
    reference: str,
    target: float | None = None,
    target_is_ratio: bool = False,
) -> Figure:
    """The figure of rounds that each did `amount` of work, as did the reference's."""
    mine, other = ([amount / took.seconds for took in side] for side in times)
    return Figure(
        benchmark=benchmark,
        case=case,
        unit=unit,
        value=median(mine),
        spread=spread(mine),
        per_processor=_median([amount / took.processor for took in times[0] if took.processor]),
        reference=reference,
        reference_value=median(other),
        ratio=median(a / b for a, b in zip(mine, other, strict=True)),
        target=target,
        target_is_ratio=target_is_ratio,
    )


def _median(values: Sequence[float]) -> float | None:
    return median(values) if values else None


def spread(values: Sequence[float]) -> float:
    return (max(values) - min(values)) / 2 / median(values)
