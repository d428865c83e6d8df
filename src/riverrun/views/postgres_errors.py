"""PostgreSQL's errors as Riverrun's. What the server says is kept; addresses and passwords are not in it."""

from __future__ import annotations

import psycopg

from riverrun.errors import DiskFull, Invalid, RiverrunError, TimedOut, Transient, Unavailable

_FULL = "53100"
_CANCELED = "57014"
_MAY_PASS = ("08", "40", "53", "55P03", "57P", "58")  # connection, conflict, resources, lock, shutdown, system
_REFUSED = ("28", "42501", "3D")  # password, privilege, no such database


def as_riverrun(error: psycopg.Error, where: str) -> RiverrunError:
    """What happened at the store `where`, in the family of errors people know."""
    state = error.sqlstate or ""
    said = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    if state == _FULL:
        return DiskFull(f"no room in the view store {where}: {said}", hint="Make room; the epoch is committed then")
    if state == _CANCELED:
        return TimedOut(f"the view store {where} stopped a query: {said}")
    if state.startswith(_REFUSED):
        return Unavailable(f"the view store {where} cannot be used: {said}", hint="Check user, password and rights")
    if state.startswith(_MAY_PASS) or (
        not state and isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
    ):
        return Transient(f"the view store {where} is away: {said}", hint="Retried when it is back")
    return Invalid(f"the view store {where}: {said}")
