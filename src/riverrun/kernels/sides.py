"""The two sides of a join: what they are joined on, and which columns the result has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import polars as pl

from riverrun.state.frames import constant, frame_of

LEFT, RIGHT = "left", "right"


@dataclass(frozen=True, slots=True)
class JoinOutput:
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
    outputs: tuple[JoinOutput, ...]

    def names(self, side: Literal["left", "right"]) -> dict[str, str]:
        """Columns of one side → names in the result, keys included."""
        found = {part.column: part.name for part in self.outputs if part.side == side}
        on = self.left_on if side == LEFT else self.right_on
        keys = dict(zip(self.left_on, on, strict=True))
        return {**{keys[part.column]: part.name for part in self.outputs if part.side == "key"}, **found}

    @cached_property
    def schema(self) -> dict[str, pl.DataType]:
        """Columns of the result."""
        kinds = {"key": self.left, "left": self.left, "right": self.right}
        return {part.name: kinds[part.side][part.column] for part in self.outputs}

    def used(self, side: Literal["left", "right"]) -> dict[str, pl.DataType]:
        """The columns of one side that a join needs: keys and what is in the result."""
        on, kinds = (self.left_on, self.left) if side == LEFT else (self.right_on, self.right)
        return {name: kinds[name] for name in (*on, *(part.column for part in self.outputs if part.side == side))}

    def joined(self, left: pl.DataFrame | None, right: pl.DataFrame | None) -> pl.DataFrame:
        """The result's columns of rows side by side; None stands for a side that is not there, at most one."""
        keys = dict(zip(self.left_on, self.right_on, strict=True))
        height = next(len(side) for side in (left, right) if side is not None)

        def column(part: JoinOutput) -> pl.Series:
            source, name = (right, part.column) if part.side == "right" else (left, part.column)
            if source is None and part.side == "key":
                source, name = right, keys[part.column]
            if source is None:
                return constant(part.name, None, self.schema[part.name], height)
            return source.get_column(name).alias(part.name)

        return frame_of([column(part) for part in self.outputs])
