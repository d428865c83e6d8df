"""A database of the tests' own that can be captured: tables in memory, a log of transactions, and views that lag the log.

A transaction is in the log before chunks see it, as in a real server: `visible` says up to where they do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from riverrun.capture.changes import (
    DELETE,
    INSERT,
    TRUNCATE,
    UPDATE,
    CapturedColumn,
    CapturedTable,
    ChangeBatch,
    LogEnd,
    SourceHealth,
    TableChanges,
    TableChunk,
    TableTrouble,
    Transactions,
)

SCHEMA = pa.schema([("id", pa.int64()), ("amount", pa.int64()), ("note", pa.string())])
COLUMNS = (
    CapturedColumn("id", "id", "bigint"),
    CapturedColumn("amount", "amount", "bigint"),
    CapturedColumn("note", "note", "string"),
)
Row = dict[str, Any]
Change = tuple[str, int, Row, int | None, bool]  # table, op, row, old key, whether the note was not sent


@dataclass
class ScriptedDatabase:
    """What outlives connections. Tables have a key `id`, an `amount`, and a `note` that is not sent when it is unchanged."""

    tables: dict[str, dict[int, Row]]
    log: list[list[Change]] = field(default_factory=list)
    states: list[dict[str, dict[int, Row]]] = field(default_factory=list)
    visible: int = 0
    confirmed: int = 0

    def __post_init__(self) -> None:
        self.states.append(self._copy())

    def _copy(self) -> dict[str, dict[int, Row]]:
        return {name: {key: dict(row) for key, row in rows.items()} for name, rows in self.tables.items()}

    def commit(self, *steps: tuple[Any, ...]) -> None:
        """A transaction of ("put", table, id, amount, note), ("delete", table, id), ("move", table, id, new), ("truncate",
        table). What has no effect is not in the log; a note of None stays as it is."""
        changes: list[Change] = []
        for kind, table, *rest in steps:
            rows = self.tables[table]
            if kind == "put":
                key, amount, note = rest
                was = rows.get(key)
                unsent = was is not None and note is None
                rows[key] = {"id": key, "amount": amount, "note": was["note"] if unsent and was else note or ""}
                changes.append((table, INSERT if was is None else UPDATE, dict(rows[key]), None, unsent))
            elif kind == "delete" and rest[0] in rows:
                rows.pop(rest[0])
                changes.append((table, DELETE, {"id": rest[0], "amount": None, "note": None}, None, False))
            elif kind == "move" and rest[0] in rows and rest[1] not in rows:
                rows[rest[1]] = {**rows.pop(rest[0]), "id": rest[1]}
                changes.append((table, UPDATE, dict(rows[rest[1]]), rest[0], True))
            elif kind == "truncate":
                rows.clear()
                changes.append((table, TRUNCATE, dict.fromkeys(SCHEMA.names), None, False))
        if changes:
            self.log.append(changes)
            self.states.append(self._copy())


class ScriptedSource:
    """A connection to it. Positions are numbers of transactions, from 1; `part` cuts transactions that are larger."""

    kind = "scripted"
    address = "scripted://"

    def __init__(self, database: ScriptedDatabase, batch: int = 3) -> None:
        self.database = database
        self._batch = batch
        self._next = 0
        self._parts: list[ChangeBatch] = []
        self.reached = 0

    @property
    def sent(self) -> int:
        return self.reached

    def identity(self) -> dict[str, Any]:
        return {"kind": self.kind}

    def describe(self, tables: Sequence[str]) -> tuple[list[CapturedTable], list[TableTrouble]]:
        found = [CapturedTable((name,), COLUMNS, ("id",)) for name in tables if name in self.database.tables]
        return found, [TableTrouble(name, f"there is no {name}") for name in tables if name not in self.database.tables]

    def has_slot(self) -> bool:
        return False

    def forget(self) -> None:
        self.database.confirmed = len(self.database.log)

    def prepare(self, known: Sequence[str], confirmed: int | None) -> tuple[int, list[TableTrouble]]:
        if confirmed is None:
            self.database.confirmed = self.database.visible = len(self.database.log)
        return self.database.confirmed, []

    def start(
        self, tables: Sequence[CapturedTable], part_rows: Callable[[int], int], stopping: Callable[[], bool]
    ) -> None:
        self._next = self.reached = self.database.confirmed
        self._part_rows = part_rows

    def read(self, timeout: float) -> ChangeBatch | None:
        if self._parts:
            part = self._parts.pop(0)
            self.reached = part.confirm
            return part
        chosen = self.database.log[self._next : self._next + self._batch]
        if not chosen:
            return None
        large = next((i for i, one in enumerate(chosen) if len(one) > self._part_rows(_sequence(self._next + i))), None)
        if large == 0:
            return self._in_parts(chosen[0])
        chosen = chosen[:large]
        first = self._next
        self._next += len(chosen)
        self.reached = self._next
        return _batch(chosen, first, _sequence(self._next - 1), self._next)

    def _in_parts(self, changes: list[Change]) -> ChangeBatch:
        number, size = self._next, self._part_rows(_sequence(self._next))
        pieces = [changes[at : at + size] for at in range(0, len(changes), size)]
        self._next += 1
        parts = []
        for part, piece in enumerate(pieces):
            is_last = part == len(pieces) - 1
            sequence = _sequence(number) if is_last else _sequence(number) - 1023 + part
            parts.append(
                _batch(
                    [piece], number, sequence, self._next if is_last else number, None if is_last else _sequence(number)
                )
            )
        self._parts = parts[1:]
        return parts[0]

    def confirm(self, position: int) -> None:
        assert position <= self.reached
        self.database.confirmed = max(self.database.confirmed, position)

    def chunk(self, table: CapturedTable, after: Sequence[str] | None, limit: int) -> TableChunk:
        seen = self.database.visible
        rows = self.database.states[seen][table.id]
        keys = sorted(key for key in rows if after is None or key > int(after[0]))[:limit]
        return TableChunk(
            pa.RecordBatch.from_pylist([rows[key] for key in keys], schema=SCHEMA),
            [str(keys[-1])] if len(keys) == limit else None,
            lambda ids: np.array([int(one) < seen for one in ids], np.bool_),
            _sequence(seen - 1),
            str(seen),
            1_700_000_000_000_000,
        )

    def gauge(self) -> ScriptedSource:
        return self

    def measure(self, position: int) -> LogEnd:
        end = len(self.database.log)
        return LogEnd(end, end - position)

    def health(self, tables: Sequence[CapturedTable]) -> SourceHealth:
        return SourceHealth(len(self.database.log))

    def show(self, position: int) -> str:
        return str(position)

    def close(self) -> None:
        return


def _sequence(number: int) -> int:
    return ((number + 1) << 10) | 1023


def _batch(
    chosen: Sequence[list[Change]], first: int, sequence: int, confirm: int, part_of: int | None = None
) -> ChangeBatch:
    numbers = range(first, first + len(chosen))
    transactions = Transactions(
        [str(number) for number in numbers],
        [str(number + 1) for number in numbers],
        np.array([sequence if len(chosen) == 1 else _sequence(number) for number in numbers], np.int64),
        np.array([1_700_000_000_000_000 + number for number in numbers], np.int64),
    )
    by_table: dict[str, list[tuple[int, Change]]] = {}
    for place, changes in enumerate(chosen):
        for change in changes:
            by_table.setdefault(change[0], []).append((place, change))
    return ChangeBatch(
        transactions, [_changes(table, found) for table, found in by_table.items()], sequence, confirm, part_of
    )


def _changes(table: str, found: Sequence[tuple[int, Change]]) -> TableChanges:
    rows = [dict(change[2]) for _, change in found]
    unsent = np.array([change[4] for _, change in found], np.bool_)
    for row, missing in zip(rows, unsent.tolist(), strict=True):
        row["note"] = None if missing else row["note"]
    moved = np.array([change[3] is not None for _, change in found], np.bool_)
    old = pa.RecordBatch.from_pylist([{"id": change[3]} for _, change in found], schema=pa.schema([SCHEMA.field(0)]))
    return TableChanges(
        table,
        pa.RecordBatch.from_pylist(rows, schema=SCHEMA),
        np.array([change[1] for _, change in found], np.uint8),
        np.array([place for place, _ in found], np.int64),
        old if moved.any() else None,
        moved if moved.any() else None,
        {"note": unsent} if unsent.any() else {},
    )


def replica(rows: Sequence[Mapping[str, Any]]) -> dict[int, Row]:
    """The table that a topic's rows leave, in log order."""
    kept: dict[int, Row] = {}
    for row in rows:
        kept.pop(row["id"], None)
        if not row["_deleted"]:
            kept[row["id"]] = {name: row[name] for name in SCHEMA.names}
    return kept
