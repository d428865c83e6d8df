"""Connections to MariaDB, and its errors as ours. Passwords are in none of them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import pymysql
from pymysql.converters import encoders

from riverrun.errors import Invalid, RiverrunError, Transient, Unavailable, did_you_mean

_PATIENCE = 10  # seconds
SILENCE = 60  # seconds without a sign of life after which a stream counts as cut; the server gives one every 10
_OPTIONS = ("unix_socket", "ssl_ca", "ssl_cert", "ssl_key", "read_default_file")
_REFUSED = (1044, 1045, 1049, 1130, 1251, 1698)  # login, password, database, host
_NOT_ALLOWED = (1142, 1143, 1227, 1370)
_GONE = (1040, 1053, 1077, 1152, 1158, 1159, 1160, 1161, 1184, 1203, 1205, 1213, 1226, 1317, 1927, 1969)
_CHANGED = (1054, 1146, 1412)  # a column or table is not what it was a moment ago: look again
GRANTS = "grant replication slave, binlog monitor on *.* to …; grant select on … to …"


def shown_address(url: str) -> str:
    """An address without its password.

    >>> shown_address("mariadb://ada:secret@db/shop?ssl_key=k")
    'mariadb://ada@db/shop'
    """
    plain = re.sub(r"(://[^:@/?]*):[^@]*@", r"\1@", url)
    return plain.partition("?")[0]


def settings_of(url: str) -> dict[str, Any]:
    """What PyMySQL wants to know. The password may be in the address, in MYSQL_PWD, or in ~/.my.cnf under [client]."""
    shown = shown_address(url)
    try:
        parts = urlsplit(url)
        port = parts.port or 3306
    except ValueError as error:
        raise Invalid(f"{shown} is no address of MariaDB ({error})") from None
    options = dict(parse_qsl(parts.query))
    for name in options:
        if name not in _OPTIONS:
            raise Invalid(f"{shown}: there is no option {name!r} in an address", hint=did_you_mean(name, _OPTIONS))
    settings: dict[str, Any] = {
        "host": unquote(parts.hostname or "localhost"),
        "port": port,
        "charset": "utf8mb4",
        "connect_timeout": _PATIENCE,
        "program_name": "riverrun",
        **options,
    }
    file = os.path.expanduser("~/.my.cnf")
    if "read_default_file" not in options and os.path.exists(file):
        settings["read_default_file"] = file
    if parts.username:
        settings["user"] = unquote(parts.username)
    password = unquote(parts.password) if parts.password else os.environ.get("MYSQL_PWD")
    if password:
        settings["password"] = password
    return settings


def database_of(url: str) -> str | None:
    """The database that an address names."""
    return unquote(urlsplit(url).path.lstrip("/")) or None


def connect(url: str) -> Any:
    """A connection for questions: values come as text, times in UTC."""
    settings = settings_of(url)
    start = "set time_zone = '+00:00', sql_mode = '', group_concat_max_len = 1048576, max_statement_time = 0"
    with explaining(f"{shown_address(url)} cannot be reached", connecting=True):
        return pymysql.connect(
            **settings,
            init_command=start,
            autocommit=True,
            conv=dict(encoders),
            read_timeout=600,
            write_timeout=SILENCE,
        )


@contextmanager
def explaining(what: str, connecting: bool = False) -> Iterator[None]:
    """What MariaDB refuses inside, as an error of ours."""
    try:
        yield
    except (pymysql.Error, OSError) as error:
        raise explained(error, what, connecting) from error


def explained(error: BaseException, what: str, connecting: bool = False) -> RiverrunError:
    """An error of MariaDB. Where the server is gone or starts, trying again may help."""
    code = error.args[0] if error.args and isinstance(error.args[0], int) else 0
    line = _first_line(error)
    if code in _REFUSED:
        return Unavailable(f"{what} ({line})", hint="Check login, password and database")
    if code in _NOT_ALLOWED:
        return Unavailable(f"{what} ({line})", hint=f"The login needs: {GRANTS}")
    if code in _CHANGED:
        return Transient(f"{what} ({line})", hint="It is looked at again")
    interrupted = isinstance(error, OSError) or code in _GONE or (2000 <= code < 3000) or not code
    if connecting or interrupted:
        return Transient(f"{what} ({line})", hint="Is the server there?")
    return Unavailable(f"{what} ({line})")


def _first_line(error: BaseException) -> str:
    text = str(error.args[-1] if error.args else error).strip()
    return text.splitlines()[0] if text else type(error).__name__
