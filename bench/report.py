"""The figures as a table for people, and as one JSON document for programs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import groupby

from bench.figure import Figure
from riverrun.figures import scaled


def as_json(machine: Mapping[str, str], figures: Sequence[Figure]) -> str:
    results = [{**asdict(figure), "on_target": figure.on_target} for figure in figures]
    return json.dumps({"machine": dict(machine), "results": results}, indent=1)


def as_table(machine: Mapping[str, str], figures: Sequence[Figure]) -> str:
    """Machine, then a table for each benchmark."""
    width = max(map(len, machine))
    lines = [f"{name:<{width}}  {value}" for name, value in machine.items()]
    wide = max((len(figure.case) for figure in figures), default=0)
    for benchmark, group in groupby(figures, lambda figure: figure.benchmark):
        members = list(group)
        lines += [
            "",
            f"{benchmark:<{wide}}  {'median':>14}  {'spread':>6}  {'by cpu':>9}  {'reference':>26}  {'ratio':>6}  target",
        ]
        lines += [_line(figure, wide) for figure in members]
    return "\n".join(lines)


def _line(figure: Figure, wide: int) -> str:
    cpu = reference = ratio = target = ""
    if figure.per_processor is not None:
        cpu = amount(figure.per_processor, "")
    if figure.reference_value is not None:
        reference = f"{figure.reference} {amount(figure.reference_value, figure.unit)}"
    if figure.ratio is not None:
        ratio = f"{figure.ratio:.2f}" if figure.ratio >= 0.1 else f"{figure.ratio:.2g}"
    if figure.target is not None:
        wanted = f"{figure.target:g}" if figure.target_is_ratio else amount(figure.target, figure.unit)
        target = f"{'≤' if figure.less_is_better else '≥'} {wanted} {'met' if figure.on_target else 'MISSED'}"
    line = f"{figure.case:<{wide}}  {amount(figure.value, figure.unit):>14}  {f'±{figure.spread:.0%}':>6}"
    return f"{line}  {cpu:>9}  {reference:>26}  {ratio:>6}  {target}".rstrip()


def amount(value: float, unit: str) -> str:
    """
    >>> amount(5_210_000, "rows/s"), amount(0.000123, "s"), amount(0.4, "%")
    ('5.21 M rows/s', '123 µs', '0.40 %')
    """
    if unit == "s":
        value, unit = (value * 1e3, "ms") if value >= 1e-3 else (value * 1e6, "µs")
    else:
        value, power = scaled(value)
        unit = f"{power} {unit}".lstrip()
    return f"{value:.{2 if value < 10 else 1 if value < 100 else 0}f} {unit}"
