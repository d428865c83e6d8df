"""What a database gives to a capture: its tables, their changes by transaction, and their rows in chunks. All columnar.

How a source is written: a class with the methods of `CaptureSource`, in a folder of its own (`capture/postgres` and
`capture/mariadb` are examples), and its line in `capture/sources.py`. Everything else is here, once for every source:
topics, exactly once, transactions, snapshots, what is done about old values. What a source must get right:

1. `read` gives transactions in commit order, each with a *sequence* that rises from commit to commit and is the same
   whenever the transaction is read again. A batch ends at a commit; only a transaction that is too large comes in
   parts, each a batch of its own, cut at the same places whenever it is read again.
2. After `start`, `read` begins with the first transaction that was not confirmed. Repeats are no harm.
3. A chunk is read from one consistent view of the database, and says which transactions that view sees.
4. A table that cannot be captured (any more) is a `TableTrouble` in what `describe` or `read` gives, and does not stop
   the others; whatever stops the whole source is raised as an error of `riverrun.errors`: `Transient` where trying again
   may help.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa

INSERT, UPDATE, DELETE, TRUNCATE = range(4)
"""What happened to a row; a TRUNCATE happened to all of them, and its row is empty."""


@dataclass(frozen=True)
class CapturedColumn:
    """A column of a table: what the source calls it, what the topic does, and its type as DDL."""

    source: str
    name: str
    type: str


@dataclass(frozen=True)
class CapturedTable:
    """A table of the source. `key` has names of the topic's columns; `parts` is its name: schema and table."""

    parts: tuple[str, ...]
    columns: tuple[CapturedColumn, ...]
    key: tuple[str, ...]
    estimate: int | None = None  # about how many rows it has

    @property
    def id(self) -> str:
        return ".".join(self.parts)


@dataclass(frozen=True)
class TableTrouble:
    """Why a table is not captured, and what to do about it."""

    table: str
    reason: str
    hint: str | None = None

    def __str__(self) -> str:
        return f"{self.reason}. {self.hint}" if self.hint else self.reason


@dataclass(frozen=True)
class Transactions:
    """The transactions of a batch, in commit order."""

    ids: Sequence[str]
    positions: Sequence[str]  # as people of that database write them
    sequences: np.ndarray  # int64, rising
    times: np.ndarray  # of the commits, int64 microseconds

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True)
class TableChanges:
    """Changes of one table, in order; every field has one entry for each."""

    table: str
    rows: pa.RecordBatch  # the topic's columns; of a DELETE at least the key, of a TRUNCATE nothing
    ops: np.ndarray  # uint8
    transactions: np.ndarray  # int64, the place among the batch's transactions
    old_keys: pa.RecordBatch | None = None  # the key's columns, where `moved`
    moved: np.ndarray | None = None  # bool: the key was another one before
    unsent: Mapping[str, np.ndarray] = field(default_factory=dict)  # column → bool: the value is as it was before

    def __len__(self) -> int:
        return len(self.ops)

    def take(self, chosen: np.ndarray) -> TableChanges:
        """Some of the changes, by a mask or by their places."""
        places = np.flatnonzero(chosen) if chosen.dtype == np.bool_ else chosen
        indices = pa.array(places)
        return TableChanges(
            self.table,
            self.rows.take(indices),
            self.ops[places],
            self.transactions[places],
            None if self.old_keys is None else self.old_keys.take(indices),
            None if self.moved is None else self.moved[places],
            {name: mask[places] for name, mask in self.unsent.items()},
        )


@dataclass(frozen=True)
class ChangeBatch:
    """Whole transactions, or a part of one that is too large. `sequence` is that of its end."""

    transactions: Transactions
    changes: Sequence[TableChanges]
    sequence: int
    confirm: int  # what may be confirmed to the source once this is durable
    part_of: int | None = None  # of a part: the sequence of the commit that comes at its end
    tables: Sequence[CapturedTable] = ()  # those that look different from here on: columns were added or dropped
    troubles: Sequence[TableTrouble] = ()  # tables that cannot go on, from the first change of theirs that is not here

    @property
    def is_part(self) -> bool:
        return self.part_of is not None

    @property
    def rows(self) -> int:
        return sum(len(changes) for changes in self.changes)


@dataclass(frozen=True)
class TableChunk:
    """Some rows of a table in the order of its key, as one consistent view of the database has them."""

    rows: pa.RecordBatch  # the topic's columns
    last: Sequence[str] | None  # where the next chunk begins; None: the table has no more rows
    sees: Callable[[Sequence[str]], np.ndarray]  # ids of transactions → whether the view has what they did
    sequence: int  # it sees no transaction with a larger one
    position: str
    at: int  # microseconds


@dataclass(frozen=True)
class SourceHealth:
    """How the source is, as a look at it says."""

    position: int  # where its log ends
    held_bytes: int | None = None  # what it keeps on its disk for this capture
    troubles: Sequence[TableTrouble] = ()


@dataclass(frozen=True)
class LogEnd:
    """Where a source's log ends, as a look at it says."""

    position: int
    behind_bytes: int  # about how much of it comes after the position that was asked with


class LogGauge(Protocol):
    """Looks at a source while its changes are read: over a connection of its own, by one thread at a time."""

    def measure(self, position: int) -> LogEnd:
        """Where the log ends, and how much of it comes after `position`, up to which everything is captured."""

    def close(self) -> None:
        """Let go of the connection."""


class CaptureSource(Protocol):
    """A source. Used by one thread, its gauge by another. Errors name what happened and what to do; passwords are in none
    of them."""

    kind: str  # "postgresql", as in addresses

    @property
    def address(self) -> str:
        """The source without a password, for people."""

    def identity(self) -> dict[str, Any]:
        """What must be the same whenever the capture goes on: of another database, positions mean nothing."""

    def describe(self, tables: Sequence[str]) -> tuple[list[CapturedTable], list[TableTrouble]]:
        """The tables that can be captured, and why others cannot."""

    def prepare(self, known: Sequence[str], confirmed: int | None) -> tuple[int, list[TableTrouble]]:
        """Make sure that nothing from `confirmed` on is lost, and give where reading begins. None: from now on, whatever
        there was before. Tables that are not `known` from before are added to what the source sends.

        Raises Conflict where what comes after `confirmed` is gone: only a new snapshot helps. Called after `describe`.
        """

    def has_slot(self) -> bool:
        """Whether the source keeps its log for a capture of this name already."""

    def forget(self) -> None:
        """Let the source forget this capture, which begins anew."""

    def start(
        self, tables: Sequence[CapturedTable], part_rows: Callable[[int], int], stopping: Callable[[], bool]
    ) -> None:
        """Begin to read, behind what was confirmed. `part_rows` says how many changes of a large transaction (given by
        the sequence of its commit) make a part; where it has to be waited, `stopping` ends the wait."""

    def read(self, timeout: float) -> ChangeBatch | None:
        """The next transactions, waited for a little; None: there are none now."""

    def confirm(self, position: int) -> None:
        """Everything before is durable here; the source may forget it. Also sent when nothing has changed."""

    @property
    def reached(self) -> int:
        """Up to where the source's log was read; everything before it that concerns us was given by `read`."""

    @property
    def sent(self) -> int:
        """What the source may take for confirmed at most: a client may answer for us that all is well."""

    def chunk(self, table: CapturedTable, after: Sequence[str] | None, limit: int) -> TableChunk | None:
        """Rows of a table behind a key, in its order. None: it cannot be read any more, and `read` is about to say why."""

    def health(self, tables: Sequence[CapturedTable]) -> SourceHealth:
        """A look at the source beside the stream: is everything there that the stream depends on?"""

    def gauge(self) -> LogGauge:
        """A new one; who asks for it closes it. Called after `prepare`."""

    def show(self, position: int) -> str:
        """A position as people of that database write it."""

    def close(self) -> None:
        """Let go of connections; a second close does nothing."""


@runtime_checkable
class BookmarkedSource(Protocol):
    """A source whose positions are numbers that do not say where to go on: bookmarks are kept beside them."""

    def bookmark(self, position: int) -> str | None:
        """What belongs to a position up to which everything was read."""

    def recall(self, bookmark: str) -> None:
        """What was kept with the position that `prepare` is called with next."""


@runtime_checkable
class RememberingSource(Protocol):
    """A source that knows how a table was, and what it wrote, when the table itself is gone."""

    def remembered(self, troubles: Sequence[TableTrouble], known: Sequence[str]) -> dict[str, CapturedTable]:
        """Those of the `known` tables that are in trouble, as they were, by what the trouble calls them. Given to `start`,
        they end as they do while they are read: with all that they wrote, and then their trouble."""
