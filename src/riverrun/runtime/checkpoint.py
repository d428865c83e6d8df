"""Spark's checkpoint of a flow, read from outside: what was planned, and whether it fits what the home store holds.

Spark writes one file for each planned batch (`offsets/n`) and one for each batch it has finished (`commits/n`); batch n
is epoch n + 1. The home store decides what took effect: it is at the newest planned epoch or at the one before.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping

from riverrun import durable
from riverrun.errors import Conflict, Corrupt, Transient
from riverrun.position import Position
from riverrun.runtime.plan import Plan
from riverrun.views import Last

_RESTORE = "Restore the directory {home} from a copy that fits, or rebuild the flow"


class Checkpoint:
    """The checkpoint below a flow's own directory."""

    def __init__(self, home: str, flow: str) -> None:
        self.directory = f"{home}/checkpoint"
        self._home = home
        self._flow = flow

    @property
    def planned(self) -> int:
        """The newest epoch that has a plan; 0 before the first."""
        return self._newest("offsets")

    @property
    def finished(self) -> int:
        """The newest epoch that Spark knows to be committed."""
        return self._newest("commits")

    def plan(self, epoch: int) -> Plan:
        """The plan of an epoch; `Corrupt` when it cannot be read."""
        path = f"{self.directory}/offsets/{epoch - 1}"
        try:
            with open(path, encoding="utf-8") as file:
                plan = Plan.from_json(json.loads(file.read().splitlines()[2]))
        except FileNotFoundError:
            raise self._damaged(path, "it is missing") from None
        except (ValueError, KeyError, IndexError, TypeError) as error:
            raise self._damaged(path, f"it cannot be read ({error})") from None
        if plan.epoch != epoch:
            raise self._damaged(path, f"it has the plan of epoch {plan.epoch}, not of {epoch}")
        return plan

    def check(self, last: Last) -> None:
        """Refuse a checkpoint that is damaged, gone, or does not belong to what the store holds."""
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
        for epoch in range(max(last.epoch, 1), planned + 1):
            plan = self.plan(epoch)
            if plan.memory is not None and not os.path.exists(memory := f"{self._home}/planner/{plan.memory}"):
                raise self._damaged(memory, "it is missing")
            if epoch == last.epoch:
                check_same(plan.positions, last, self._flow)
        if planned:
            self._check_readable()

    def settle(self, epoch: int, positions: Mapping[str, Mapping[int, int]]) -> None:
        """Make sure that the plan of an epoch is on the disk, and is the one that was computed, before anything of it
        takes effect: repeated after a crash, it will be the same epoch."""
        path = f"{self.directory}/offsets/{epoch - 1}"
        if Position(self.plan(epoch).positions) != Position(positions):
            raise Transient(f"flow {self._flow}: another run replaced the plan of epoch {epoch} while it was computed")
        durable.sync_file(path)
        durable.sync_directory(os.path.dirname(path))

    def _newest(self, kind: str) -> int:
        try:
            names = os.listdir(f"{self.directory}/{kind}")
        except FileNotFoundError:
            return 0
        return max((int(name) + 1 for name in names if name.isdigit()), default=0)

    def _check_readable(self) -> None:
        """What else Spark reads when it starts."""
        marks = [f"{self.directory}/commits/{self.finished - 1}"] if self.finished else []
        for path, line in [(f"{self.directory}/metadata", 0), *((path, 1) for path in marks)]:
            try:
                with open(path, encoding="utf-8") as file:
                    json.loads(file.read().splitlines()[line])
            except FileNotFoundError:
                raise self._damaged(path, "it is missing") from None
            except (ValueError, IndexError) as error:
                raise self._damaged(path, f"it cannot be read ({error})") from None

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
