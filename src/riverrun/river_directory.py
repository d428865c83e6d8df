"""The directory of a river: made where there is none, refused where it is something else."""

from __future__ import annotations

import json
import os
import uuid

from riverrun import durable
from riverrun.errors import Corrupt, NewerFormat, NotFound, from_system
from riverrun.failpoints import failpoint
from riverrun.log.coordination import Coordination

_FORMAT = 1


def open_directory(path: str) -> Coordination:
    """The coordination database of the river in a directory; an absent or empty one becomes a new river."""
    marker, database = f"{path}/river.json", f"{path}/coordination.db"
    try:
        if _is_new(path, marker):
            # Others may be making it at the same time, or were killed while they did: every step may be done twice.
            durable.make_directory(path)
            coordination = Coordination(database, create=True)
            failpoint("river.prepared")
            fresh = f"{marker}.{uuid.uuid4().hex[:8]}"
            with durable.new_file(fresh) as file:
                file.write(json.dumps({"format": _FORMAT}).encode())
            failpoint("river.written")
            durable.rename(fresh, marker)
            return coordination
        _check_format(marker)
        return Coordination(database)
    except OSError as error:
        raise from_system(error, f"{path} cannot be used as a river") from error


def _is_new(path: str, marker: str) -> bool:
    if os.path.exists(marker):
        return False
    found = os.listdir(path) if os.path.exists(path) else []
    if all(name.startswith(("coordination.db", "river.json.")) for name in found):
        return True
    if os.path.exists(marker):
        return False  # made meanwhile, and used already
    raise NotFound(f"{path} is not a river", hint="Give the directory of a river, or an empty or absent one")


def _check_format(marker: str) -> None:
    try:
        with open(marker, encoding="utf-8") as file:
            found = int(json.load(file)["format"])
    except (ValueError, KeyError, TypeError) as error:
        raise Corrupt(f"{marker} cannot be read ({error})", hint="Restore it from a copy") from None
    if found > _FORMAT:
        raise NewerFormat(f"{marker} was written by a newer Riverrun (format {found})", hint="Upgrade Riverrun")
