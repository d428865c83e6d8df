"""`rr.per_key(fn)`: a function of one key as a step over all keys, in plain Python."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import isnan
from typing import Any

import polars as pl

from riverrun.errors import Invalid, RiverrunError
from riverrun.figures import plural
from riverrun.kernels.apply import STAMP, WAKE, ApplyClock, Function
from riverrun.kernels.shown_values import shown

OneKey = Callable[[dict[str, Any] | None, list[dict[str, Any]], ApplyClock], tuple[Mapping[str, Any] | None, Any]]
"""(what is remembered of the key, its new rows, the clock) → (what to remember, rows to hand on)."""


def step_by_key(
    function: OneKey,
    key: Mapping[str, pl.DataType],
    state: Mapping[str, pl.DataType],
    output: Mapping[str, pl.DataType],
) -> Function:
    """The step that calls `function` for every key by itself: those with rows first, in the order they come."""
    by = list(key)

    def step(before: pl.DataFrame, rows: pl.DataFrame, clock: ApplyClock) -> tuple[pl.DataFrame, pl.DataFrame]:
        remembered = {_key(row, by): row for row in before.iter_rows(named=True)}
        arrived: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
        names: dict[tuple[Any, ...], dict[str, Any]] = {}
        for row in rows.iter_rows(named=True):
            arrived.setdefault(_key(row, by), []).append(row)
            names.setdefault(_key(row, by), {name: row[name] for name in by})
        for one, row in remembered.items():
            names.setdefault(one, {name: row[name] for name in by})
        after, out = [], []
        for one, named in names.items():
            known = remembered.get(one)
            given = None if known is None else {name: known[name] for name in (*state, WAKE)}
            new = arrived.get(one, [])
            try:
                kept, made = _result(function(given, new, clock))
            except Exception as error:
                raise _failed(named, new, error) from error
            if kept is not None:
                after.append({**named, **kept})
            out += [{**named, **row} for row in made]
        times = {"_time": STAMP} if any("_time" in row for row in out) else {}
        return _frame(after, {**key, **state, WAKE: STAMP}), _frame(out, {**output, **times})

    return step


def _key(row: Mapping[str, Any], by: Sequence[str]) -> tuple[Any, ...]:
    """A key that equals itself, as NaN does not."""
    values = (row[name] for name in by)
    return tuple("NaN" if isinstance(value, float) and isnan(value) else value for value in values)


def _failed(key: Mapping[str, Any], rows: list[dict[str, Any]], error: Exception) -> Invalid:
    """The error of one key: which, and what was given."""
    first = {name: value for name, value in rows[0].items() if name not in key} if rows else {}
    given = f"given {plural(len(rows), 'row')}, the first with {shown(first)}" if rows else "woken without new rows"
    hint = error.hint if isinstance(error, RiverrunError) else None
    said = error.message if isinstance(error, RiverrunError) else f"{type(error).__name__}: {error}"
    return Invalid(f"it fails for {shown(key)}, {given}: {said}", hint=hint)


def _result(made: Any) -> tuple[Mapping[str, Any] | None, Iterable[Mapping[str, Any]]]:
    if not isinstance(made, tuple) or len(made) != 2:
        raise Invalid(f"a function for per_key returns what to remember and a list of rows, not {made!r}")
    kept, rows = made
    return kept, rows or ()


def _frame(rows: list[dict[str, Any]], kinds: Mapping[str, Any]) -> pl.DataFrame:
    for row in rows:
        unknown = [name for name in row if name not in kinds]
        if unknown:
            raise Invalid(f"a function for per_key gave a column {unknown[0]!r}; there are {', '.join(kinds)}")
    return pl.DataFrame(rows, schema=dict(kinds), orient="row")
