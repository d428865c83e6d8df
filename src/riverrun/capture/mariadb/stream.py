"""The replication connection: events in. A thread reads, since the library can only be asked in a way that blocks."""

from __future__ import annotations

import logging
import queue
import random
import socket
import threading
import time
from collections.abc import Iterable
from typing import Any

import pymysql
from pymysqlreplication import BinLogStreamReader
from pymysqlreplication.event import FormatDescriptionEvent, MariadbGtidEvent, QueryEvent, XAPrepareEvent, XidEvent
from pymysqlreplication.row_event import DeleteRowsEvent, UpdateRowsEvent, WriteRowsEvent

from riverrun.capture.changes import DELETE, INSERT, UPDATE, ChangeBatch
from riverrun.capture.mariadb.assembly import BinlogAssembly
from riverrun.capture.mariadb.columns import described, missing_columns, plain_rows
from riverrun.capture.mariadb.events import (
    STANDALONE,
    BinlogEvent,
    GroupBegin,
    GroupEnd,
    RowsRead,
    RowsUnreadable,
    StatementRead,
)
from riverrun.capture.mariadb.places import BinlogPlace, Gtid
from riverrun.capture.mariadb.session import SILENCE, explained, settings_of
from riverrun.errors import Conflict, RiverrunError, Transient, Unavailable

_BATCH_ROWS = 20_000
_BATCH_SECONDS = 0.25
_AHEAD = 2_000  # events that may wait; one has up to 8 kB of rows, or a row that is larger
_HEARTBEAT = 10.0
_MISSING = 1236  # what is asked for is not in the binary log
_OPS = {WriteRowsEvent: INSERT, UpdateRowsEvent: UPDATE, DeleteRowsEvent: DELETE}
_AGAIN = "Read everything again: riverrun capture … --resnapshot all"


class _Cut(Exception):
    """The connection is gone. The library would connect again by itself, and begin where it once began."""


class BinlogStream:
    """Reads the binary log from a place on."""

    def __init__(self, url: str, assembly: BinlogAssembly, place: BinlogPlace, databases: Iterable[str]) -> None:
        self._assembly = assembly
        self._batches: list[ChangeBatch] = []
        self._events: queue.Queue[BinlogEvent | BaseException] = queue.Queue(_AHEAD)
        self._closing = threading.Event()
        self._answered = threading.Event()
        self._connections: list[Any] = []
        self.reached = place.number
        logging.getLogger("pymysqlreplication").setLevel(logging.ERROR)  # it warns of each connection that ends
        self._reader = BinLogStreamReader(
            connection_settings={**settings_of(url), "read_timeout": SILENCE},
            # As a replica of its own: a second one of the same number would cut off the first.
            server_id=random.randrange(1 << 31, (1 << 32) - 1),
            is_mariadb=True,
            auto_position=str(place.gtid or ""),
            resume_stream=True,
            blocking=True,
            slave_heartbeat=_HEARTBEAT,
            only_events=[*_OPS, FormatDescriptionEvent, MariadbGtidEvent, QueryEvent, XidEvent, XAPrepareEvent],
            only_schemas=sorted(databases),
            pymysql_wrapper=self._connect,
            enable_logging=False,
        )
        self._thread = threading.Thread(target=self._pump, name="riverrun-binlog", daemon=True)
        self._thread.start()
        self._answered.wait(SILENCE)  # who may not read, or asks for what is gone, is told before anything else

    def _connect(self, **settings: Any) -> Any:
        if len(self._connections) == 2 or self._closing.is_set():  # one for events, one for questions
            raise _Cut("the connection was cut")
        if "db" in settings:
            settings["database"] = settings.pop("db")
        made = pymysql.connect(**settings)
        self._connections.append(made)
        return made

    def _pump(self) -> None:
        translate = BinlogTranslation(self._reader)
        try:
            while not self._closing.is_set():
                event = self._reader.fetchone()
                if event is None:
                    raise _Cut("the server has ended the stream")
                if isinstance(event, FormatDescriptionEvent):  # every file begins with it
                    self._answered.set()
                    continue
                for one in translate(event):
                    self._put(one)
        except BaseException as error:
            self._put(error)
            self._answered.set()

    def _put(self, event: BinlogEvent | BaseException) -> None:
        while not self._closing.is_set():
            try:
                self._events.put(event, timeout=0.5)
                return
            except queue.Full:
                continue

    def read(self, timeout: float) -> ChangeBatch | None:
        """The next batch, waited for a little."""
        begun = time.monotonic()
        assembly = self._assembly
        while not self._batches:
            left = max(begun + timeout - time.monotonic(), 0.0)
            try:
                event = self._events.get(timeout=left) if left and not len(assembly) else self._events.get_nowait()
            except queue.Empty:
                batch = assembly.take()
                if batch is not None:
                    self._batches.append(batch)
                    continue
                self.reached = assembly.place.number
                if time.monotonic() - begun >= timeout:
                    return None
                time.sleep(0.002)
                continue
            if isinstance(event, BaseException):
                self._events.put(event)  # also for who asks again
                batch = assembly.take()
                if batch is None:
                    raise self._explained(event) from event
                self._batches.append(batch)
                continue
            self._batches += assembly.feed(event)
            if isinstance(event, GroupEnd) and (
                len(assembly) >= _BATCH_ROWS or time.monotonic() - begun > _BATCH_SECONDS
            ):
                batch = assembly.take()
                if batch is not None:
                    self._batches.append(batch)
        batch = self._batches.pop(0)
        if not batch.is_part:
            self.reached = max(self.reached, batch.confirm)
        return batch

    @property
    def place(self) -> BinlogPlace:
        """Behind the last transaction that was read."""
        return self._assembly.place

    @property
    def session(self) -> int | None:
        """The server's number of the connection that events come over."""
        return int(self._connections[0].thread_id()) if self._connections else None

    def close(self) -> None:
        """Let go of the connections; the thread ends with them."""
        self._closing.set()
        for connection in self._connections:
            try:
                if connection._sock is not None:
                    connection._sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        self._thread.join(5.0)
        self._reader.close()

    def _explained(self, error: BaseException) -> RiverrunError:
        if isinstance(error, RiverrunError):
            return error
        if isinstance(error, pymysql.Error) and error.args and error.args[0] == _MISSING:
            return Conflict(
                f"the binary log no longer has what comes after {self.place.gtid or 'its beginning'}"
                f" ({error.args[-1]}): it was purged or reset",
                hint=_AGAIN,
            )
        if isinstance(error, _Cut):
            return Transient(f"the stream of changes has ended ({error})", hint="Is the server there?")
        if isinstance(error, pymysql.Error | OSError):
            return explained(error, "the stream of changes has ended")
        return Unavailable(f"an event of the binary log cannot be read ({type(error).__name__}: {error})")


class BinlogTranslation:
    """Events of the library → ours."""

    def __init__(self, reader: Any) -> None:
        self._reader = reader
        self._gtid: Gtid | None = None
        self._flags = 0
        self._begun = ("", 0)

    def __call__(self, event: Any) -> list[BinlogEvent]:
        op = _OPS.get(type(event))
        if op is not None:
            return [_rows(event, op)]
        if isinstance(event, MariadbGtidEvent):
            self._gtid = Gtid(event.domain_id, event.server_id, event.gtid_seq_no)
            self._flags = event.flags
            self._begun = (self._reader.log_file, self._reader.log_pos)
            return [GroupBegin(self._gtid, event.flags, *self._begun, event.timestamp * 1_000_000)]
        if isinstance(event, QueryEvent):
            text = event.query.strip()
            if text.upper() in ("BEGIN", "COMMIT", "ROLLBACK"):
                return [] if text.upper() == "BEGIN" else [self._end(event)]
            found: list[BinlogEvent] = [StatementRead(event.schema.decode(), text)]
            return [*found, self._end(event)] if self._flags & STANDALONE else found
        return [self._end(event)]

    def _end(self, event: Any) -> GroupEnd:
        file, offset = self._reader.log_file, self._reader.log_pos
        if (file, offset) <= self._begun:
            offset = 0  # numbers of places have 32 bits, files may be larger
        return GroupEnd(event.timestamp * 1_000_000, BinlogPlace(self._gtid, file, offset))


def _rows(event: Any, op: int) -> BinlogEvent:
    table = f"{event.schema}.{event.table}"
    try:
        columns = described(event.columns)
        if op != UPDATE:
            after, before = plain_rows(event, "values"), []
        else:
            after, before = plain_rows(event, "after_values"), plain_rows(event, "before_values")
        return RowsRead(table, op, columns, missing_columns(event, op == UPDATE), after, before)
    except Exception as error:  # whatever the library cannot decode concerns this table alone
        return RowsUnreadable(table, f"{type(error).__name__}: {error}")
