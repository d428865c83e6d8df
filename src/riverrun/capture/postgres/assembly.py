"""pgoutput's messages, one after the other → batches of whole transactions. Pure: no connection.

The reader feeds messages and takes a batch when a commit has come. A transaction that reaches the size of a part is given
in parts, cut by the number of its changes, so that the same transaction is always cut at the same places.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from riverrun.capture.changes import CapturedTable, ChangeBatch, TableChanges, TableTrouble, Transactions
from riverrun.capture.postgres.decoder import decode_rows, truncated
from riverrun.capture.postgres.messages import (
    BeginMessage,
    RelationMessage,
    parse_begin,
    parse_commit,
    parse_relation,
    parse_truncate,
    show_lsn,
    whole_xid,
)
from riverrun.capture.sequences import LAST_PART, sequence_of

_INSERT, _UPDATE, _DELETE = b"IUD"
_BEGIN, _COMMIT, _RELATION, _TRUNCATE = b"BCRT"
_DECODED = 32 << 10  # messages at a time, so that what is parsed stays near the processor

Evolve = Callable[[CapturedTable, RelationMessage], CapturedTable | TableTrouble]


@dataclass
class SameRelations:
    """Messages of rows under the same relations, and the transaction of each."""

    relations: dict[int, RelationMessage]
    tables: dict[str, CapturedTable]
    payloads: list[bytes] = field(default_factory=list)
    owners: list[int] = field(default_factory=list)


class Assembly:
    """Takes messages in, gives batches. `tables` are those that are captured; `evolve` says what becomes of one that has
    changed."""

    def __init__(
        self, tables: Sequence[CapturedTable], near: int, evolve: Evolve, part_rows: Callable[[int], int]
    ) -> None:
        self._tables = {table.id: table for table in tables}
        self._evolve = evolve
        self._part_rows = part_rows
        self._near = near  # some transaction of these days, in 64 bits
        self._relations: dict[int, RelationMessage] = {}
        self._runs: list[SameRelations] = []
        self._run = self._begin_run()
        self._transactions: list[tuple[BeginMessage, int]] = []  # that have ended, and what to confirm
        self._open: BeginMessage | None = None
        self._begun = 0  # messages before the open transaction
        self._part = 0
        self._limit = 0
        self._count = 0
        self._grown: list[CapturedTable] = []
        self._troubles: list[TableTrouble] = []

    def __len__(self) -> int:
        """How many changes of whole transactions there are to take."""
        return self._count if self._open is None else self._begun

    @property
    def is_between(self) -> bool:
        """Whether no transaction is open."""
        return self._open is None

    def feed(self, payload: bytes) -> bool:
        """Take in the next message; True when the open transaction is so large that a part must be taken now."""
        kind = payload[0]
        if kind in (_INSERT, _UPDATE, _DELETE):
            self._run.payloads.append(payload)
            self._run.owners.append(len(self._transactions))
            self._count += 1
            return self._count - self._begun >= self._limit
        if kind == _BEGIN:
            self._open = parse_begin(payload)
            self._begun, self._part = self._count, 0
            self._limit = self._part_rows(sequence_of(self._open.position))
        elif kind == _COMMIT:
            assert self._open is not None
            self._transactions.append((self._open, parse_commit(payload).end))
            self._open = None
        elif kind == _RELATION:
            self._relation(parse_relation(payload))
        elif kind == _TRUNCATE:
            for oid in parse_truncate(payload):
                self._run.payloads.append(truncated(oid))
                self._run.owners.append(len(self._transactions))
                self._count += 1
        return False

    def take(self) -> ChangeBatch | None:
        """The whole transactions that have come; None: there are none. A transaction that is open stays."""
        if not self._transactions:
            return None
        rest = self._split() if self._open is not None else []
        batch = self._batch(self._transactions, sequence_of(self._transactions[-1][0].position))
        self._transactions = []
        self._runs = rest[:-1]
        self._run = rest[-1] if rest else self._begin_run()
        self._count, self._begun = sum(len(run.payloads) for run in rest), 0
        return batch

    def take_part(self) -> ChangeBatch:
        """A part of the open transaction, after those before it were taken. The last part there can be is the rest."""
        assert self._open is not None
        assert not self._transactions
        sequence = sequence_of(self._open.position, min(self._part, LAST_PART - 1))
        batch = self._batch([(self._open, 0)], sequence, sequence_of(self._open.position))
        self._part += 1
        self._runs, self._run, self._count, self._begun = [], self._begin_run(), 0, 0
        if self._part >= LAST_PART:
            self._limit = 1 << 62
        return batch

    def _begin_run(self) -> SameRelations:
        return SameRelations(dict(self._relations), dict(self._tables))

    def _relation(self, relation: RelationMessage) -> None:
        known = self._relations.get(relation.oid)
        if known == relation:
            return
        if self._run.payloads:
            self._runs.append(self._run)
        self._relations[relation.oid] = relation
        if known is not None and known.id != relation.id and known.id in self._tables:
            self._stop(
                TableTrouble(
                    known.id,
                    f"table {known.id} was renamed to {relation.id}",
                    f"Capture {relation.id} instead, or rename it back and read it again: --resnapshot {known.id}",
                )
            )
        table = self._tables.get(relation.id)
        if table is not None:
            outcome = self._evolve(table, relation)
            if isinstance(outcome, TableTrouble):
                self._stop(outcome)
            elif outcome != table:
                self._tables[table.id] = outcome
                self._grown.append(outcome)
        self._run = self._begin_run()

    def _stop(self, trouble: TableTrouble) -> None:
        self._tables.pop(trouble.table, None)
        self._troubles.append(trouble)

    def _split(self) -> list[SameRelations]:
        """Take the messages of the open transaction out of the runs, and give them as runs of their own."""
        runs = [*self._runs, self._run]
        kept: list[SameRelations] = []
        rest: list[SameRelations] = []
        left = self._begun
        for run in runs:
            here = min(left, len(run.payloads))
            left -= here
            if here:
                kept.append(SameRelations(run.relations, run.tables, run.payloads[:here], run.owners[:here]))
            if here < len(run.payloads) or run is self._run:
                open_ones = run.payloads[here:]
                rest.append(SameRelations(run.relations, run.tables, open_ones, [0] * len(open_ones)))
        self._runs, self._run = kept, SameRelations(dict(self._relations), dict(self._tables))
        return rest

    def _batch(
        self, done: Sequence[tuple[BeginMessage, int]], sequence: int, part_of: int | None = None
    ) -> ChangeBatch:
        ids = []
        for begin, _ in done:
            self._near = whole_xid(begin.xid, self._near)
            ids.append(str(self._near))
        transactions = Transactions(
            ids,
            [show_lsn(begin.position) for begin, _ in done],
            np.array([sequence_of(begin.position) if part_of is None else sequence for begin, _ in done], np.int64),
            np.array([begin.at for begin, _ in done], np.int64),
        )
        by_table: dict[str, list[TableChanges]] = {}
        unread: set[str] = set()
        for run in [*self._runs, self._run]:
            for at in range(0, len(run.payloads), _DECODED):
                some = slice(at, at + _DECODED)
                for changes in decode_rows(run.payloads[some], run.owners[some], run.relations, run.tables):
                    if isinstance(changes, TableTrouble):
                        self._stop(changes)
                        unread.add(changes.table)
                    elif changes.table not in unread:  # nothing behind a row that is missing
                        by_table.setdefault(changes.table, []).append(changes)
        batch = ChangeBatch(
            transactions,
            [_merged(parts) for parts in by_table.values()],
            sequence,
            done[-1][1],
            part_of,
            tuple(self._grown),
            tuple(self._troubles),
        )
        self._grown, self._troubles = [], []
        return batch


def _merged(parts: Sequence[TableChanges]) -> TableChanges:
    """Changes of one table in one, also where columns were added in between."""
    if len(parts) == 1:
        return parts[0]
    rows = pa.concat_tables([pa.Table.from_batches([part.rows]) for part in parts], promote_options="default")
    unsent = {name for part in parts for name in part.unsent}
    moved = any(part.moved is not None for part in parts)
    return TableChanges(
        parts[0].table,
        rows.combine_chunks().to_batches()[0],
        np.concatenate([part.ops for part in parts]),
        np.concatenate([part.transactions for part in parts]),
        _joined_keys(parts) if moved else None,
        np.concatenate([np.zeros(len(part), np.bool_) if part.moved is None else part.moved for part in parts])
        if moved
        else None,
        {
            name: np.concatenate([part.unsent.get(name, np.zeros(len(part), np.bool_)) for part in parts])
            for name in unsent
        },
    )


def _joined_keys(parts: Sequence[TableChanges]) -> pa.RecordBatch:
    schema = next(part.old_keys.schema for part in parts if part.old_keys is not None)
    tables = [
        pa.Table.from_batches([part.old_keys])
        if part.old_keys is not None
        else pa.table({field.name: pa.nulls(len(part), field.type) for field in schema})
        for part in parts
    ]
    return pa.concat_tables(tables).combine_chunks().to_batches()[0]
