"""One epoch as a store takes it, and what a store knows of a flow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from riverrun.durations import wall_clock
from riverrun.position import Position
from riverrun.views.positions import Positions


@dataclass(frozen=True, slots=True)
class Epoch:
    """Everything one epoch of one flow changes in one store.

    `changes` has, by view, a table of the view's columns and `_weight` (+1 inserts, −1 retracts), in log order.
    `positions` is where the epoch's input ends. `manifest` is the state that belongs to it, `ledger` any plain data
    kept beside it. `rebuild` is the token of a rebuild when the epoch belongs to one. `whole` names the views whose
    changes retract every row they replace, as those of a table do; of other views, rows that are there are looked up.
    """

    flow: str
    fence: int
    epoch: int
    positions: Positions
    changes: Mapping[str, pa.Table] = field(default_factory=dict)
    manifest: bytes | None = None
    ledger: Any = None
    received: int = 0
    committed: int = field(default_factory=wall_clock)
    rebuild: int | None = None
    whole: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Last:
    """What a store holds of a flow after its newest epoch; `epoch` is 0 before the first."""

    epoch: int
    fence: int
    positions: Position
    manifest: bytes | None = None
    ledger: Any = None
    received: int = 0
    committed: int = 0
    run: str = ""


@dataclass(frozen=True, slots=True)
class ViewProgress:
    """How far a view is: the commit it shows, counted by the store, and the input positions of its topics. It stays there
    when its flow no longer has the view (`kept_up`)."""

    commit: int
    epoch: int
    positions: Position
    committed: int
    kept_up: bool = True
