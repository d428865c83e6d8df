"""Kept rows that are damaged."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from riverrun.errors import Corrupt
from riverrun.views import ViewSpec
from riverrun.views.layout import layout_of

LAYOUT = layout_of(ViewSpec("v", "flow", "k bigint, s string, price decimal(10, 2), at timestamp", ("k",)))
SOUND: list[list[Any]] = [[1], ["a"], ["1.50"], [0]]


@pytest.mark.parametrize(
    ("column", "value"),
    [(0, "one"), (0, b"1"), (0, 1 << 70), (1, 7), (1, b"\xff"), (2, "1.5.0"), (2, 3), (3, "yesterday")],
)
def test_a_value_that_was_never_kept_is_damage(column: int, value: Any) -> None:
    assert LAYOUT.give_back(LAYOUT.table(SOUND)).num_rows == 1
    damaged = [[value] if i == column else values for i, values in enumerate(SOUND)]
    with pytest.raises(Corrupt, match="rows of view 'v' that are kept are damaged"):
        LAYOUT.give_back(LAYOUT.table(damaged))


def test_damage_is_told_in_one_line() -> None:
    with pytest.raises(Corrupt) as caught:
        LAYOUT.table([["one"], ["a"], ["1.50"], [0]])
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value.__cause__, pa.ArrowException)
