"""Connections to PostgreSQL, and its errors as ours. Passwords are in none of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg2
import psycopg2.errors
import psycopg2.extensions
from psycopg2.extras import LogicalReplicationConnection

from riverrun.errors import Invalid, RiverrunError, Transient, Unavailable

# Both connections must write values in the same way, and it must be the one that is read here.
_OPTIONS = (
    "-c timezone=UTC -c datestyle=ISO,YMD -c extra_float_digits=3 -c intervalstyle=postgres -c bytea_output=hex"
    " -c client_encoding=UTF8 -c statement_timeout=0 -c idle_in_transaction_session_timeout=0 -c search_path="
)
_PATIENCE = 10  # seconds


def shown_address(url: str) -> str:
    """An address without its password.

    >>> shown_address("postgresql://ada:secret@db/shop")
    'postgresql://ada@db/shop'
    """
    plain = re.sub(r"^(\w+://[^:/@?]*):[^@/]*@", r"\1@", url)
    return re.sub(r"([?&]|\b)(password|passfile|sslpassword)=[^&\s]*&?", r"\1", plain).rstrip("?&")


def connect(url: str, replication: bool = False) -> Any:
    """A connection; `Invalid` for an address that is none, `Unavailable` where the login is refused, `Transient` where
    there is no server now."""
    factory = LogicalReplicationConnection if replication else None
    try:
        connection = psycopg2.connect(
            url,
            connection_factory=factory,
            options=_OPTIONS,
            connect_timeout=_PATIENCE,
            keepalives_idle=10,
            keepalives_interval=5,
            keepalives_count=3,
            application_name="riverrun",
        )
    except psycopg2.ProgrammingError as error:
        raise Invalid(f"{shown_address(url)} is no address of PostgreSQL ({_first_line(error)})") from None
    except psycopg2.OperationalError as error:
        raise explained(error, f"{shown_address(url)} cannot be reached", connecting=True) from None
    if not replication:
        connection.autocommit = True
    return connection


@contextmanager
def explaining(what: str) -> Iterator[None]:
    """What PostgreSQL refuses inside, as an error of ours."""
    try:
        yield
    except psycopg2.Error as error:
        raise explained(error, what) from error


def explained(error: psycopg2.Error, what: str, connecting: bool = False) -> RiverrunError:
    """An error of PostgreSQL. Where the server is gone or starts, trying again may help."""
    line = _first_line(error)
    code = error.pgcode or ""
    refused = ("password authentication failed", "no pg_hba.conf entry", "does not exist", "no password supplied")
    if connecting and any(text in line for text in refused):
        return Unavailable(f"{what} ({line})", hint="Check login, password and pg_hba.conf")
    if (connecting and "must be superuser or replication role" in line) or code == "42501":
        return Unavailable(f"{what} ({line})", hint="The login needs REPLICATION, and SELECT on the tables")
    gone = code[:2] in ("08", "53", "57") or isinstance(error, psycopg2.OperationalError | psycopg2.InterfaceError)
    if connecting or gone or not code:
        return Transient(f"{what} ({line})", hint="Is the server there?")
    return Unavailable(f"{what} ({line})")


def _first_line(error: psycopg2.Error) -> str:
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__
