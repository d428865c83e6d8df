"""PostgreSQL as a source: a slot whose stream is decoded by pgoutput, and chunks of its tables."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import psycopg2

from riverrun.capture.changes import CapturedTable, ChangeBatch, LogGauge, SourceHealth, TableChunk, TableTrouble
from riverrun.capture.decimals import check_decimal
from riverrun.capture.postgres.assembly import Assembly
from riverrun.capture.postgres.catalog import PostgresTable, base_types, evolved, find_tables
from riverrun.capture.postgres.chunks import ChunkReader
from riverrun.capture.postgres.gauge import WalGauge, log_end
from riverrun.capture.postgres.messages import RelationMessage, parse_lsn, show_lsn
from riverrun.capture.postgres.publication import Publication
from riverrun.capture.postgres.session import connect, explaining, shown_address
from riverrun.capture.postgres.stream import ReplicationStream
from riverrun.errors import Conflict, Unavailable
from riverrun.failpoints import failpoint

_AGAIN = "Read everything again: riverrun capture … --resnapshot all"
_PATIENCE = 5.0  # seconds
_DROP = "select pg_drop_replication_slot(slot_name) from pg_replication_slots where slot_name = %s"
_SLOT = """
select wal_status, confirmed_flush_lsn::text, active_pid, plugin, database,
  pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn)::bigint
from pg_replication_slots where slot_name = %s
"""


class PostgresSource:
    """Implements `CaptureSource`. The login needs REPLICATION, and SELECT on the tables."""

    kind = "postgresql"

    def __init__(
        self,
        url: str,
        name: str,
        keys: Mapping[str, Sequence[str]] | None = None,
        publication: str | None = None,
        decimal: str | None = None,
    ) -> None:
        self._url = url
        self._keys = dict(keys or {})
        self._decimal = check_decimal(decimal)
        plain = re.sub(r"[^a-z0-9_]", "_", name.lower())
        self._slot = f"riverrun_{plain}"[:63]
        self._publication = Publication(publication or f"riverrun_{plain}"[:63], own=publication is None)
        self._tables: dict[str, PostgresTable] = {}
        self._stream: ReplicationStream | None = None
        self._position = 0
        self._connection = connect(url)
        self._chunks = ChunkReader(self._connection)
        self._check_server()

    @property
    def address(self) -> str:
        return shown_address(self._url)

    def _check_server(self) -> None:
        with explaining("PostgreSQL cannot be asked"), self._connection.cursor() as db:
            db.execute("select current_setting('wal_level'), current_setting('server_version_num')::int")
            level, version = db.fetchone()
        if version < 140000:
            raise Unavailable(f"{self.address} is PostgreSQL {version // 10000}; captures need 14 or newer")
        if level != "logical":
            raise Unavailable(
                f"{self.address} has wal_level = {level}",
                hint="Set wal_level = logical in postgresql.conf, and restart the server",
            )

    def identity(self) -> dict[str, Any]:
        with explaining("PostgreSQL does not say who it is"), self._connection.cursor() as db:
            db.execute(
                "select s.system_identifier::text, c.timeline_id, current_database()"
                " from pg_control_system() s, pg_control_checkpoint() c"
            )
            system, timeline, database = db.fetchone()
        return {"kind": self.kind, "system": system, "timeline": timeline, "database": database}

    def describe(self, tables: Sequence[str]) -> tuple[list[CapturedTable], list[TableTrouble]]:
        with explaining("the tables cannot be looked at"), self._connection.cursor() as db:
            found, troubles = find_tables(db, tables, self._keys, self._decimal)
        self._tables = {table.captured.id: table for table in found}
        return [table.captured for table in found], troubles

    def prepare(self, known: Sequence[str], confirmed: int | None) -> tuple[int, list[TableTrouble]]:
        with explaining("the publication cannot be made"), self._connection.cursor() as db:
            found, troubles = self._publication.ensure(db, list(self._tables.values()), frozenset(known))
            self._tables = {table.captured.id: table for table in found}
        self._stream = ReplicationStream(self._url, self._slot, self._publication.name)
        slot = self._look_at_slot()
        if slot is None:
            if confirmed is not None:
                raise Conflict(
                    f"replication slot {self._slot} is gone: what was written since is lost to the capture", hint=_AGAIN
                )
            self._position = self._create_slot()
            return self._position, troubles
        status, position = slot
        if status == "lost":
            raise Conflict(
                f"replication slot {self._slot} is no longer usable: the server has removed what it still needed"
                " (max_slot_wal_keep_size)",
                hint=_AGAIN,
            )
        if confirmed is not None:
            self._check_position(position, confirmed)
        self._position = position
        return position, troubles

    def _check_position(self, slot: int, confirmed: int) -> None:
        now = self._now()
        if now < confirmed:
            raise Conflict(
                f"the source is at {show_lsn(now)}, and the capture was at {show_lsn(confirmed)}: it was restored from an"
                " older copy",
                hint=_AGAIN,
            )
        if slot > confirmed:
            raise Conflict(
                f"replication slot {self._slot} is at {show_lsn(slot)}, and the capture is at {show_lsn(confirmed)}: it was"
                " made again or moved by somebody, and what lies between is lost to the capture",
                hint=_AGAIN,
            )

    def forget(self) -> None:
        """Drop the slot, for a capture that begins anew. A connection that was closed holds it for up to a second."""
        deadline = time.monotonic() + _PATIENCE
        with explaining(f"replication slot {self._slot} cannot be dropped"), self._connection.cursor() as db:
            while True:
                try:
                    db.execute(_DROP, (self._slot,))
                    return
                except psycopg2.errors.ObjectInUse:
                    if time.monotonic() > deadline:
                        raise
                    time.sleep(0.1)

    def has_slot(self) -> bool:
        """Whether there is a slot of this name already."""
        return self._look_at_slot() is not None

    def _look_at_slot(self) -> tuple[str | None, int] | None:
        with explaining("the replication slot cannot be looked at"), self._connection.cursor() as db:
            db.execute(_SLOT, (self._slot,))
            found = db.fetchone()
        if found is None:
            return None
        status, position, _, plugin, *_ = found
        if plugin != "pgoutput":
            raise Conflict(
                f"replication slot {self._slot} belongs to another program (plugin {plugin})",
                hint="Give the capture another name",
            )
        return status, parse_lsn(position) if position else 0

    def _create_slot(self) -> int:
        failpoint("capture.slot")
        with explaining(f"replication slot {self._slot} cannot be made"), self._connection.cursor() as db:
            db.execute("select lsn::text from pg_create_logical_replication_slot(%s, 'pgoutput')", (self._slot,))
            position = parse_lsn(db.fetchone()[0])
        failpoint("capture.slotted")
        return position

    def start(
        self,
        tables: Sequence[CapturedTable],
        part_rows: Callable[[int], int],
        stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        assert self._stream is not None
        with explaining("PostgreSQL cannot be asked"), self._connection.cursor() as db:
            db.execute("select pg_snapshot_xmax(pg_current_snapshot())::text::bigint")
            near = int(db.fetchone()[0])
        assembly = Assembly(tables, near, self._evolve, part_rows)
        self._stream.start(assembly, self._position, stopping)

    def _evolve(self, table: CapturedTable, relation: RelationMessage) -> CapturedTable | TableTrouble:
        with explaining("types cannot be looked up"), self._connection.cursor() as db:
            bases = base_types(db, [column.type for column in relation.columns])
        outcome = evolved(table, relation, bases, self._decimal)
        if isinstance(outcome, CapturedTable) and outcome != table:
            with explaining("the tables cannot be looked at"), self._connection.cursor() as db:
                found, _ = find_tables(db, [table.id], self._keys, self._decimal)
            # Chunks read what the table has now; the stream has told of it or will.
            self._tables.update({one.captured.id: one for one in found})
        return outcome

    def read(self, timeout: float) -> ChangeBatch | None:
        assert self._stream is not None
        return self._stream.read(timeout)

    @property
    def reached(self) -> int:
        return self._stream.reached if self._stream is not None else 0

    @property
    def sent(self) -> int:
        return self._stream.sent if self._stream is not None else 0

    def confirm(self, position: int) -> None:
        assert self._stream is not None
        self._stream.confirm(position)

    def chunk(self, table: CapturedTable, after: Sequence[str] | None, limit: int) -> TableChunk:
        with explaining(f"table {table.id} cannot be read"):
            return self._chunks.read(self._tables[table.id], after, limit)

    def _now(self) -> int:
        return log_end(self._connection)

    def health(self, tables: Sequence[CapturedTable]) -> SourceHealth:
        position = self._now()
        with explaining("PostgreSQL cannot be asked"), self._connection.cursor() as db:
            db.execute(_SLOT, (self._slot,))
            slot = db.fetchone()
            published = self._publication.tables(db)
        if slot is None:
            raise Conflict(f"replication slot {self._slot} is gone", hint=_AGAIN)
        if slot[0] == "lost":
            raise Conflict(f"replication slot {self._slot} was invalidated by the server", hint=_AGAIN)
        if published is None:
            raise Conflict(
                f"publication {self._publication.name} is gone: what is written now is lost to the capture", hint=_AGAIN
            )
        troubles = [
            self._publication.lost(self._tables[table.id])
            for table in tables
            if table.id not in published and table.id in self._tables
        ]
        return SourceHealth(position, slot[5], troubles)

    def gauge(self) -> LogGauge:
        return WalGauge(self._url)

    def show(self, position: int) -> str:
        return show_lsn(position)

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()
        try:
            self._connection.close()
        except psycopg2.Error:
            pass
