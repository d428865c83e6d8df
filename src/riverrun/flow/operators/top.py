"""`.top(n, by, per)`: the first rows of each group in an order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from riverrun.columns import ROW_ID, order_column
from riverrun.flow.expressions import Order, Wanted
from riverrun.flow.operators.node import IDENTITY, Node
from riverrun.flow.schema import INT, Schema


@dataclass(frozen=True, eq=False, kw_only=True)
class Top(Node):
    """The first `n` rows of each group in an order; `ties` keeps rows equal to the last, `rank` names a rank column."""

    kind = "top"
    stateful = True
    keeps_row_ids = True
    key_travels = True
    is_table = True
    retracts = True
    n: int
    order: tuple[Order, ...] = field(metadata=IDENTITY)
    per: tuple[str, ...] = field(metadata=IDENTITY)
    rank: str | None = None
    ties: bool = False

    @cached_property
    def schema(self) -> Schema:
        before = self.inputs[0].schema
        added = ((self.rank, INT),) if self.rank else ()
        return Schema((*before.columns, *added), before.open)

    @property
    def key(self) -> tuple[str, ...]:
        inner = self.inputs[0].key if self.inputs[0].is_table else (ROW_ID,)
        return tuple(dict.fromkeys([*self.per, *inner]))

    @property
    def routes(self) -> tuple[tuple[str, ...], ...]:
        return (self.per,)

    @property
    def label(self) -> str:
        order = ", ".join(f"{part.expression}{' desc' if part.descending else ''}" for part in self.order)
        return f"top {self.n} by {order}" + (f" per {', '.join(self.per)}" if self.per else "")

    @property
    def row_id_is_position(self) -> bool:
        return not self.inputs[0].is_table

    def reads(self, number: int, columns: Sequence[str]) -> Wanted:
        order: Wanted = [(order_column(i), part.expression) for i, part in enumerate(self.order)]
        return [*super().reads(number, columns), *order]


@dataclass(frozen=True, eq=False, kw_only=True)
class Newest(Top):
    """The newest row per key, of a stream that takes rows back, or whose rows come out in no order."""

    kind = "newest"
    word = "newest row"
    n: int = 1

    @property
    def label(self) -> str:
        return f"newest row by {', '.join(self.per)}"

    @property
    def key(self) -> tuple[str, ...]:
        return self.per


@dataclass(frozen=True, eq=False, kw_only=True)
class OnePerKey(Top):
    """One row per key of a table that has hidden parts in its own; where there are several, the first by these."""

    kind = "one"
    n: int = 1
    order: tuple[Order, ...] = ()

    @property
    def label(self) -> str:
        return f"one row by {', '.join(self.per)}"

    @property
    def key(self) -> tuple[str, ...]:
        return self.per
