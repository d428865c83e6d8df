"""Joins: stream with stream, stream with table, table with table."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from riverrun.columns import TIME
from riverrun.ddl import Type
from riverrun.durations import show
from riverrun.flow.nodes.node import IDENTITY, Node
from riverrun.flow.schema import Schema
from riverrun.flow.windows import Correct, Late


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
        return f"{self.how} {self.kind} on {', '.join(str(pair) for pair in self.on)}"


@dataclass(frozen=True, eq=False, kw_only=True)
class JoinStreams(Join):
    """Pairs with `lo ≤ right.time − left.time ≤ hi`, each once; rows without a partner when none can come any more."""

    kind = "join_streams"
    lo: int
    hi: int

    @property
    def hold(self) -> int:
        return self.delay

    @property
    def delay(self) -> int:
        return max(self.hi, -self.lo, 0)

    @property
    def label(self) -> str:
        return f"{super().label} within {show(self.lo)} … {show(self.hi)}"


@dataclass(frozen=True, eq=False, kw_only=True)
class Lookup(Join):
    """Each row of the stream with the table's row of that key, in the newest version known when it is processed."""

    kind = "lookup"

    @property
    def retracts(self) -> bool:
        return self.left.retracts


@dataclass(frozen=True, eq=False, kw_only=True)
class AsOf(Join):
    """Each row of the stream with the version of the table's row that was valid at the row's time."""

    kind = "as_of"
    late: Late

    @property
    def retracts(self) -> bool:
        return self.left.retracts or isinstance(self.late, Correct)

    @property
    def delay(self) -> int:
        return self.late.horizon


@dataclass(frozen=True, eq=False, kw_only=True)
class JoinTables(Join):
    """The join of two tables as they are now, maintained: equal to SQL's after every epoch."""

    kind = "join_tables"

    @property
    def key(self) -> tuple[str, ...]:
        left, right = self.renamed("left", self.left.key), self.renamed("right", self.right.key)
        apart = self.apart
        return tuple(dict.fromkeys([*left, *(apart.get(name, name) for name in right)]))

    @property
    def apart(self) -> dict[str, str]:
        """Hidden parts of the right's key by their names in the result, where the left's may have the same."""
        found: dict[str, str] = {}
        for name in self.right.key:
            if name not in self.right.schema:
                chosen = name
                while chosen in (*self.left.key, *found.values()):
                    chosen += "_right"
                found[name] = chosen
        return found

    @property
    def retracts(self) -> bool:
        return True
