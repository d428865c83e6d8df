"""What is left of a flow whose views are not in the store: it was lost, or the flow writes to another one now.

Topics that the flow wrote, and its checkpoint, say how far it was. Views are computed from the log again up to there, and
no topic is written again; then the flow goes on with what its topics do not have yet.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from riverrun import durable
from riverrun.errors import Conflict, Corrupt, Invalid
from riverrun.log.topic import Start, Topic
from riverrun.position import Position
from riverrun.runtime.checkpoint import Checkpoint
from riverrun.runtime.home import home_names, recall_notes
from riverrun.runtime.manifest import Manifest, home_of
from riverrun.views import Last, Store

log = logging.getLogger("riverrun.runtime")

GONE = "has run before, and this store does not have its views"


def was_left(checkpoints: str, flow: str, last: Last) -> bool:
    """Whether a checkpoint is there that is further than that of a flow whose views have no epoch yet."""
    own = home_of(checkpoints, flow, last)  # its first epoch may have been planned, and is repeated
    return any(Checkpoint(home, flow).planned > (home == own) for home in _homes(checkpoints, flow))


def note_base(home: str, base: int) -> None:
    """Keep what is added to an epoch's number in topics where it is found without the store, too."""
    durable.write_file(f"{home}/base", str(base))


def raise_fence(flow: str, store: Store, topics: Collection[Topic]) -> None:
    """Let a store that knows nothing of the flow give fences from now on that the flow's topics accept."""
    highest = max((topic.backend.take_over(flow).fence for topic in topics), default=0)
    if highest > store.last(flow).fence:
        store.raise_fence(flow, highest)


def refuse_place(flow: str, last: Last) -> None:
    """Where alerts and derived rows begin can only be chosen while a flow has no views."""
    if last.epoch:
        raise Invalid(
            f"flow {flow} is at epoch {last.epoch}: its topics and alerts go on from there, not from another place",
            hint="alerts_from (--alerts-from) is for a flow that is new, or whose view store was lost or replaced",
        )


@dataclass(frozen=True)
class Heritage:
    """A flow, with the topics it reads and those it writes. `first` is where it begins to read the log."""

    flow: str
    store: Store
    checkpoints: str
    inputs: Mapping[str, Topic]
    outputs: Collection[Topic]
    first: Mapping[str, Mapping[int, int]]

    def is_there(self, home: str) -> bool:
        """Whether there is more than a run can repeat whose first epoch has not taken effect."""
        last = self.store.last(self.flow)
        left = was_left(self.checkpoints, self.flow, last)
        base = Manifest.decode(last.manifest).base if last.manifest else 0
        return left or self._written > base + Checkpoint(home, self.flow).planned

    def begin_at(self, place: Start) -> Callable[[], Last]:
        """As if the flow had come to a place, and topics had everything up to there."""
        positions = {name: topic.offsets(place) for name, topic in self.inputs.items()}
        begun = self._last(0, positions, self._written)
        return lambda: begun

    def recall(self) -> Callable[[], Last]:
        """The last epoch that is known to have been complete, from the checkpoint; the end of the log if that is gone."""
        try:
            self._read_checkpoint()
        except Corrupt as error:
            if self._written:
                log.warning(
                    "flow %s: nobody knows how far its topics are (%s), so rows that are in the log now are not written "
                    "to them, and send no alerts",
                    self.flow,
                    error.message,
                )
            return self.begin_at("latest")
        return self._read_checkpoint  # again when the flow cannot go on any more elsewhere

    @property
    def _written(self) -> int:
        """The newest sequence in the topics; 0 when the flow has written nothing."""
        return max((topic.last_sequence(self.flow) or 0 for topic in self.outputs), default=0)

    def _read_checkpoint(self) -> Last:
        known = [(home, Checkpoint(home, self.flow)) for home in _homes(self.checkpoints, self.flow)]
        planned = [(_read_base(home) + one.planned, home, one) for home, one in known if one.planned]
        if not planned:
            raise Corrupt(f"there is no checkpoint in {self.checkpoints}")
        # A run that was killed just after a switch left the home before, too. Both are right up to the switch.
        newest, home, checkpoint = max(planned, key=lambda one: one[:2])
        if self._written > newest:
            raise Corrupt(f"{checkpoint.directory} is older than they are")
        epoch = checkpoint.planned - 1  # the one after it may be in some topics, and not in others
        positions = checkpoint.plan(epoch).positions if epoch else self.first
        self._refuse_foreign(checkpoint, positions)
        return self._last(epoch, positions, newest - checkpoint.planned, os.path.basename(home))

    def _refuse_foreign(self, checkpoint: Checkpoint, positions: Mapping[str, Mapping[int, int]]) -> None:
        """A checkpoint that has read more than there is belongs to another log: nothing can be said from it."""
        for name, topic in self.inputs.items():
            ends = topic.ends()
            if any(offset > ends.get(partition, 0) for partition, offset in positions.get(name, {}).items()):
                raise Conflict(
                    f"flow {self.flow}: its checkpoint {checkpoint.directory} has read {Position({name: positions[name]})},"
                    f" but the topic ends at {Position({name: ends})}",
                    hint="The checkpoint belongs to another log: use the one that belongs to this log, or remove it",
                )

    def _last(self, epoch: int, positions: Mapping[str, Mapping[int, int]], base: int, home: str = "") -> Last:
        manifest = Manifest(epoch, 0, {}, {}, home=home, base=base)
        return Last(epoch, 0, Position(positions), manifest.encode())


def is_finished(home: str) -> bool:
    """Whether a home is that of a flow, and not of a rebuild that never took its place."""
    return "~" not in os.path.basename(home) or os.path.exists(f"{home}/base")


def _homes(checkpoints: str, flow: str) -> list[str]:
    """The directories of a flow, but for those of rebuilds that were not finished."""
    names = [name for name in home_names(checkpoints) if re.fullmatch(re.escape(flow) + r"(~\d+)?", name)]
    homes = [f"{checkpoints}/{name}" for name in names]
    for home in homes:
        recall_notes(home)
    return [home for home in homes if is_finished(home)]


def _read_base(home: str) -> int:
    try:
        with open(f"{home}/base", encoding="utf-8") as file:
            return int(file.read())
    except FileNotFoundError:
        return 0  # it was never rebuilt
    except ValueError:
        raise Corrupt(f"{home}/base cannot be read") from None
