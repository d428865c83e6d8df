"""Where PostgreSQL's log ends."""

from __future__ import annotations

from typing import Any

import psycopg2

from riverrun.capture.changes import LogEnd
from riverrun.capture.postgres.messages import parse_lsn
from riverrun.capture.postgres.session import connect, explaining

_PAGE = 8192
_HEADERS = (24, 40)  # of a page of the log; a position behind one is that before it


def log_end(connection: Any) -> int:
    """Behind the last byte that was written."""
    with explaining("PostgreSQL cannot be asked"), connection.cursor() as db:
        db.execute("select pg_current_wal_insert_lsn()::text")
        found = parse_lsn(db.fetchone()[0])
    return found - found % _PAGE if found % _PAGE in _HEADERS else found


class WalGauge:
    """Implements `LogGauge`: positions count bytes."""

    def __init__(self, url: str) -> None:
        self._connection = connect(url)

    def measure(self, position: int) -> LogEnd:
        end = log_end(self._connection)
        return LogEnd(end, max(end - position, 0))

    def close(self) -> None:
        try:
            self._connection.close()
        except psycopg2.Error:
            pass
