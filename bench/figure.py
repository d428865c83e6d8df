"""One line of the report, and the rounds it comes from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median


class WrongResult(AssertionError):
    """What was measured did not do its work; its speed is not reported."""


@dataclass(frozen=True, slots=True)
class Figure:
    """What was measured in one case, with its reference and its target."""

    benchmark: str
    case: str
    unit: str
    value: float  # the median of the rounds
    spread: float  # half the distance between the extreme rounds, as a part of the median
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


def alternate(
    work: Callable[[], float], reference: Callable[[], float], rounds: int
) -> tuple[list[float], list[float]]:
    """Seconds of each round of both, after one round of each that does not count. They take turns in going first."""
    work(), reference()
    mine: list[float] = []
    other: list[float] = []
    for i in range(rounds):
        for run, times in ((work, mine), (reference, other))[:: 1 if i % 2 else -1]:
            times.append(run())
    return mine, other


def rates(
    benchmark: str,
    case: str,
    amount: float,
    times: tuple[Sequence[float], Sequence[float]],
    *,
    unit: str = "rows/s",
    reference: str,
    target: float | None = None,
    target_is_ratio: bool = False,
) -> Figure:
    """The figure of rounds that each did `amount` of work, as did the reference's."""
    mine, other = ([amount / seconds for seconds in side] for side in times)
    return Figure(
        benchmark=benchmark,
        case=case,
        unit=unit,
        value=median(mine),
        spread=spread(mine),
        reference=reference,
        reference_value=median(other),
        ratio=median(a / b for a, b in zip(mine, other, strict=True)),
        target=target,
        target_is_ratio=target_is_ratio,
    )


def spread(values: Sequence[float]) -> float:
    return (max(values) - min(values)) / 2 / median(values)
