"""One epoch as a store takes it, what a store knows of a flow, and when an epoch may not be written: too old a fence, a gap,
the same number with other input. The rules are the same for every store."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from riverrun.durations import wall_clock
from riverrun.errors import Conflict, Fenced, Invalid
from riverrun.position import Position

if TYPE_CHECKING:
    from riverrun.views.settled import Settled

Positions = Mapping[str, Mapping[int, int]]


@dataclass(frozen=True, slots=True)
class Epoch:
    """Everything one epoch of one flow changes in one store.

    `changes` has, by view, either a table of the view's columns and `_weight` (+1 inserts, -1 retracts), in log order; or
    settled parts, which have no key in common: those are written as they are. `positions` is where the epoch's input
    ends. `manifest` is the state that belongs to it, `ledger` any plain data kept beside it. `rebuild` is the token of a
    rebuild when the epoch belongs to one. `whole` names the views whose changes retract every row they replace, as those
    of a table do, and those of a stream that keeps every row; of other views, rows that are there are looked up.

    For views in other stores: `base` and the epoch's number are its sequence, which goes on rising across rebuilds;
    `generation` names the computation that the rows are of.
    """

    flow: str
    fence: int
    epoch: int
    positions: Positions
    changes: Mapping[str, pa.Table | Sequence[Settled]] = field(default_factory=dict)
    manifest: bytes | None = None
    ledger: Any = None
    received: int = 0
    committed: int = field(default_factory=wall_clock)
    rebuild: int | None = None
    whole: frozenset[str] = frozenset()
    base: int = 0
    generation: str = ""

    def after(self, last: Last) -> Last:
        """What the store holds of the flow once this epoch has followed `last`; `Conflict` when it does not follow it."""
        if self.epoch != last.epoch + 1:
            raise Conflict(
                f"epoch {self.epoch} of flow {self.flow!r} does not follow epoch {last.epoch}, the last one here",
                hint="The checkpoint and this store do not belong together: restore both, or rebuild",
            )
        return Last(
            epoch=self.epoch,
            fence=self.fence,
            positions=as_position(self.positions),
            manifest=self.manifest,
            ledger=self.ledger,
            received=self.received,
            committed=max(self.committed, last.committed),  # the clock may jump; the order of commits does not
            run=last.run if self.fence == last.fence else this_run(),
        )

    def check_repeated(self, committed: Position | None) -> None:
        """`Conflict` unless the epoch of this number that was committed, if it is remembered, had the same input."""
        if committed is None:
            raise Conflict(
                f"epoch {self.epoch} of flow {self.flow!r} is older than the epochs remembered here",
                hint="The checkpoint is older than this store: restore both, or rebuild",
            )
        if committed != as_position(self.positions):
            raise Conflict(
                f"epoch {self.epoch} of flow {self.flow!r} was committed with other input positions ({committed})",
                hint="Two checkpoints write the same views: stop one of them, or rebuild",
            )


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

    def refuse_older(self, flow: str, fence: int) -> None:
        """`Fenced`, naming the newer run, when another one has taken over."""
        if fence < self.fence:
            raise Fenced(
                f"run {fence} of flow {flow!r} may write nothing more: run {self.fence} has taken over ({self.run})",
                hint="Only one run of a flow can write; stop this one",
            )


@dataclass(frozen=True, slots=True)
class Incumbent:
    """The run that holds the fence of a flow, as it has told the store: `run` names it for people, `process` for its machine;
    `since` and `heard` are microseconds by its clock."""

    fence: int
    run: str
    process: str
    since: int
    heard: int


@dataclass(frozen=True, slots=True)
class StoreIdentity:
    """Which store it is, by a number that no other has (None: it has none yet), and where it is."""

    number: int | None
    place: str


@dataclass(frozen=True, slots=True)
class ViewProgress:
    """How far a view is: the commit it shows, counted by the store, and the input positions of its topics. It stays there
    when its flow no longer has the view (`kept_up`)."""

    commit: int
    epoch: int
    positions: Position
    committed: int
    kept_up: bool = True


def as_position(value: Positions | str) -> Position:
    """A position given as one, as its string, or as a plain dictionary."""
    if isinstance(value, Position):
        return value
    if isinstance(value, str):
        return Position.parse(value)
    if not isinstance(value, Mapping):
        raise Invalid(f"not a position: {value!r}", hint='Give what append returned, or write "orders@0:17,1:4"')
    return Position(value)


def this_run() -> str:
    """How errors name the run of this process to the ones it overtook."""
    return f"{socket.gethostname()}, process {os.getpid()}"
