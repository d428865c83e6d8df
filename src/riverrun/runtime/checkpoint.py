"""Spark's checkpoint of a flow, read from outside: what was planned, and whether it fits what the home store holds.

Spark writes one file for each planned batch (`offsets/n`) and one for each batch it has finished (`commits/n`); batch n
is epoch n + 1. The home store decides what took effect: it is at the newest planned epoch or at the one before.

Spark syncs none of them. A power cut may leave the newest ones without their bytes: a plan is synced before anything of
its epoch takes effect (`settle`), and nobody needs what the others say (`mend`).

Where a flow's state is in a bucket, a driver may come up on another disk. Plans are there, too, then (`keep`), are read
from there as from the checkpoint, and `mend` puts those that count into the checkpoint on this disk.
"""

from __future__ import annotations

import json
import logging
import os
import uuid
from collections.abc import Mapping
from contextlib import suppress

from riverrun import durable
from riverrun.errors import Conflict, Corrupt, Transient
from riverrun.position import Position
from riverrun.runtime.home import kept_plans, planner_place
from riverrun.runtime.plan import Plan
from riverrun.runtime.planner_memory import read_memory
from riverrun.views import Last

log = logging.getLogger("riverrun.runtime")

_FINISHED = 'v1\n{"nextBatchWatermarkMs":0}'
_RESTORE = "Restore the directory {home} from a copy that fits, or rebuild the flow"


class Checkpoint:
    """The checkpoint below a flow's own directory."""

    def __init__(self, home: str, flow: str) -> None:
        self.directory = f"{home}/checkpoint"
        self._home = home
        self._flow = flow
        self._kept = kept_plans(home)
        self._is_founded = False

    @property
    def planned(self) -> int:
        """The newest epoch that has a plan; 0 before the first."""
        here = self._newest("offsets")
        return here if self._kept is None else max(here, self._kept.newest)

    @property
    def finished(self) -> int:
        """The newest epoch that Spark knows to be committed."""
        return self._newest("commits")

    def plan(self, epoch: int) -> Plan:
        """The plan of an epoch; `Corrupt` when it cannot be read."""
        kept = None if self._kept is None else self._kept.read(epoch)
        return self._plan(epoch, kept)

    def _plan(self, epoch: int, kept: bytes | None = None) -> Plan:
        """The plan as it was kept elsewhere, or as this disk has it."""
        path = self._path(epoch)
        try:
            plan = Plan.from_json(json.loads((_content(path) if kept is None else kept).splitlines()[2]))
        except FileNotFoundError:
            raise self._damaged(path, "it is missing") from None
        except (ValueError, KeyError, IndexError, TypeError) as error:
            raise self._damaged(path, f"it cannot be read ({error})") from None
        if plan.epoch != epoch:
            raise self._damaged(path, f"it has the plan of epoch {plan.epoch}, not of {epoch}")
        return plan

    def check(self, last: Last) -> None:
        """Refuse a checkpoint that is damaged, gone, or does not belong to what the store holds. What `mend` puts in order
        is no damage."""
        planned, finished = self.planned, self.finished
        if planned == 0 and last.epoch > 0:
            raise Conflict(
                f"flow {self._flow}: its views are at epoch {last.epoch}, but its checkpoint {self.directory} is gone",
                hint=_RESTORE.format(home=self._home),
            )
        if not max(planned - 1, finished) <= last.epoch <= planned:
            raise Conflict(
                f"flow {self._flow}: its checkpoint {self.directory} is at epoch {max(planned - 1, finished)},"
                f" its views are at epoch {last.epoch}",
                hint=f"They do not belong together. Restore the views, or the directory {self._home}, from a copy that"
                " fits; or remove both to compute everything again from the log",
            )
        if last.epoch:
            plan = self.plan(last.epoch)
            self._check_memory(plan)
            check_same(plan.positions, last, self._flow)
        if planned > last.epoch and not self._is_lost(planned):
            self._check_memory(self.plan(planned))

    def mend(self, last: Last, begun: bool) -> None:
        """For a run that nobody else can interfere with: put in order what a power cut left. `begun` says whether some
        topic has rows of the epoch after the store's.

        Marks of finished epochs that cannot be read are removed: the store knows which epochs took effect. So is a plan
        that cannot be read, of an epoch of which nothing took effect; it is planned anew.
        """
        self._restore(last)
        lost = []
        if self.planned > last.epoch and self._is_lost(self.planned):
            if begun:
                self.plan(self.planned)  # says what is wrong with it
            lost.append(self._remove(f"offsets/{self.planned - 1}"))
        while self.finished and _json(f"{self.directory}/commits/{self.finished - 1}", 1) is None:
            lost.append(self._remove(f"commits/{self.finished - 1}"))
        if os.path.isdir(self.directory) and _json(f"{self.directory}/metadata", 0) is None:
            lost.append(self._remove("metadata"))
            self._write_metadata()
        for kind in ("", "/offsets", "/commits"):
            _remove_empty_checksums(self.directory + kind)
        if lost:
            log.warning(
                "flow %s: %s had lost what was in them, as after a power cut; nothing of it is needed",
                *(self._flow, ", ".join(f"{self.directory}/{name}" for name in lost)),
            )

    def settle(self, epoch: int, positions: Mapping[str, Mapping[int, int]]) -> None:
        """Make sure that the plan of an epoch is on the disk, and is the one that was computed, before anything of it
        takes effect: repeated after a crash, it will be the same epoch."""
        path = self._path(epoch)
        if Position(self._plan(epoch).positions) != Position(positions):
            raise Transient(f"flow {self._flow}: another run replaced the plan of epoch {epoch} while it was computed")
        durable.sync_file(path)
        durable.sync_directory(os.path.dirname(path))
        if not self._is_founded:
            durable.sync_file(f"{self.directory}/metadata")
            for directory in (self.directory, self._home, os.path.dirname(self._home)):
                durable.sync_directory(directory)
            self._is_founded = True

    def keep(self, epoch: int, fence: int) -> None:
        """Make sure that a plan which was settled is found by drivers on other disks, too, where there may be some."""
        if self._kept is not None:
            self._kept.keep(epoch, fence, _content(self._path(epoch)))

    def _restore(self, last: Last) -> None:
        """Let this disk have the plans that are kept elsewhere: of the store's epoch, of the one before it, which Spark asks
        for, and of the one after it, which topics may have."""
        if self._kept is None:
            return
        if last.epoch and not os.path.exists(f"{self.directory}/metadata"):
            log.warning(
                "flow %s: its checkpoint is not on this disk, and is made from %s", self._flow, self._kept.place
            )
            durable.make_directory(self.directory)
            self._write_metadata()
        for epoch in range(last.epoch - 1, last.epoch + 2):
            plan = self._kept.read(epoch)
            with suppress(FileNotFoundError):
                if plan == _content(self._path(epoch)):
                    plan = None
            if plan is not None:
                durable.make_directory(f"{self.directory}/offsets")
                self._remove(f"offsets/{epoch - 1}")
                durable.write_file(self._path(epoch), plan)
        mark = f"{self.directory}/commits/{last.epoch - 1}"
        if last.epoch and os.path.isdir(self.directory) and not os.path.exists(mark):
            durable.make_directory(os.path.dirname(mark))
            durable.write_file(mark, _FINISHED)

    def _write_metadata(self) -> None:
        durable.write_file(f"{self.directory}/metadata", json.dumps({"id": str(uuid.uuid4())}))

    def _path(self, epoch: int) -> str:
        return f"{self.directory}/offsets/{epoch - 1}"

    def _newest(self, kind: str) -> int:
        try:
            names = os.listdir(f"{self.directory}/{kind}")
        except FileNotFoundError:
            return 0
        return max((int(name) + 1 for name in names if name.isdigit()), default=0)

    def _check_memory(self, plan: Plan) -> None:
        if plan.memory is None:
            return
        place = planner_place(self._home)
        try:
            read_memory(place, plan.memory)
        except FileNotFoundError:
            raise self._damaged(f"{place}/{plan.memory}", "it is missing") from None
        except Corrupt:
            raise self._damaged(f"{place}/{plan.memory}", "it is not what was written") from None

    def _is_lost(self, epoch: int) -> bool:
        """Whether a plan is there only by name."""
        try:
            self.plan(epoch)
        except Corrupt:
            return True
        return False

    def _remove(self, name: str) -> str:
        """Remove one of Spark's files, with the checksum that Hadoop puts beside it. Gives its name."""
        path = f"{self.directory}/{name}"
        for one in (path, f"{os.path.dirname(path)}/.{os.path.basename(path)}.crc"):
            with suppress(FileNotFoundError):
                os.unlink(one)
        return name

    def _damaged(self, path: str, why: str) -> Corrupt:
        return Corrupt(
            f"flow {self._flow}: its checkpoint is damaged: {path}: {why}", hint=_RESTORE.format(home=self._home)
        )


def check_same(positions: Mapping[str, Mapping[int, int]], last: Last, flow: str) -> None:
    """Refuse to go on from a plan that is not the one whose epoch the store holds."""
    if Position(positions) != Position(last.positions):
        raise Conflict(
            f"flow {flow}: epoch {last.epoch} of its checkpoint ends at {Position(positions)},"
            f" epoch {last.epoch} of its views at {Position(last.positions)}",
            hint="The checkpoint is another flow's, or was used by two; restore the one that fits, or rebuild the flow",
        )


def _content(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _json(path: str, line: int) -> object:
    """What a line of one of Spark's files says; None when it cannot be read."""
    try:
        with open(path, encoding="utf-8") as file:
            return json.loads(file.read().splitlines()[line])
    except (FileNotFoundError, ValueError, IndexError):
        return None


def _remove_empty_checksums(directory: str) -> None:
    """Hadoop refuses to read a file whose checksum has lost its content; one without a checksum it reads."""
    with suppress(FileNotFoundError):
        for entry in os.scandir(directory):
            if entry.name.endswith(".crc") and not entry.stat().st_size:
                os.unlink(entry.path)
