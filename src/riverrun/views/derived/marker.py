"""What a derived store writes down of a flow beside its rows, in the same atomic step; and what follows from it: whether an
epoch is the next one, there already, or not to be written. The rules are the same for every store."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from riverrun.errors import Conflict, Fenced
from riverrun.views.epoch import Positions, as_position, this_run
from riverrun.views.spec import ViewSpec

if TYPE_CHECKING:
    import pyarrow as pa

    from riverrun.views.settled import Settled


class Behind(Conflict):
    """A store that does not have what was committed before: it was restored from an older copy, emptied, or belongs to
    another history. Its views have to be computed from the log again, which the next start of the flow does."""


class Marker(msgspec.Struct, frozen=True):
    """A flow in a derived store. `sequence` numbers epochs across rebuilds, as in derived topics; 0 before the first.
    `input` stands for the positions where that epoch's input ended, `generation` for the computation that the rows are of: a
    rebuild begins another one, and so does any change of columns or keys. `work` is a store's own: what it has begun."""

    fence: int = 0
    run: str = ""
    generation: str = ""
    sequence: int = 0
    input: int = 0
    work: str = ""

    def encode(self) -> bytes:
        return msgspec.json.encode(self)

    @classmethod
    def decode(cls, data: bytes) -> Marker:
        return msgspec.json.decode(data, type=cls)

    def refuse_older(self, flow: str, fence: int) -> None:
        """`Fenced`, naming the newer run, when another one has taken over."""
        if fence < self.fence:
            by = f" ({self.run})" if self.run else ""
            raise Fenced(
                f"run {fence} of flow {flow!r} may write nothing more: run {self.fence} has taken over{by}",
                hint="Only one run of a flow can write; stop this one",
            )

    def fenced(self, flow: str, fence: int, run: str | None = None) -> Marker:
        """The marker once a run has this fence."""
        self.refuse_older(flow, fence)
        if fence == self.fence:
            return self
        return msgspec.structs.replace(self, fence=fence, run=run or this_run())


@dataclass(frozen=True)
class DerivedEpoch:
    """Everything one epoch of a flow changes in one derived store. `token` is that of a rebuild when the epoch belongs to
    one; `generation` is the token of the rebuild that the running views are of. `whole` as in `Epoch`."""

    flow: str
    fence: int
    generation: str
    sequence: int
    positions: Positions
    specs: Mapping[str, ViewSpec]
    changes: Mapping[str, pa.Table | Sequence[Settled]] = field(default_factory=dict)
    whole: frozenset[str] = frozenset()
    token: str | None = None

    def after(self, last: Marker, place: str) -> Marker | None:
        """The marker once this epoch has followed `last`; None when it is there already. `Fenced` when a newer run has
        taken over, `Behind` when the store does not have what was before it, `Conflict` when it has other input."""
        last.refuse_older(self.flow, self.fence)
        if last.sequence == 0 and self.sequence == 1:
            pass  # the first of all
        elif last.generation != self.generation:
            raise Behind(f"{place} has rows of another computation of flow {self.flow!r}", hint=AGAIN)
        elif self.sequence == last.sequence and last.input == digest(self.positions):
            return None
        elif self.sequence <= last.sequence:
            raise Conflict(
                f"epoch {self.sequence} of flow {self.flow!r} was written to {place} with other input, or is older than"
                f" epoch {last.sequence}, the last one there",
                hint="Two checkpoints write the same views: stop one of them, or rebuild",
            )
        elif self.sequence != last.sequence + 1:
            raise Behind(
                f"{place} is behind: it has epoch {last.sequence} of flow {self.flow!r}, and {self.sequence} is the next",
                hint=AGAIN,
            )
        return Marker(
            fence=self.fence,
            run=last.run if self.fence == last.fence else this_run(),
            generation=self.generation,
            sequence=self.sequence,
            input=digest(self.positions),
        )


PIECES = "pieces:"  # of an epoch that is written in several steps: it is repeated
AGAIN = "Run the flow again: its views are computed from the log then"


def misfit(last: Marker | None, sequence: int, generation: str, positions: Positions) -> str | None:
    """Why a store with this marker does not belong to a flow whose home store is at `sequence`; None where it does: it is
    as far, or has one epoch more, which is repeated then."""
    if last is None or (last.sequence == 0 and sequence):
        return "has nothing of the flow: it was emptied, or is another one"
    if last.sequence == 0 or (sequence == 0 and last.sequence == 1):
        return None
    if last.generation != generation:
        return "has rows of another computation of it"
    if last.sequence < sequence:
        return f"is behind, at epoch {last.sequence} of {sequence}: it was restored from an older copy"
    if last.sequence > sequence + 1:
        return f"is ahead, at epoch {last.sequence} of {sequence}: it is of another history"
    if last.sequence == sequence and last.input != digest(positions):
        return f"has other input in epoch {sequence}: it is of another history"
    if last.work and not last.work.startswith(PIECES):
        return "was being replaced when its run ended"
    return None


def digest(positions: Positions) -> int:
    """A number for positions: the same for the same ones."""
    found = as_position(positions)
    plain = sorted((topic, sorted(parts.items())) for topic, parts in found.items())
    return _number(repr(plain))


def _number(text: str) -> int:
    """63 bits, so that every store can hold it as a whole number."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1
