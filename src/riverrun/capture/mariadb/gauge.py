"""Where MariaDB's binary log ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pymysql

from riverrun.capture.changes import LogEnd
from riverrun.capture.mariadb.places import BinlogPlace, file_number, newest
from riverrun.capture.mariadb.session import connect, explaining


def newest_number(connection: Any, domain: int) -> int:
    """The number of the last transaction; 0: there is none."""
    with explaining("MariaDB cannot be asked"), connection.cursor() as db:
        db.execute("select @@gtid_binlog_pos")
        ((position,),) = db.fetchall()
    found = newest(position or "", domain)
    return found.number if found is not None else 0


class BinlogGauge:
    """Implements `LogGauge`: positions are numbers of transactions, `place_of` says where in the files they end."""

    def __init__(self, url: str, domain: int, place_of: Callable[[int], BinlogPlace | None]) -> None:
        self._connection = connect(url)
        self._domain = domain
        self._place_of = place_of
        self._place: BinlogPlace | None = None

    def measure(self, position: int) -> LogEnd:
        end = newest_number(self._connection, self._domain)
        self._place = self._place_of(position) or self._place
        return LogEnd(end, self._behind(self._place) if end > position and self._place is not None else 0)

    def _behind(self, place: BinlogPlace) -> int:
        with explaining("MariaDB cannot be asked"), self._connection.cursor() as db:
            db.execute("show binary logs")
            files = [(file_number(name), int(size)) for name, size, *_ in db.fetchall()]
        mine = file_number(place.file)
        return sum(size - (place.offset if number == mine else 0) for number, size in files if number >= mine)

    def close(self) -> None:
        try:
            self._connection.close()
        except (pymysql.Error, OSError):
            pass
