"""MariaDB as a source: its binary log, read by GTIDs, and chunks of its tables. The server keeps nothing for a capture: how
long it keeps its binary log is its own setting."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pymysql

from riverrun.capture.changes import CapturedTable, ChangeBatch, LogGauge, SourceHealth, TableChunk, TableTrouble
from riverrun.capture.decimals import check_decimal
from riverrun.capture.mariadb.assembly import BinlogAssembly
from riverrun.capture.mariadb.catalog import BinlogColumn, MariaTable, evolved, find_tables
from riverrun.capture.mariadb.chunks import BinlogChunkReader, consistent
from riverrun.capture.mariadb.gauge import BinlogGauge, newest_number
from riverrun.capture.mariadb.places import BinlogPlace, file_number, newest
from riverrun.capture.mariadb.session import connect, database_of, explaining, shown_address
from riverrun.capture.mariadb.stream import BinlogStream
from riverrun.errors import Conflict, Unavailable
from riverrun.failpoints import failpoint

_AGAIN = "Read everything again: riverrun capture … --resnapshot all"
_SETTINGS = {"log_bin": "1", "binlog_format": "ROW", "binlog_row_image": "FULL", "binlog_row_metadata": "FULL"}
_OLDEST = (10, 5)


class MariaSource:
    """Implements `CaptureSource` and `BookmarkedSource`. The login needs REPLICATION SLAVE and BINLOG MONITOR, and SELECT on
    the tables. Positions are the numbers of GTIDs; bookmarks say where in the binary log's files they are."""

    kind = "mariadb"

    def __init__(
        self,
        url: str,
        name: str,
        keys: Mapping[str, Sequence[str]] | None = None,
        decimal: str | None = None,
    ) -> None:
        self._url = url
        self._keys = dict(keys or {})
        self._decimal = check_decimal(decimal)
        self._tables: dict[str, MariaTable] = {}
        self._stream: BinlogStream | None = None
        self._recalled: BinlogPlace | None = None
        self._place: BinlogPlace | None = None
        self._marks: dict[int, BinlogPlace] = {}
        self._connection = connect(url)
        self._domain = self._check_server()
        self._chunks = BinlogChunkReader(self._connection, self._domain)

    @property
    def address(self) -> str:
        return shown_address(self._url)

    def _ask(self, question: str, *values: Any) -> Sequence[Sequence[Any]]:
        with explaining("MariaDB cannot be asked"), self._connection.cursor() as db:
            db.execute(question, values or None)
            found: Sequence[Sequence[Any]] = db.fetchall()
        return found

    def _check_server(self) -> int:
        """Whether it logs what captures need; the domain it writes in."""
        ((version,),) = self._ask("select version()")
        numbers = tuple(int(one) for one in version.split("-")[0].split(".")[:2])
        if "mariadb" not in version.lower():
            raise Unavailable(
                f"{self.address} is MySQL {version}; captures know MariaDB {'.'.join(map(str, _OLDEST))} and newer",
                hint="Let Debezium or Maxwell capture it, and read what they write: docs/envelopes.md",
            )
        if numbers < _OLDEST:
            raise Unavailable(
                f"{self.address} is MariaDB {version}; captures need {'.'.join(map(str, _OLDEST))} or newer"
            )
        names = ", ".join(f"@@global.{name}" for name in _SETTINGS)
        ((*values, domain),) = self._ask(f"select {names}, @@global.gtid_domain_id")
        wrong = {
            name: found
            for (name, wanted), found in zip(_SETTINGS.items(), values, strict=True)
            if str(found).upper() != wanted
        }
        if wrong:
            told = ", ".join(f"{name} = {found}" for name, found in wrong.items())
            wanted = ", ".join(f"{name} = {'ON' if name == 'log_bin' else _SETTINGS[name]}" for name in wrong)
            raise Unavailable(
                f"{self.address} has {told}",
                hint=f"Set {wanted} in the [mariadb] section of its configuration, and restart the server",
            )
        self._ask("show binary logs")  # who may not is told now
        return int(domain)

    def _newest(self) -> int:
        return newest_number(self._connection, self._domain)

    def identity(self) -> dict[str, Any]:
        return {"kind": self.kind, "domain": self._domain}

    def describe(self, tables: Sequence[str]) -> tuple[list[CapturedTable], list[TableTrouble]]:
        found, troubles = self._find(tables)
        self._tables = {table.captured.id: table for table in found}
        return [table.captured for table in found], troubles

    def _find(self, tables: Sequence[str]) -> tuple[list[MariaTable], list[TableTrouble]]:
        with explaining("the tables cannot be looked at"), self._connection.cursor() as db:
            return find_tables(db, tables, database_of(self._url), self._keys, self._decimal)

    def recall(self, bookmark: str) -> None:
        self._recalled = BinlogPlace.parse(bookmark)

    def bookmark(self, position: int) -> str | None:
        place = self._marks.get(position)
        return None if place is None else place.text()

    def prepare(self, known: Sequence[str], confirmed: int | None) -> tuple[int, list[TableTrouble]]:
        if confirmed is None:
            with explaining("MariaDB cannot be asked"), consistent(self._connection, self._domain) as (_, place):
                self._place = place
            failpoint("capture.placed")
        else:
            if self._recalled is None or self._recalled.number != confirmed:
                raise Conflict(f"where number {confirmed} is in the binary log is not known", hint=_AGAIN)
            self._check_place(self._recalled)
            self._place = self._recalled
        self._marks = {self._place.number: self._place}
        return self._place.number, []

    def _check_place(self, place: BinlogPlace) -> None:
        """That the binary log is the one which was read, and goes on behind what was read."""
        now = self._newest()
        if now < place.number:
            raise Conflict(
                f"the source is at number {now}, and the capture was at {place.gtid}: its binary log was reset, or it was"
                " restored from an older copy",
                hint=_AGAIN,
            )
        files = {name: int(size) for name, size, *_ in self._ask("show binary logs")}
        other = file_number(place.file) > max(map(file_number, files), default=0)
        if place.file in files and place.offset:
            ((found,),) = self._ask("select binlog_gtid_pos(%s, %s)", place.file, place.offset)
            there = None if found is None else newest(found, self._domain)
            other = found is None or there != place.gtid
        if other:
            raise Conflict(
                f"the binary log has no transaction {place.gtid} at {place.file}:{place.offset} any more: it was reset, or"
                " it is that of another server",
                hint=_AGAIN,
            )

    def has_slot(self) -> bool:
        return False

    def forget(self) -> None:
        """The server knows nothing of captures."""

    def start(
        self, tables: Sequence[CapturedTable], part_rows: Callable[[int], int], stopping: Callable[[], bool]
    ) -> None:
        assert self._place is not None
        assembly = BinlogAssembly(tables, self._place, self._evolve, part_rows)
        databases = {table.parts[0] for table in tables}
        self._stream = BinlogStream(self._url, assembly, self._place, databases)

    def _evolve(self, table: CapturedTable, columns: Sequence[BinlogColumn]) -> CapturedTable | TableTrouble:
        own_key = not {table.id, table.parts[-1]} & set(self._keys)
        known = {column.source for column in table.columns} | self._generated(table.id)
        if any(column.name not in known for column in columns):
            found, _ = self._find([table.id])
            # Chunks read what the table has now; the log has told of it or will.
            self._tables.update({one.captured.id: one for one in found})
        return evolved(table, columns, self._generated(table.id), own_key, self._decimal)

    def _generated(self, table: str) -> frozenset[str]:
        return self._tables[table].generated if table in self._tables else frozenset()

    def read(self, timeout: float) -> ChangeBatch | None:
        assert self._stream is not None
        batch = self._stream.read(timeout)
        place = self._stream.place
        self._marks[place.number] = place
        return batch

    @property
    def reached(self) -> int:
        return self._stream.reached if self._stream is not None else 0

    @property
    def sent(self) -> int:
        return 0  # nobody answers for us

    def confirm(self, position: int) -> None:
        self._marks = {number: place for number, place in self._marks.items() if number >= position}

    def chunk(self, table: CapturedTable, after: Sequence[str] | None, limit: int) -> TableChunk:
        with explaining(f"table {table.id} cannot be read"):
            return self._chunks.read(self._tables[table.id], after, limit)

    def health(self, tables: Sequence[CapturedTable]) -> SourceHealth:
        position = self._newest()
        if position < self.reached:
            raise Conflict(
                f"the source is at number {position}, and the capture was at {self.reached}: its binary log was reset",
                hint=_AGAIN,
            )
        return SourceHealth(position)

    def gauge(self) -> LogGauge:
        return BinlogGauge(self._url, self._domain, self._mark)

    def _mark(self, position: int) -> BinlogPlace | None:
        """Where a position is, for the gauge's thread: `_marks` may be another one by now."""
        return self._marks.get(position)

    def show(self, position: int) -> str:
        place = self._marks.get(position)
        return str(position) if place is None or place.gtid is None else str(place.gtid)

    def close(self) -> None:
        session = self._stream.session if self._stream is not None else None
        if self._stream is not None:
            self._stream.close()
        try:
            if session is not None and self._connection.open:
                # The server would keep the session, and the files it reads, until it next has something to say.
                with self._connection.cursor() as db:
                    db.execute(f"kill {session}")
        except (pymysql.Error, OSError):
            pass
        try:
            self._connection.close()
        except (pymysql.Error, OSError):
            pass
