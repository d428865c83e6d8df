"""The two sides of a join: what they are joined on, and which columns the result has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import polars as pl

LEFT, RIGHT = "left", "right"


@dataclass(frozen=True, slots=True)
class Output:
    """One column of the result, and the column of which side it is. A key is that of either side, left first."""

    name: str
    side: Literal["key", "left", "right"]
    column: str


@dataclass(frozen=True)
class Sides:
    """Two inputs with their columns, equal in `left_on` and `right_on`, which have the same types pairwise.

    A null among them equals nothing. `outputs` are the result's columns; a key output names a column of `left_on`.
    """

    left_on: tuple[str, ...]
    right_on: tuple[str, ...]
    left: Mapping[str, pl.DataType]
    right: Mapping[str, pl.DataType]
    outputs: tuple[Output, ...]

    def names(self, side: Literal["left", "right"]) -> dict[str, str]:
        """Columns of one side → names in the result, keys included."""
        found = {part.column: part.name for part in self.outputs if part.side == side}
        on = self.left_on if side == LEFT else self.right_on
        keys = dict(zip(self.left_on, on, strict=True))
        return {**{keys[part.column]: part.name for part in self.outputs if part.side == "key"}, **found}

    @property
    def schema(self) -> dict[str, pl.DataType]:
        """Columns of the result."""
        kinds = {"key": self.left, "left": self.left, "right": self.right}
        return {part.name: kinds[part.side][part.column] for part in self.outputs}
