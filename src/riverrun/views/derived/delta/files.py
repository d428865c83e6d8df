"""Directories of Delta tables, on this machine or in a bucket: what Delta itself does not do."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
from deltalake.exceptions import CommitFailedError, DeltaError

from riverrun.errors import Busy, DiskFull, RiverrunError, Transient, Unavailable, from_system

_AWAY = ("error sending request", "timed out", "connection", "Connection", "dns error", "503", "SlowDown")


def remove(uri: str) -> None:
    """Remove a directory with all that is in it, if it is there."""
    if "://" not in uri:
        shutil.rmtree(uri, ignore_errors=True)
        return
    from pyarrow import fs

    system, path = fs.FileSystem.from_uri(uri)
    try:
        system.delete_dir(path)
    except FileNotFoundError:
        pass


def beside(uri: str) -> list[str]:
    """The directories whose names begin with this one's and a dot."""
    if "://" not in uri:
        above, name = os.path.split(uri)
        found = os.listdir(above) if os.path.isdir(above) else []
        return [f"{above}/{one}" for one in found if one.startswith(f"{name}.")]
    from pyarrow import fs

    system, path = fs.FileSystem.from_uri(uri)
    above, _, name = path.rpartition("/")
    infos = system.get_file_info(fs.FileSelector(above, allow_not_found=True))
    scheme = uri.partition("://")[0]
    return [f"{scheme}://{info.path}" for info in infos if info.base_name.startswith(f"{name}.")]


@contextmanager
def noticing(place: str) -> Iterator[None]:
    """What goes wrong inside, as an error of Riverrun that names the table."""
    try:
        yield
    except RiverrunError:
        raise
    except CommitFailedError as error:
        raise Busy(f"somebody else has written to {place} meanwhile ({error})") from None
    except OSError as error:
        raise from_system(error, f"{place} cannot be used") from error
    except (DeltaError, pa.ArrowException, ValueError) as error:
        said = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        if "No space left" in str(error):
            raise DiskFull(f"no room for {place}", hint="Make room; the epoch is committed then") from None
        if any(word in str(error) for word in _AWAY):
            raise Transient(f"{place} does not answer: {said}") from None
        raise Unavailable(f"{place} cannot be used: {said}") from None
