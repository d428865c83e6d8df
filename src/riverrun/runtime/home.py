"""The home of a flow: the directory of its checkpoint, and where its state and what the planner remembers are.

That is below the same directory, or, where checkpoints are in a bucket, below a prefix there. Spark's own checkpoint then
stays on the driver's disk, and is a copy: the plan of every epoch is in the bucket before anything of it takes effect
(`keep_plan`), so a driver that finds itself on an empty disk goes on from there (`kept_plans`).

Which bucket it is, a note in the directory above says, so that whoever knows a home finds all of it.
"""

from __future__ import annotations

import os
import re
import shutil
from contextlib import suppress

from riverrun import durable
from riverrun.folder import open_folder
from riverrun.object_folder import ObjectFolder

_NOTE = ".bucket"  # nobody calls a flow so
_NOTES = ("base", "together")  # what a rebuild leaves in its home for the run that goes on with it
_KEPT_PLANS, _FORGET_EVERY = 4, 16  # epochs
_PLAN = re.compile(r"\d{12}-\d{12}")


def place_in_bucket(checkpoints: str, address: str) -> None:
    """Let the homes in a directory have their state below the address of a bucket."""
    if bucket_of(checkpoints) != address:
        durable.make_directory(checkpoints)
        durable.write_file(f"{checkpoints}/{_NOTE}", address)


def state_place(home: str) -> str:
    """Where the state files of a home are."""
    return f"{_shared(home) or home}/state"


def planner_place(home: str) -> str:
    """Where a home has what its planner remembers."""
    return f"{_shared(home) or home}/planner"


def make_home(home: str) -> None:
    """Make its directories."""
    durable.make_directory(f"{home}/state" if _shared(home) is None else home)


def home_names(checkpoints: str) -> list[str]:
    """The names of all homes: in the directory, and in the bucket."""
    found = set()
    with suppress(FileNotFoundError):
        found |= {name for name in os.listdir(checkpoints) if name != _NOTE}
    bucket = bucket_of(checkpoints)
    if bucket is not None:
        found |= set(ObjectFolder(bucket).folders())
    return sorted(found)


def remove_home(home: str) -> None:
    """Remove it. Who still works in it is shut out already."""
    shared = _shared(home)
    if shared is not None:
        ObjectFolder(shared).remove()
    shutil.rmtree(home, ignore_errors=True)


def keep_notes(home: str) -> None:
    """Put the notes of a finished rebuild where they are found by a driver on another disk, too."""
    shared = _shared(home)
    if shared is not None:
        for name in _NOTES:
            with suppress(FileNotFoundError), open(f"{home}/{name}", "rb") as file:
                ObjectFolder(shared).write(name, file.read())


def recall_notes(home: str) -> None:
    """Bring back the notes that this disk does not have."""
    shared = _shared(home)
    if shared is not None:
        for name in _NOTES:
            if not os.path.exists(f"{home}/{name}"):
                with suppress(FileNotFoundError):
                    content = ObjectFolder(shared).read(name)
                    durable.make_directory(home)
                    durable.write_file(f"{home}/{name}", content)


class KeptPlans:
    """The plans of a home's newest epochs in its bucket, as Spark has written them. Of two runs that planned the same
    epoch the newer one counts, which is the one with the higher fence."""

    def __init__(self, place: str) -> None:
        self.place = place
        self._folder = open_folder(place)

    def keep(self, epoch: int, fence: int, plan: bytes) -> None:
        """The plan is there when this returns. Older ones are removed now and then."""
        self._folder.write(f"{epoch:012d}-{fence:012d}", plan)
        if epoch % _FORGET_EVERY == 0:
            self._folder.delete(name for name in self._names() if int(name[:12]) <= epoch - _KEPT_PLANS)

    def read(self, epoch: int) -> bytes | None:
        """The plan of an epoch; None where it was never kept, or is not any more."""
        of_epoch = [name for name in self._names() if name.startswith(f"{epoch:012d}-")]
        try:
            return self._folder.read(of_epoch[-1]) if of_epoch else None
        except FileNotFoundError:  # a run that is alive has removed it meanwhile
            return None

    @property
    def newest(self) -> int:
        """The newest epoch whose plan is kept; 0 before the first."""
        return max((int(name[:12]) for name in self._names()), default=0)

    def _names(self) -> list[str]:
        return [name for name in self._folder.names() if _PLAN.fullmatch(name)]


def kept_plans(home: str) -> KeptPlans | None:
    """The plans that are kept for a home elsewhere than in its checkpoint; None where that is the only place."""
    shared = _shared(home)
    return None if shared is None else KeptPlans(f"{shared}/plans")


def _shared(home: str) -> str | None:
    bucket = bucket_of(os.path.dirname(home))
    return None if bucket is None else f"{bucket}/{os.path.basename(home)}"


def bucket_of(checkpoints: str) -> str | None:
    """The prefix below which homes in a directory have their state; None: they have it there."""
    try:
        with open(f"{checkpoints}/{_NOTE}", encoding="utf-8") as file:
            return file.read()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):  # a flow may have any name
        return None
