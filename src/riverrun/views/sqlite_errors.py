"""SQLite's errors as Riverrun's."""

from __future__ import annotations

import errno
import sqlite3

from riverrun.errors import Busy, Corrupt, DiskFull, Invalid, RiverrunError, Unavailable

_FULL = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE}


def as_riverrun(error: sqlite3.Error | OSError, path: str) -> RiverrunError:
    """What happened to the store at `path`, in the family of errors people know."""
    if isinstance(error, OSError):
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return DiskFull(f"no room for the view store {path}", hint="Make room; the epoch is committed then")
        return Unavailable(f"the view store {path} cannot be used: {error}")
    code = getattr(error, "sqlite_errorcode", None)
    primary = None if code is None else code & 0xFF
    if code in _FULL:
        return DiskFull(f"no room for the view store {path} ({error})", hint="Make room; the epoch is committed then")
    if primary in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return Busy(f"another process writes to the view store {path} for too long ({error})")
    if primary in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return Corrupt(
            f"the view store {path} is damaged ({error})",
            hint="Restore the file, or remove it together with the flow's checkpoint and run the flow again",
        )
    if primary in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_PERM):
        return Unavailable(f"the view store {path} cannot be used: {error}")
    return Invalid(f"the view store {path}: {error}")
