"""`s.apply(step, by, state, output)`: a user's own stateful operator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from riverrun.columns import TIME
from riverrun.flow.operators.node import IDENTITY, Columns, Node
from riverrun.flow.schema import Schema
from riverrun.flow.user_code import hash_of, name_of

_WEEK = 7 * 86_400_000_000


@dataclass(frozen=True)
class PerKey:
    """A function of one key, to be given to `s.apply`."""

    function: Callable[..., Any]


def per_key(function: Callable[..., Any]) -> PerKey:
    """For `s.apply`: `function(state, rows, clock) -> (state, output)` of one key, with dicts instead of frames.

    `state` is None for a key of which nothing is remembered; return None to forget it. It is called for every key by
    itself, in plain Python: that is about a hundred times slower than a function over frames.
    """
    return PerKey(function)


@dataclass(frozen=True, eq=False, kw_only=True)
class Apply(Node):
    """What `step` makes of the rows of each key and of what it has remembered of it."""

    kind = "apply"
    stateful = True
    timed = True
    hands_on_receipt = True
    keeps_row_ids = True  # what it makes has ids made of those of the rows it was given
    time = TIME
    function: Callable[..., Any] | PerKey
    by: tuple[str, ...] = field(metadata=IDENTITY)
    state: Schema
    output: Schema = field(metadata=IDENTITY)

    @property
    def schema(self) -> Schema:
        return self.output

    @property
    def hold(self) -> int:
        return _WEEK  # nobody knows when the function wants to be woken

    @property
    def routes(self) -> tuple[tuple[str, ...], ...]:
        return (self.by,)

    def reads_receipt(self, number: int) -> bool:
        return True

    @property
    def functions(self) -> tuple[Callable[..., Any], ...]:
        return (self.function.function if isinstance(self.function, PerKey) else self.function,)

    @property
    def label(self) -> str:
        return f"apply {name_of(*self.functions)} by {', '.join(self.by)}"

    @property
    def identity(self) -> str:
        return f"{super().identity}|{name_of(*self.functions)}"

    def settings(self, wanted: Columns) -> dict[str, Any]:
        by_key = isinstance(self.function, PerKey)
        return {**super().settings(wanted), "function": hash_of(*self.functions), "per_key": by_key}
