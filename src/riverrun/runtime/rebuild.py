"""The views of a flow computed again: tables and a home of their own, and how they take the place of the running ones."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from riverrun import durable
from riverrun.errors import Conflict, Corrupt, RiverrunError
from riverrun.failpoints import failpoint
from riverrun.flow import Flow
from riverrun.log.topic import Topic
from riverrun.position import Position
from riverrun.runtime import bounds
from riverrun.runtime.checkpoint import Checkpoint
from riverrun.runtime.commit import Committer
from riverrun.runtime.compile.job import Job
from riverrun.runtime.heritage import is_finished, note_base
from riverrun.runtime.home import home_names, keep_notes, make_home, remove_home
from riverrun.runtime.manifest import Manifest, computation, home_of
from riverrun.runtime.outputs import view_specs
from riverrun.runtime.patience import Patience
from riverrun.views import Last, Store, ViewSpec

log = logging.getLogger("riverrun.runtime")


class Successor:
    """Views that are to take the place of a flow's. An older attempt that was not finished is given up.

    Its `committer` takes epochs into tables that nobody sees, and writes to no topic. Epochs count from 1; they have to
    read up to `goal`, then `switch` puts tables, positions, manifest and home in place of the old ones. What those were
    at last, the store says, or where it has nothing of the flow the `heritage`.
    """

    def __init__(
        self,
        flow: Flow,
        suffix: str,
        job: Job,
        store: Store,
        checkpoints: str,
        inputs: Mapping[str, Topic],
        heritage: Callable[[], Last] | None = None,
    ) -> None:
        self.name = flow.name + suffix
        self._flow = flow
        self._job = job
        self._store = store
        self._checkpoints = checkpoints
        self._inputs = inputs
        for token in store.rebuilds(self.name):
            store.abandon(token)
            home = f"{checkpoints}/{self.name}~{token}"
            if not is_finished(home):  # it may be one that another store had under this number
                remove_home(home)
        self._live = heritage or (lambda: store.last(self.name))
        self.token, self.home = self._begin(view_specs(flow, job, suffix))
        make_home(self.home)
        failpoint("rebuild.begun")
        self.committer = Committer(flow, job, store, {}, self.home, suffix, 0, self.token)
        self.checkpoint = Checkpoint(self.home, self.name)

    def goal(self) -> Position:
        """Where the running flow is. Topics that only the new flow reads are read to their end."""
        live = self._live()
        return Position({n: live.positions.get(n) or topic.ends() for n, topic in self._inputs.items()})

    def stop_at(self, goal: Position) -> None:
        """Let the planner read up to there."""
        bounds.write_positions(bounds.until(self.home), goal)

    def switch(self, fence: int, topics: Iterable[Topic], patience: Patience) -> None:
        """Take the place of the running views. Only who has this fence can write by now, to the store and to the topics,
        and everything up to `goal` has been read."""
        live = self._live()
        manifest, together = self._heir(live, topics)
        note_base(self.home, manifest.base)
        if together is not None:
            bounds.write_positions(bounds.together(self.home), together)
        patience.through(lambda: keep_notes(self.home))
        for directory in (self.home, self._checkpoints):
            durable.sync_directory(directory)
        patience.through(lambda: self._switch(fence, manifest))
        failpoint("rebuild.switched")
        try:
            clean(self._checkpoints, self.name, self._store)
        except (RiverrunError, OSError) as error:  # the next run does it
            log.debug("old homes of flow %s stay for now: %s", self.name, error)
        failpoint("rebuild.cleaned")

    def abandon(self) -> None:
        """Leave nothing behind, unless it was switched to."""
        try:
            if self.token in self._store.rebuilds(self.name):
                self._store.abandon(self.token)
            if not self._is_live():
                remove_home(self.home)
        except RiverrunError as error:  # the next rebuild does it
            log.debug("the rebuild of flow %s could not be removed: %s", self.name, error)

    def _begin(self, specs: Sequence[ViewSpec]) -> tuple[int, str]:
        """Tables, and a home that is nobody's: the numbers of another store may have been used for one."""
        while True:
            token = self._store.begin_rebuild(self.name, specs)
            home = f"{self._checkpoints}/{self.name}~{token}"
            if os.path.basename(home) not in home_names(self._checkpoints):
                return token, home
            self._store.abandon(token)

    def _switch(self, fence: int, manifest: Manifest) -> None:
        if self.token in self._store.rebuilds(self.name):
            self._store.switch(self.token, fence, manifest=manifest.encode(), base=manifest.base)
        elif not self._is_live():  # else an answer was lost, and it is done
            raise Conflict(f"the rebuild of flow {self.name} was given up: somebody began another one")

    def _is_live(self) -> bool:
        return home_of(self._checkpoints, self.name, self._store.last(self.name)) == self.home

    def _heir(self, live: Last, topics: Iterable[Topic]) -> tuple[Manifest, Position | None]:
        """The manifest to go on with, and positions up to which the first epoch has to read.

        The running flow may have written an epoch to topics and died before the store had it. Its first successor reads
        the same rows and has the same sequence: topics that have it take nothing twice, others get what they lack. If it
        read no rows, time alone made it; then its sequence is passed over.
        """
        base = live.epoch + (Manifest.decode(live.manifest).base if live.manifest else 0)
        together = None
        if any((topic.last_sequence(self.name) or 0) > base for topic in topics):
            together = self._unfinished(live)
            base += together is None
        built = self.committer.last
        if built.manifest is None:  # there was nothing to read
            made = Manifest(0, self._job.shards, {}, computation(self._flow), home=os.path.basename(self.home))
        else:
            made = Manifest.decode(built.manifest)
        return msgspec.structs.replace(made, base=base - built.epoch), together

    def _unfinished(self, live: Last) -> Position | None:
        """Where the epoch ends that topics have and the store does not; None when it has no rows, or nobody knows. A
        rebuild just before this one may have left it to its first epoch, too, which has not been planned then."""
        home = home_of(self._checkpoints, self.name, live)
        left = bounds.read_positions(bounds.together(home))
        if left is None or left <= live.positions:
            try:
                left = Position(Checkpoint(home, self.name).plan(live.epoch + 1).positions)
            except Corrupt:
                return None
        read = Position({name: left[name] for name in self._inputs if name in left})
        return None if read <= live.positions else read


def clean(checkpoints: str, flow: str, store: Store) -> None:
    """Remove the homes that a flow had before it was rebuilt. Those of rebuilds that are under way stay."""
    # In this order: a rebuild that begins, or takes its place, while we look is not among those that are removed.
    names, rebuilds = home_names(checkpoints), store.rebuilds(flow)
    home = os.path.basename(home_of(checkpoints, flow, store.last(flow)))
    if "~" not in home:
        return
    keep = {home, *(f"{flow}~{token}" for token in rebuilds)}
    for name in names:
        if name not in keep and (name == flow or name.startswith(f"{flow}~")):
            remove_home(f"{checkpoints}/{name}")
