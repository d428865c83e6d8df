"""What joins have in common: two inputs, equal in some columns, and a result with the columns of both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from riverrun.columns import TIME
from riverrun.ddl import Type
from riverrun.flow.operators.node import IDENTITY, InputTypes, Node
from riverrun.flow.schema import Schema


@dataclass(frozen=True, slots=True)
class Pair:
    """Two columns that must be equal; compared as `type` where their types differ."""

    left: str
    right: str
    type: Type | None

    def __str__(self) -> str:
        return self.left if self.left == self.right else f"{self.left} = {self.right}"


@dataclass(frozen=True, slots=True)
class Output:
    """One column of a join's result: its name, and the column of which side it is. A key is that of either side."""

    name: str
    side: Literal["key", "left", "right"]
    column: str
    type: Type | None


@dataclass(frozen=True, eq=False, kw_only=True)
class Join(Node):
    """Two inputs, equal in `on`. Key columns come first and once, then the others of the left and of the right."""

    stateful = True
    input_names = ("left", "right")
    on: tuple[Pair, ...]
    how: str = field(metadata=IDENTITY)
    outputs: tuple[Output, ...]

    @property
    def left(self) -> Node:
        """The input whose method was called."""
        return self.inputs[0]

    @property
    def right(self) -> Node:
        """The other input."""
        return self.inputs[1]

    @cached_property
    def schema(self) -> Schema:
        return Schema(tuple((part.name, part.type) for part in self.outputs))

    @property
    def routes(self) -> tuple[tuple[str, ...], ...]:
        return (tuple(pair.left for pair in self.on), tuple(pair.right for pair in self.on))

    def renamed(self, side: Literal["left", "right"], names: tuple[str, ...]) -> tuple[str, ...]:
        """Columns of one side by their names in the result; hidden ones stay as they are."""
        mine = {part.column: part.name for part in self.outputs if part.side == side}
        keys = {pair.left if side == "left" else pair.right: pair.left for pair in self.on}
        return tuple({**mine, **keys}.get(name, name) for name in names)

    @property
    def identity(self) -> str:
        return f"{super().identity}|{','.join(str(pair) for pair in self.on)}"

    @property
    def time(self) -> str:
        if self.how in ("right", "full") or self.left.time == TIME:
            return TIME  # a row of the right alone has its own time
        return self.renamed("left", (self.left.time,))[0]

    @property
    def label(self) -> str:
        return f"{self.how} {self.word or self.kind} on {', '.join(str(pair) for pair in self.on)}"

    def key_types(self, number: int) -> Mapping[str, Type]:
        return {(pair.left, pair.right)[number]: pair.type for pair in self.on if pair.type is not None}

    def resolve(self, inputs: InputTypes) -> list[tuple[str, Type | None]]:
        sides = {"key": "left", "left": "left", "right": "right"}
        return [(part.name, inputs[sides[part.side]].get(part.column) or part.type) for part in self.outputs]
