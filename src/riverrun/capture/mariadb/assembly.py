"""Events of the binary log, one after the other → batches of whole transactions. Pure: no connection.

A transaction that reaches the size of a part is given in parts, cut by the number of its changes, so that the same
transaction is always cut at the same places.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from riverrun.capture.changes import TRUNCATE, CapturedTable, ChangeBatch, TableChanges, TableTrouble, Transactions
from riverrun.capture.mariadb.catalog import BinlogColumn
from riverrun.capture.mariadb.decoder import RowRun, changes_of
from riverrun.capture.mariadb.events import (
    COMPLETED,
    PREPARED,
    BinlogEvent,
    GroupBegin,
    GroupEnd,
    RowsRead,
    RowsUnreadable,
    StatementRead,
)
from riverrun.capture.mariadb.places import BinlogPlace, file_number
from riverrun.capture.mariadb.statements import StatementEffect, effects
from riverrun.capture.sequences import LAST_PART, sequence_of
from riverrun.errors import Conflict

Evolve = Callable[[CapturedTable, Sequence[BinlogColumn]], CapturedTable | TableTrouble]
_WITHOUT_ROWS = {
    "dropped": "table {table} was dropped",
    "renamed": "table {table} was renamed to {more}",
    "partitions": "a partition of {table} was changed as a whole ({more}), which is not logged row by row",
    "statement": "{table} may have been changed by a statement that was logged as text: a session had binlog_format ="
    " STATEMENT or MIXED",
}


@dataclass(frozen=True)
class _Done:
    """A transaction that has ended."""

    begin: GroupBegin
    end: GroupEnd


class BinlogAssembly:
    """Takes events in, gives batches. `tables` are those that are captured; `evolve` says what becomes of one that has
    changed. `place` is where reading begins."""

    def __init__(
        self,
        tables: Sequence[CapturedTable],
        place: BinlogPlace,
        evolve: Evolve,
        part_rows: Callable[[int], int],
    ) -> None:
        self._tables = {table.id: table for table in tables}
        self._evolve = evolve
        self._part_rows = part_rows
        self._seen: dict[str, Sequence[BinlogColumn]] = {}
        self._runs: list[RowRun] = []
        self._done: list[_Done] = []
        self._open: GroupBegin | None = None
        self._is_repeat = False
        self._count = 0  # changes of the open transaction that were not given yet
        self._part = self._limit = 0
        self._grown: dict[str, CapturedTable] = {}
        self._troubles: list[TableTrouble] = []
        self._domain = place.gtid.domain if place.gtid is not None else None
        self._last = (place.number, file_number(place.file), place.offset)
        self.place = place  # behind the last transaction that has ended

    def __len__(self) -> int:
        """How many changes there are."""
        return sum(len(run) for run in self._runs)

    @property
    def is_between(self) -> bool:
        """Whether no transaction is open."""
        return self._open is None

    def feed(self, event: BinlogEvent) -> list[ChangeBatch]:
        """Take in the next event; gives what must be taken at once, since a transaction is too large."""
        if isinstance(event, GroupBegin):
            self._begin(event)
        elif self._open is None or self._is_repeat:
            if isinstance(event, GroupEnd):
                self._open = None
        elif isinstance(event, GroupEnd):
            self._end(event)
        elif isinstance(event, RowsRead):
            return self._rows(event)
        elif isinstance(event, StatementRead):
            for effect in effects(event.text, event.database):
                self._affect(effect)
        else:
            self._unreadable(event)
        return []

    def _begin(self, event: GroupBegin) -> None:
        gtid = event.gtid
        if self._domain is not None and gtid.domain != self._domain:
            raise Conflict(
                f"transaction {gtid} is of domain {gtid.domain}, and those before were of {self._domain}: domains have no"
                " order among each other, and a capture needs one",
                hint="Write with one gtid_domain_id, then read everything again: riverrun capture … --resnapshot all",
            )
        self._domain = gtid.domain
        number, file, offset = self._last
        self._is_repeat = gtid.number <= number
        if self._is_repeat and (file_number(event.file), event.offset) > (file, offset) and offset:
            raise Conflict(
                f"transaction {gtid} comes after number {number}: numbers of GTIDs do not rise on this server",
                hint="Set gtid_strict_mode = ON there, then read everything again: riverrun capture … --resnapshot all",
            )
        self._open = event
        if not self._is_repeat:
            self._count = self._part = 0
            self._limit = self._part_rows(sequence_of(gtid.number))

    def _end(self, event: GroupEnd) -> None:
        assert self._open is not None
        self._done.append(_Done(self._open, event))
        self._last = (self._open.gtid.number, file_number(event.place.file), event.place.offset)
        self.place = event.place
        self._open = None
        self._count = 0

    def _rows(self, event: RowsRead) -> list[ChangeBatch]:
        table = self._table(event)
        if table is None:
            return []
        batches: list[ChangeBatch] = []
        run = RowRun(table, event.columns, event.op, event.after, event.before, len(self._done))
        while self._count + len(run) >= self._limit:
            here = self._limit - self._count
            self._runs.append(run.part(0, here))
            batches += self._give_part()
            run = replace(run.part(here, len(run)), owner=0)
        if len(run):
            self._runs.append(run)
            self._count += len(run)
        return batches

    def _table(self, event: RowsRead) -> CapturedTable | None:
        """The table that rows are of, as it looks now; None: it is not captured (any more)."""
        table = self._tables.get(event.table)
        if table is None:
            return None
        assert self._open is not None
        if self._open.flags & (PREPARED | COMPLETED):
            self._stop(table.id, f"{table.id} was written to by an XA transaction, whose end is not known yet")
            return None
        if self._seen.get(table.id) != event.columns:
            outcome = self._evolve(table, event.columns)
            if isinstance(outcome, TableTrouble):
                self._tables.pop(table.id)
                self._troubles.append(outcome)
                return None
            if outcome != table:
                table = self._tables[table.id] = self._grown[table.id] = outcome
            self._seen[table.id] = event.columns
        sources = {column.source for column in table.columns}
        missing = [name for name in event.missing if name in sources]
        if missing:
            self._stop(
                table.id,
                f"rows of {table.id} were logged without {', '.join(missing)}: a session had binlog_row_image = MINIMAL or"
                " NOBLOB",
            )
            return None
        return table

    def _affect(self, effect: StatementEffect) -> None:
        for table in list(self._tables.values()):
            if table.parts[0] != effect.database or effect.table not in (None, table.parts[-1]):
                continue
            if effect.what == "truncated":
                self._runs.append(RowRun(table, (), TRUNCATE, ({},), (), len(self._done)))
                self._count += 1
            else:
                self._stop(table.id, _WITHOUT_ROWS[effect.what].format(table=table.id, more=effect.more))

    def _unreadable(self, event: RowsUnreadable) -> None:
        if event.table in self._tables:
            self._stop(event.table, f"a row of {event.table} cannot be read ({event.reason})")

    def _stop(self, table: str, reason: str) -> None:
        self._tables.pop(table)
        self._troubles.append(TableTrouble(table, reason, f"Read it again: riverrun capture … --resnapshot {table}"))

    def take(self) -> ChangeBatch | None:
        """The whole transactions that have come; None: there are none. A transaction that is open stays."""
        if not self._done:
            return None
        runs = [run for run in self._runs if run.owner < len(self._done)]
        self._runs = [replace(run, owner=0) for run in self._runs if run.owner >= len(self._done)]
        done, self._done = self._done, []
        sequences = [sequence_of(one.begin.gtid.number) for one in done]
        return self._batch(done, runs, sequences)

    def _give_part(self) -> list[ChangeBatch]:
        """A part of the open transaction, after those before it. The last part there can be is the rest."""
        assert self._open is not None
        whole = self.take()
        sequence = sequence_of(self._open.gtid.number, self._part)
        runs, self._runs, self._count = self._runs, [], 0
        end = GroupEnd(self._at, self.place)
        part = self._batch([_Done(self._open, end)], runs, [sequence], sequence_of(self._open.gtid.number))
        self._part += 1
        if self._part >= LAST_PART:
            self._limit = 1 << 62
        return [part] if whole is None else [whole, part]

    @property
    def _at(self) -> int:
        assert self._open is not None
        return self._open.at

    def _batch(
        self, done: Sequence[_Done], runs: Sequence[RowRun], sequences: Sequence[int], part_of: int | None = None
    ) -> ChangeBatch:
        ids = [str(one.begin.gtid) for one in done]
        transactions = Transactions(
            ids, ids, np.array(sequences, np.int64), np.array([one.end.at for one in done], np.int64)
        )
        by_table: dict[str, list[RowRun]] = {}
        for run in runs:
            by_table.setdefault(run.table.id, []).append(run)
        changes: list[TableChanges] = []
        for name, mine in by_table.items():
            outcome = changes_of(mine)
            if isinstance(outcome, TableChanges):
                changes.append(outcome)
            elif name in self._tables:
                self._stop(name, f"a row of {name} cannot be read ({outcome})")
        batch = ChangeBatch(
            transactions,
            changes,
            sequences[-1],
            done[-1].begin.gtid.number,
            part_of,
            tuple(self._grown.values()),
            tuple(self._troubles),
        )
        self._grown, self._troubles = {}, []
        return batch
