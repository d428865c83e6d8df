"""pgoutput's bytes → columns, against a decoder that goes byte by byte; and transactions put together from messages."""

from __future__ import annotations

import random
import struct
from typing import Any

import pytest

from riverrun.capture.changes import DELETE, INSERT, TRUNCATE, UPDATE, CapturedColumn, CapturedTable, TableTrouble
from riverrun.capture.postgres.assembly import Assembly, sequence_of
from riverrun.capture.postgres.messages import Visibility, parse_lsn, parse_relation, show_lsn, whole_xid

OID = 16384
COLUMNS = (("id", 20, -1, 1), ("note", 25, -1, 0), ("ok", 16, -1, 0))
TABLE = CapturedTable(
    ("public", "t"),
    (
        CapturedColumn("id", "id", "bigint"),
        CapturedColumn("note", "note", "string"),
        CapturedColumn("ok", "ok", "boolean"),
    ),
    ("id",),
)


def relation(columns: Any = COLUMNS, name: str = "t", identity: str = "d") -> bytes:
    body = b"R" + struct.pack(">I", OID) + b"public\0" + name.encode() + b"\0" + identity.encode()
    body += struct.pack(">H", len(columns))
    for column, kind, modifier, key in columns:
        body += bytes([key]) + column.encode() + b"\0" + struct.pack(">Ii", kind, modifier)
    return body


def cells(values: Any) -> bytes:
    """A tuple; None is null, ... was not sent."""
    body = struct.pack(">H", len(values))
    for value in values:
        if value is None:
            body += b"n"
        elif value is ...:
            body += b"u"
        else:
            text = {True: "t", False: "f"}.get(value, str(value)) if isinstance(value, bool) else str(value)
            body += b"t" + struct.pack(">I", len(text.encode())) + text.encode()
    return body


def insert(*values: Any) -> bytes:
    return b"I" + struct.pack(">I", OID) + b"N" + cells(values)


def update(*values: Any, old: Any = None, kind: bytes = b"K") -> bytes:
    before = kind + cells(old) if old is not None else b""
    return b"U" + struct.pack(">I", OID) + before + b"N" + cells(values)


def delete(*values: Any) -> bytes:
    return b"D" + struct.pack(">I", OID) + b"K" + cells(values)


def begin(position: int, xid: int = 700) -> bytes:
    return b"B" + struct.pack(">QqI", position, 1_000_000, xid)


def commit(position: int) -> bytes:
    return b"C" + struct.pack(">BQQq", 0, position, position + 8, 1_000_000)


def truncate() -> bytes:
    return b"T" + struct.pack(">IB", 1, 0) + struct.pack(">I", OID)


def assembly(part: int = 10**6, evolve: Any = lambda table, _: table) -> Assembly:
    return Assembly([TABLE], 5 << 32, evolve, lambda _: part)


def fed(made: Assembly, *messages: bytes) -> None:
    for message in messages:
        assert not made.feed(message)


def test_one_of_each():
    made = assembly()
    fed(
        made,
        begin(100),
        relation(),
        insert(1, "aä", True),
        update(1, ..., None),
        update(2, ..., None, old=(1, None, None)),
    )
    fed(made, delete(2, None, None), truncate())
    assert made.take() is None  # not committed yet
    fed(made, commit(100))
    batch = made.take()
    assert batch is not None
    (changes,) = batch.changes
    assert changes.ops.tolist() == [INSERT, UPDATE, UPDATE, DELETE, TRUNCATE]
    assert changes.rows.column("id").to_pylist() == [1, 1, 2, 2, None]
    assert changes.rows.column("note").to_pylist() == ["aä", None, None, None, None]
    assert changes.rows.column("ok").to_pylist() == [True, None, None, None, None]
    assert changes.unsent["note"].tolist() == [False, True, True, False, False]
    assert changes.moved is not None
    assert changes.moved.tolist() == [False, False, True, False, False]
    assert changes.old_keys.column("id").to_pylist()[2] == 1
    assert (batch.sequence, batch.confirm, batch.transactions.ids) == (sequence_of(100), 108, [str((5 << 32) + 700)])
    assert made.take() is None


def test_all_columns_as_identity_have_what_was_not_sent():
    made = assembly()
    old = (1, "long", True)
    fed(made, begin(8), relation(identity="f"), update(1, ..., False, old=old, kind=b"O"))
    fed(made, update(3, ..., False, old=old, kind=b"O"), commit(8))
    batch = made.take()
    assert batch is not None
    (changes,) = batch.changes
    assert changes.rows.column("note").to_pylist() == ["long", "long"]
    assert changes.unsent == {}
    assert changes.moved is not None
    assert changes.moved.tolist() == [False, True]


@pytest.mark.parametrize("seed", range(5))
def test_any_rows_are_read_as_they_were_written(seed):
    dice = random.Random(seed)
    made = assembly()
    fed(made, begin(8), relation())
    wanted = []
    for number in range(500):
        note = dice.choice([None, "", "x" * dice.randrange(300), "äöü€"])
        row = (number, note, dice.choice([None, True, False]))
        wanted.append(row)
        fed(made, insert(*row))
    fed(made, commit(8))
    batch = made.take()
    assert batch is not None
    rows = batch.changes[0].rows.to_pylist()
    assert [tuple(row.values()) for row in rows] == wanted


def test_a_large_transaction_is_cut_by_the_number_of_its_changes():
    made = assembly(part=3)
    fed(made, begin(8), relation(), insert(0, "a", None), commit(8), begin(16))
    sizes = []
    for number in range(7):
        if made.feed(insert(number, "b", None)):
            whole = made.take()
            if whole is not None:
                assert [len(c) for c in whole.changes] == [1]
            part = made.take_part()
            sizes.append((sum(map(len, part.changes)), part.sequence, part.part_of))
    fed(made, commit(16))
    last = made.take()
    assert last is not None
    assert sizes == [(3, sequence_of(16, 0), sequence_of(16)), (3, sequence_of(16, 1), sequence_of(16))]
    assert (last.rows, last.sequence, last.is_part) == (1, sequence_of(16), False)


def test_a_column_that_comes_in_the_middle_of_a_transaction():
    wider = CapturedTable(TABLE.parts, (*TABLE.columns, CapturedColumn("n", "n", "int")), TABLE.key)
    made = assembly(evolve=lambda table, found: wider if len(found.columns) == 4 else table)
    fed(
        made,
        begin(8),
        relation(),
        insert(1, "a", True),
        relation((*COLUMNS, ("n", 23, -1, 0))),
        insert(2, "b", True, 7),
    )
    fed(made, commit(8))
    batch = made.take()
    assert batch is not None
    assert batch.tables == (wider,)
    assert [row["n"] for row in batch.changes[0].rows.to_pylist()] == [None, 7]


def test_a_table_that_stops_gives_what_it_had_before():
    trouble = TableTrouble("public.t", "no")
    made = assembly(evolve=lambda table, found: trouble if len(found.columns) == 4 else table)
    fed(
        made,
        begin(8),
        relation(),
        insert(1, "a", True),
        relation((*COLUMNS, ("n", 23, -1, 0))),
        insert(2, "b", True, 7),
    )
    fed(made, commit(8), begin(16), insert(3, "c", True, 8), commit(16))
    batch = made.take()
    assert batch is not None
    assert batch.troubles == (trouble,)
    assert [row["id"] for row in batch.changes[0].rows.to_pylist()] == [1]


def test_positions_and_transactions():
    assert parse_lsn(show_lsn(0x16B374D848)) == 0x16B374D848
    assert whole_xid(3, (7 << 32) + 5) == (7 << 32) + 3
    assert whole_xid(0xFFFFFFFE, (7 << 32) + 5) == (6 << 32) + 0xFFFFFFFE
    view = Visibility.parse("755:760:755,757")
    assert [view.sees(xid) for xid in (700, 755, 756, 757, 759, 760)] == [True, False, True, False, True, False]
    assert parse_relation(relation()).columns[0].key
