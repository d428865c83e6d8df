"""Directories of Delta tables, on this machine or in a bucket: what Delta itself does not do."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from deltalake.exceptions import CommitFailedError, DeltaError

from riverrun.errors import Busy, DiskFull, RiverrunError, Transient, Unavailable, from_system

_AWAY = re.compile(
    r"error sending request|timed out|[Cc]onnection (?:refused|reset|closed|error|aborted)|dns error"
    r"|status code: 5\d\d|SlowDown"
)
_DECORATION = re.compile(r"\x1b\[[0-9;]*m|↳")
_LONGEST = 400


def remove(uri: str) -> None:
    """Remove a directory with all that is in it, if it is there."""
    if "://" not in uri:
        shutil.rmtree(uri, ignore_errors=True)
        return
    system, _, name = _in_bucket(uri)
    system.delete_dir(name)


def beside(uri: str) -> list[str]:
    """The directories whose names begin with this one's and a dot."""
    if "://" not in uri:
        above, name = os.path.split(uri)
        found = os.listdir(above) if os.path.isdir(above) else []
    else:
        from pyarrow import fs

        system, above, name = _in_bucket(uri)
        found = [info.base_name for info in system.get_file_info(fs.FileSelector("", allow_not_found=True))]
    return [f"{above}/{one}" for one in found if one.startswith(f"{name}.")]


def _in_bucket(uri: str) -> tuple[Any, str, str]:
    """What a table is beside: its files, its address, and the table's name there. It is reached as Delta reaches its tables, so
    the same credentials open both. Unlike tables, it keeps Python's lock while it waits: whoever calls it has just heard from the
    bucket."""
    from deltalake.fs import DeltaStorageHandler
    from pyarrow import fs

    above, _, name = uri.rpartition("/")
    return fs.PyFileSystem(DeltaStorageHandler(above)), above, name


@contextmanager
def noticing(place: str) -> Iterator[None]:
    """What goes wrong inside, as an error of Riverrun that names the table."""
    try:
        yield
    except RiverrunError:
        raise
    except CommitFailedError as error:
        raise Busy(f"somebody else has written to {place} meanwhile ({error})") from None
    except (OSError, DeltaError, pa.ArrowException, ValueError) as error:
        if (
            isinstance(error, OSError) and error.errno is not None
        ):  # else it is Delta's, and only its text says what it is
            raise from_system(error, f"{place} cannot be used") from error
        raise _as_riverrun(error, place) from None


def _as_riverrun(error: Exception, place: str) -> RiverrunError:
    lines = [line.strip() for line in _DECORATION.sub("", str(error)).splitlines()]
    whole = ": ".join(line for line in lines if line) or type(error).__name__
    said = whole if len(whole) <= _LONGEST else f"{whole[:_LONGEST]}…"
    if "No space left" in whole:
        return DiskFull(f"no room for {place}", hint="Make room; the epoch is committed then")
    if _AWAY.search(whole):
        return Transient(f"{place} does not answer: {said}")
    return Unavailable(f"{place} cannot be used: {said}")
