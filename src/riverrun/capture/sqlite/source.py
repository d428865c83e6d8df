"""SQLite as a source: triggers write down what happens to tables, in a table beside them, in the same transaction."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from riverrun.capture.changes import CapturedTable, ChangeBatch, LogGauge, SourceHealth, TableChunk, TableTrouble
from riverrun.capture.decimals import check_decimal
from riverrun.capture.sequences import sequence_of
from riverrun.capture.sqlite.catalog import SqliteTable, find_odd_key, find_tables
from riverrun.capture.sqlite.chunks import SqliteChunks
from riverrun.capture.sqlite.evolution import evolved
from riverrun.capture.sqlite.gauge import ChangesGauge
from riverrun.capture.sqlite.installation import ChangeLayout, Installation, brought_up_to_date, number_of
from riverrun.capture.sqlite.records import batch_of
from riverrun.capture.sqlite.session import PREFIX, connect, explaining, hurrying, path_of, quote, reading, writing
from riverrun.capture.sqlite.triggers import SALT_BITS
from riverrun.errors import Busy, Conflict, Transient
from riverrun.failpoints import failpoint
from riverrun.log.wake import Bell

_AGAIN = "Read everything again: riverrun capture … --resnapshot all"
_REMOVED = 20_000  # changes taken away in one transaction, so that writers do not wait for long
_SAMPLED = 100  # changes whose size is looked at


class SqliteSource:
    """Implements `CaptureSource`. The file is read and written: triggers, and the capture's own tables."""

    kind = "sqlite"

    def __init__(
        self, address: str, name: str, keys: Mapping[str, Sequence[str]] | None = None, decimal: str | None = None
    ) -> None:
        self._path = path_of(address)
        self._name = name
        self._keys = dict(keys or {})
        self._decimal = check_decimal(decimal)
        self._db = connect(self._path)
        self._reader = connect(self._path)
        self._reader.text_factory = bytes
        self._installation = Installation(self._db, name)
        self._view = Installation(self._reader, name)
        self._chunks = SqliteChunks(self._reader)
        self._file = _file_of(self._path)
        self._bell = Bell()
        self._bell.watch(os.path.dirname(self._path))  # the log of writes comes and goes beside the file
        self._tables: dict[str, SqliteTable] = {}  # as they are
        self._told: dict[str, CapturedTable] = {}  # as the capture knows them
        self._layouts: dict[int, ChangeLayout] = {}
        self._schema: int | None = None
        self._grown: list[CapturedTable] = []
        self._troubles: list[TableTrouble] = []
        self._foretold: dict[str, TableTrouble] = {}  # found before reading began
        self._part_rows: Callable[[int], int] = lambda _: 1
        self._confirmed = 0
        self._row_bytes = 64.0  # about, until some were seen
        self.reached = 0
        self.sent = 0  # nobody confirms anything but us

    @property
    def address(self) -> str:
        return f"{PREFIX}{self._path}"

    def identity(self) -> dict[str, Any]:
        with writing(self._db, f"{self._path} cannot be written to"):
            return {"kind": self.kind, "source": self._installation.introduce()}

    def describe(self, tables: Sequence[str]) -> tuple[list[CapturedTable], list[TableTrouble]]:
        with reading(self._db, "the tables cannot be looked at"):
            found, troubles = self._find(tables)
            odd = {table.name: trouble for table in found if (trouble := find_odd_key(self._db, table)) is not None}
        self._tables = {table.name: table for table in found if table.name not in odd}
        return [table.captured for table in self._tables.values()], [*troubles, *odd.values()]

    def _find(self, tables: Sequence[str]) -> tuple[list[SqliteTable], list[TableTrouble]]:
        before = {name: one.source_key for name, one in self._installation.last_layouts().items()}
        return find_tables(self._db, tables, self._keys, self._decimal, before)

    def has_slot(self) -> bool:
        with reading(self._db, f"{self._path} cannot be read"):
            return self._installation.is_claimed()

    def forget(self) -> None:
        with writing(self._db, "the triggers cannot be removed"):
            self._installation.forget()

    def install(self) -> list[str]:
        """Triggers for the tables that were described, before anybody captures them; gives their names."""
        self.identity()
        with writing(self._db, "the triggers cannot be made"):
            self._installation.make_tables()
            for table in self._tables.values():
                brought_up_to_date(self._installation, table, self._captured(), self._installation.confirmed(), None)
        return sorted(self._tables)

    def _captured(self) -> set[str]:
        """The tables whose triggers are there, on them."""
        layouts, there = self._installation.layouts(), self._installation.installed()
        return {one.table for number, one in layouts.items() if there.get(number) == {one.table}}

    def uninstall(self) -> bool:
        """Remove everything that a capture has in the source; whether there was something."""
        with writing(self._db, "the triggers cannot be removed"):
            return self._installation.uninstall()

    def remembered(self, troubles: Sequence[TableTrouble], known: Sequence[str]) -> dict[str, CapturedTable]:
        with reading(self._db, f"{self._path} cannot be read"):
            layouts = {name: one for name, one in self._installation.last_layouts().items() if name in known}
        found = {}
        for trouble in troubles:
            layout = layouts.get(trouble.table)
            if layout is not None and layout.key:
                found[trouble.table] = layout.captured
                self._foretold[layout.table] = trouble
        return found

    def prepare(self, known: Sequence[str], confirmed: int | None) -> tuple[int, list[TableTrouble]]:
        failpoint("capture.slot")
        with writing(self._db, "the triggers cannot be made"):
            position, troubles = self._prepare(known, confirmed)
        failpoint("capture.slotted")
        return position, troubles

    def _prepare(self, known: Sequence[str], confirmed: int | None) -> tuple[int, list[TableTrouble]]:
        mine = self._installation
        if confirmed is not None:
            self._check_position(confirmed)
        mine.make_tables()
        before = set(known) if confirmed is not None else self._captured()
        layouts = mine.last_layouts()
        for name in (mine.displaced() | self._captured()) - set(self._tables) - set(self._foretold):
            mine.drop_triggers(name)  # nobody asks for what they write
        troubles = []
        position = mine.confirmed()
        for name, table in list(self._tables.items()):
            was = layouts.get(name)
            if name in known and was is not None and was.key:
                outcome = evolved(mine, was.captured, table, None, position)
            else:
                outcome = brought_up_to_date(mine, table, before, position, None)
            if isinstance(outcome, TableTrouble):
                troubles.append(outcome)
                del self._tables[name]
        mine.claim()
        self._confirmed = position
        return position, troubles

    def _check_position(self, confirmed: int) -> None:
        mine = self._installation
        if not mine.is_there():
            raise Conflict(f"the changes of {self._path} are gone: what was written since is not known", hint=_AGAIN)
        there = mine.confirmed()
        if there == confirmed:
            return
        if there > confirmed:
            raise Conflict(
                f"changes up to {number_of(there)} were taken away, and the capture is at {number_of(confirmed)}: another"
                " capture has read them",
                hint=_AGAIN,
            )
        salt = mine.salt_of(number_of(confirmed))
        if salt != confirmed & ((1 << SALT_BITS) - 1):
            raise Conflict(
                f"the capture was at change {number_of(confirmed)}, and {self._path} has another one or none: it was"
                " restored from an older copy",
                hint=_AGAIN,
            )

    def start(
        self,
        tables: Sequence[CapturedTable],
        part_rows: Callable[[int], int],
        stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        self._told = {table.id: table for table in tables}
        self._part_rows = part_rows
        self.reached = self._confirmed
        self._schema = None  # what has happened since the tables were described is found by the first read

    def read(self, timeout: float) -> ChangeBatch | None:
        deadline = time.monotonic() + timeout
        while True:
            self._bell.clear()
            batch = self._read()
            left = deadline - time.monotonic()
            if batch is not None or left <= 0:
                return batch
            self._bell.wait(left)

    def _read(self) -> ChangeBatch | None:
        while True:
            with reading(self._reader, "the changes cannot be read"):
                if self._is_as_known():
                    return self._read_changes()
            self._look_again()

    def _is_as_known(self) -> bool:
        """Whether the schema is the one that was looked at; inside of a transaction."""
        return self._reader.execute("pragma schema_version").fetchone()[0] == self._schema  # type: ignore[no-any-return]

    def _read_changes(self) -> ChangeBatch | None:
        number = number_of(self.reached)
        limit = self._part_rows(sequence_of(number))
        changes = quote(self._view.names.changes)
        rows = self._reader.execute(
            f"select * from {changes} where n > ? order by n limit ?", (number, limit)
        ).fetchall()
        end = self._view.end()
        if not rows:
            if number_of(end) < number:
                raise Conflict(f"{self._path} was replaced by an older copy", hint=_AGAIN)
            self.reached = end
            return None
        self._row_bytes = _average(rows)
        part_of = sequence_of(number_of(end)) if rows[-1][0] < number_of(end) else None
        # A table in trouble has no triggers any more: what it wrote before is here, when the end is.
        ending = [] if part_of is not None else self._troubles
        batch = batch_of(rows, self._layouts, self._told, part_of, self._grown, ending)
        self._told.update({table.id: table for table in self._grown})
        for trouble in batch.troubles:
            self._told.pop(trouble.table, None)
        self._grown = []
        self._troubles = [trouble for trouble in self._troubles if trouble.table in self._told]
        self.reached = batch.confirm
        return batch

    def _look_again(self) -> None:
        """The schema has changed: tables may have other columns, which old triggers do not know, or be gone."""
        mine = self._installation
        with writing(self._db, "the triggers cannot be made"):
            if not mine.is_there():
                raise Conflict(
                    f"the changes of {self._path} are gone: what was written since is not known", hint=_AGAIN
                )
            ending = {trouble.table for trouble in self._troubles}
            going_on = {name: told for name, told in self._told.items() if name not in ending}
            found, troubles = self._find(list(going_on))
            now = {table.name: table for table in found}
            missing = {trouble.table: trouble for trouble in troubles}
            for name, told in going_on.items():
                outcome = evolved(mine, told, now.get(name), missing.get(name), self.reached)
                if name in self._foretold and not isinstance(outcome, TableTrouble):
                    outcome = self._foretold[name]
                if isinstance(outcome, TableTrouble):
                    mine.drop_triggers(name)
                    mine.mark(max(mine.layouts()))
                    self._troubles.append(outcome)
                    self._tables.pop(name, None)
                else:
                    self._tables[name] = now[name]
                    if now[name].captured.columns != told.columns:
                        self._grown = [one for one in self._grown if one.id != name] + [now[name].captured]
            self._layouts = mine.layouts()
            schema = self._db.execute("pragma schema_version").fetchone()[0]
        self._schema = schema

    def confirm(self, position: int) -> None:
        if position <= self._confirmed:
            return
        done = False
        try:
            while not done:
                with hurrying(self._db), writing(self._db, "changes cannot be taken away"):
                    done = self._installation.remove_changes(position, _REMOVED)
        except Busy:
            return  # they stay until the next time
        self._confirmed = position

    def chunk(self, table: CapturedTable, after: Sequence[str] | None, limit: int) -> TableChunk | None:
        while True:
            with reading(self._reader, f"table {table.id} cannot be read"):
                if self._is_as_known():
                    if table.id not in self._tables:
                        return None
                    return self._chunks.read(self._tables[table.id], table, after, limit, self._view.end())
            self._look_again()

    def health(self, tables: Sequence[CapturedTable]) -> SourceHealth:
        if _file_of(self._path) != self._file:
            raise Transient(f"{self._path} is gone or is another file now")
        with reading(self._db, f"{self._path} cannot be read"):
            if not self._installation.is_there():
                raise Conflict(
                    f"the changes of {self._path} are gone: what was written since is not known", hint=_AGAIN
                )
            end = self._installation.end()
            held = number_of(end) - number_of(self._installation.confirmed())
        return SourceHealth(end, int(held * self._row_bytes))

    def gauge(self) -> LogGauge:
        return ChangesGauge(self._path, self._name, lambda: self._row_bytes)

    def show(self, position: int) -> str:
        return str(number_of(position))

    def close(self) -> None:
        self._bell.close()
        with explaining(f"{self._path} cannot be closed"):
            self._reader.close()
            self._db.close()


def _file_of(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _average(rows: Sequence[tuple[Any, ...]]) -> float:
    """About how large a change is."""
    some = rows[-_SAMPLED:]
    return sum(len(value) if isinstance(value, bytes) else 8 for row in some for value in row) / len(some)
