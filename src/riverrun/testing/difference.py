"""How two sets of rows differ, said so that a person sees it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

Row = Mapping[str, Any]
_SHOWN = 8


def differences(found: Sequence[Row], wanted: Sequence[Row], key: Sequence[str], tolerance: float) -> list[str]:
    """Lines that say what is different; none if the rows are the same in any order, floats within `tolerance`.

    `key` names the columns that tell rows apart; without one, rows are counted.
    """
    names = sorted({name for row in found for name in row}), sorted({name for row in wanted for name in row})
    if found and wanted and names[0] != names[1]:
        return [f"columns {', '.join(names[0])}, expected {', '.join(names[1])}"]
    return _by_key(found, wanted, key, tolerance) if key else _counted(found, wanted, tolerance)


def _by_key(found: Sequence[Row], wanted: Sequence[Row], key: Sequence[str], tolerance: float) -> list[str]:
    here = {tuple(_settled(row[name]) for name in key): row for row in found}
    there = {tuple(_settled(row[name]) for name in key): row for row in wanted}
    lines = []
    if len(there) < len(wanted):
        lines.append(f"the expected rows have the same {', '.join(key)} more than once")
    for place, row in there.items():
        if place not in here:
            lines.append(f"missing: {_text(row)}")
        else:
            other = here[place]
            wrong = [name for name in row if not _close(other[name], row[name], tolerance)]
            lines += [f"{_label(row, key)}: {n} is {_text(other[n])}, expected {_text(row[n])}" for n in wrong]
    lines += [f"not expected: {_text(row)}" for place, row in here.items() if place not in there]
    return lines


def _counted(found: Sequence[Row], wanted: Sequence[Row], tolerance: float) -> list[str]:
    """Rows in the order of what is exact in them; those that floats alone tell apart are beside each other then."""
    left = sorted(found, key=_order)
    lines = []
    for row in sorted(wanted, key=_order):
        same = next((i for i, other in enumerate(left) if _same(other, row, tolerance)), None)
        if same is None:
            lines.append(f"missing: {_text(row)}")
        else:
            del left[same]
    return [*lines, *(f"not expected: {_text(row)}" for row in left)]


def report(what: str, lines: Sequence[str], context: str) -> str:
    """The message of a failed assertion."""
    more = [f"… and {len(lines) - _SHOWN} more"] if len(lines) > _SHOWN else []
    return "\n  ".join([f"{what} differs ({context}):", *lines[:_SHOWN], *more])


def _same(one: Row, other: Row, tolerance: float) -> bool:
    return all(_close(one[name], other[name], tolerance) for name in other)


def _close(one: Any, other: Any, tolerance: float) -> bool:
    if isinstance(one, float) and isinstance(other, float | int) and not isinstance(other, bool):
        if math.isnan(one) or math.isnan(other):
            return math.isnan(one) and math.isnan(other)
        return math.isclose(one, other, rel_tol=tolerance, abs_tol=tolerance)
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and _same(one, other, tolerance)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(_close(a, b, tolerance) for a, b in zip(one, other, strict=True))
    return bool(_settled(one) == _settled(other))


def _settled(value: Any) -> Any:
    """A value that is equal to itself, and the same moment in every zone."""
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    if isinstance(value, list):
        return tuple(map(_settled, value))
    return value


def _order(row: Row) -> str:
    return repr([(name, _settled(row[name])) for name in sorted(row) if not isinstance(row[name], float)])


def _label(row: Row, key: Sequence[str]) -> str:
    return ", ".join(f"{name} {_text(row[name])}" for name in key)


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{name}: {_text(part)}" for name, part in value.items()) + "}"
    return value.isoformat() if isinstance(value, datetime) else repr(value)
