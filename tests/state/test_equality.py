"""Joins by equality as SQL groups: null, NaN and both zeros, in frames of any size."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import polars as pl
from hypothesis import example, given, settings
from hypothesis import strategies as st

import riverrun
from riverrun.state.equality import equijoin

NAN = float("nan")
FLOATS = st.lists(st.sampled_from([NAN, 0.0, -0.0, 1.5, None]), max_size=4)
HOWS = ("inner", "left", "full", "semi", "anti")

Pair = tuple[int | None, int | None]


def normal(value: float | None) -> Any:
    return "nan" if value is not None and value != value else value


def pairs(left: list[Any], right: list[Any], how: str) -> set[Pair]:
    """Places of rows that are equal, and of those that are alone where `how` shows them."""
    met: set[Pair] = {(i, j) for i, a in enumerate(left) for j, b in enumerate(right) if normal(a) == normal(b)}
    lonely: set[Pair] = {(i, None) for i in range(len(left)) if all(pair[0] != i for pair in met)}
    match how:
        case "semi":
            return {(i, None) for i, _ in met}
        case "anti":
            return lonely
        case "left":
            return met | lonely
        case "full":
            return met | lonely | {(None, j) for j in range(len(right)) if all(pair[1] != j for pair in met)}
    return met


@settings(max_examples=80, deadline=None)
@given(FLOATS, FLOATS, st.sampled_from([pl.Float64(), pl.Float32()]), st.booleans(), st.booleans())
@example([NAN], [NAN], pl.Float64(), False, False)
def test_rows_meet_that_sql_would_group(
    left: list[Any], right: list[Any], kind: pl.DataType, composite: bool, renamed: bool
) -> None:
    on, theirs = ["key", "part"][: 1 + composite], ["name", "piece"][: 1 + composite] if renamed else None
    ours, others = (
        pl.DataFrame(
            {"key": keys, "part": 1, name: range(len(keys))}, schema={"key": kind, "part": pl.Int64, name: pl.Int64}
        )
        for name, keys in (("l", left), ("r", right))
    )
    ours = ours.select(*on, "l")
    others = others.select(*on, "r").rename(dict(zip(on, theirs or on, strict=True)))
    for how in HOWS:
        found = equijoin(ours, others, on, how, theirs)
        assert not [name for name in found.columns if name.startswith("_")]
        if how in ("semi", "anti"):
            rows = [(i, None) for i in found["l"]]
        else:
            rows = found.select("l", "r").rows()
        assert len(rows) == len(set(rows))
        assert set(rows) == pairs(left, right, how), how


def test_kernels_and_state_join_on_columns_of_the_user_in_this_way_only() -> None:
    """Whoever calls Polars' join itself does so on columns that are never floats."""
    source = Path(riverrun.__file__).parent
    hidden = re.compile(r'on=(ID|ARRIVAL|CELL|"producer"|\[\*ID, TIME\])[,)]')
    calls = [
        f"{path.name}: {line.strip()}"
        for folder in ("kernels", "state")
        for path in source.joinpath(folder).rglob("*.py")
        for line in path.read_text().splitlines()
        if ".join(" in line
        and path.name != "equality.py"
        and not re.search(r"""["']\.join\(|^\s*"{3}|^.*`.*\.join""", line)
    ]
    assert calls
    assert [call for call in calls if not hidden.search(call)] == []
