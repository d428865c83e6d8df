"""The contract of a view store.

What every store promises:

1. An epoch is one transaction: the rows of all its views, its number, fence, positions, manifest and changes.
   Readers see all of it or nothing.
2. A committed epoch that comes again has no effect; with other positions it is refused.
3. An older fence is refused, whatever it brings.
4. Nothing is acknowledged that a crash of the process or of the machine could undo.
5. Several threads may use one store object, several processes one store; reading never waits for writing.
6. After a `Transient` error the same call may be made again: what was committed is recognised.
"""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from riverrun.durations import Duration
from riverrun.errors import Invalid, not_installed
from riverrun.position import Position
from riverrun.store_address import NAMES, StoreAddress
from riverrun.views.changelog import Change, Cursor
from riverrun.views.epoch import Epoch, Incumbent, Last, StoreIdentity, ViewProgress
from riverrun.views.selection import Selection
from riverrun.views.spec import ViewSpec


class Store(ABC):
    """Views, and how far each flow is."""

    def __init__(self) -> None:
        self._news = threading.Condition()

    @abstractmethod
    def identity(self, *, number: bool = False) -> StoreIdentity:
        """Which store this is: one that is made anew in the same place is another one, a copy is not. One that an older
        Riverrun made has no number before somebody asks for a `number`, which is written down."""

    @abstractmethod
    def take_fence(self, flow: str, run: str | None = None) -> int:
        """The next fence token of the flow; every older run is refused from now on. `run` is how errors name this
        run to the ones it overtook; by default host and process."""

    @abstractmethod
    def raise_fence(self, flow: str, fence: int, run: str | None = None) -> None:
        """Take over a token given by another store. `Fenced` when this store has seen a newer one."""

    @abstractmethod
    def check_fence(self, flow: str, fence: int) -> None:
        """`Fenced`, naming the newer run, when one has taken over. Cheap: one row."""

    @abstractmethod
    def hear(self, flow: str, fence: int, process: str) -> None:
        """The run of this process that holds the fence is alive: it says so every few seconds. `process` tells its machine
        which one it is. Nothing happens where a newer run has taken over."""

    @abstractmethod
    def resign(self, flow: str, fence: int) -> None:
        """The run with this fence has ended by itself, and nobody runs the flow. Nothing happens where a newer one does."""

    @abstractmethod
    def incumbent(self, flow: str) -> Incumbent | None:
        """The run that was heard last, and has not resigned. It may have died since."""

    @abstractmethod
    def declare(self, spec: ViewSpec) -> None:
        """Create the view, or check that it is what it was; `Conflict` names the difference. `history` and
        `indexes` may change."""

    @abstractmethod
    def keep_only(self, flow: str, fence: int, views: Collection[str]) -> None:
        """From now on the flow keeps up these views. Others of it can be read as they are; they stay at the position they
        have now, and say so, until they are named again. `Fenced` when a newer run has taken over."""

    @abstractmethod
    def drop(self, view: str) -> None:
        """Remove a view, its rows and its changes."""

    @abstractmethod
    def commit(self, epoch: Epoch) -> bool:
        """Apply an epoch; False when it is there already. `Fenced` when a newer run has taken over, `Conflict` when
        the epoch is not the next one, or is there with other positions. Settled changes are only written: nothing of
        them is sorted, netted or converted again."""

    @abstractmethod
    def last(self, flow: str, rebuild: int | None = None) -> Last:
        """What the flow's newest epoch left here, or that of one of its rebuilds; epoch 0 before the first."""

    @abstractmethod
    def begin_rebuild(self, flow: str, specs: Sequence[ViewSpec]) -> int:
        """Empty tables for these views beside the running ones. The token goes into `Epoch.rebuild`; the rebuild's
        epochs count from 1. Nobody sees its rows before `switch`."""

    @abstractmethod
    def rebuilds(self, flow: str) -> list[int]:
        """Tokens of rebuilds begun and neither switched nor abandoned, oldest first."""

    @abstractmethod
    def staged(self, rebuild: int) -> list[ViewSpec]:
        """The views that a rebuild builds, by name."""

    @abstractmethod
    def switch(
        self, rebuild: int, fence: int, epoch: int | None = None, manifest: bytes | None = None, base: int = 0
    ) -> None:
        """Put the rebuilt views in place of the running ones, with positions, manifest and fence, at once.

        `Conflict` unless both have read up to the same positions (of the topics both read). The flow goes on from the
        rebuild's epoch, or from `epoch`, with its manifest, or with `manifest`. Followers of `changes` get the
        difference; where the columns or the key changed, their cursors expire. `base` as in `Epoch`.
        """

    @abstractmethod
    def abandon(self, rebuild: int) -> None:
        """Remove a rebuild's tables."""

    @abstractmethod
    def flows(self) -> list[str]:
        """The flows that have written here, by name."""

    @abstractmethod
    def views(self) -> list[ViewSpec]:
        """The views there are, by name."""

    @abstractmethod
    def spec(self, view: str) -> ViewSpec:
        """A view's declaration; `NotFound` with the nearest name."""

    @abstractmethod
    def progress(self, view: str) -> ViewProgress:
        """How far the view is. Cheap: one row."""

    @abstractmethod
    def count(self, view: str) -> int:
        """How many rows the view has."""

    @abstractmethod
    def fetch(
        self, view: str, where: str | None = None, limit: int | None = None, timeout: float | None = None
    ) -> pa.Table:
        """Rows of a view, the visible columns, in key order. `where` is one SQL condition over the visible columns; one
        that takes longer than `timeout` seconds is stopped with `TimedOut`."""

    @abstractmethod
    def select(self, view: str, selection: Selection) -> pa.Table:
        """The rows a selection means, the visible columns. Its values are never read as part of a query."""

    @abstractmethod
    def page(self, view: str, selection: Selection, size: int, timeout: float | None = None) -> tuple[pa.Table, bool]:
        """The same up to about `size` bytes, at least one row, all of one state of the view; and whether there are more.
        What takes longer than `timeout` seconds is stopped with `TimedOut`."""

    @abstractmethod
    def matching(self, spec: ViewSpec, rows: pa.Table, where: str) -> pa.Table:
        """Those rows, of a version of the view, for which a condition holds that `fetch` would take."""

    @abstractmethod
    def lookup(self, view: str, key: Sequence[pa.Array]) -> pa.Table:
        """The row with this key (one array of one value per key column), or no row."""

    @abstractmethod
    def query(
        self,
        sql: str,
        parameters: Sequence[Any] | Mapping[str, Any] = (),
        timeout: float | None = None,
        view: str | None = None,
    ) -> list[dict[str, Any]]:
        """One read-only statement over all views by name, in the store's own SQL. It runs in a process of its own, with
        limits for its memory and its answer. `TimedOut` after so many seconds. `view` is the one that it was asked of:
        where that is in another store, its SQL is meant."""

    def search(
        self, view: str, query: str, limit: int, where: str | None = None, highlight: bool = False
    ) -> tuple[pa.Table, list[dict[str, str]]]:
        """The rows that meet a search and `where`, best first, the visible columns; with `highlight`, for each what met
        it, by column."""
        raise refusal(view, self.spec(view).to, "search for words")

    @abstractmethod
    def introduce(self, addresses: Iterable[StoreAddress]) -> None:
        """Addresses of other stores that views are in, with what is secret in them: it is stored nowhere."""

    def misfit(self, flow: str, sequence: int, generation: str) -> str | None:
        """Why views of a flow in other stores do not belong to what this one has of it, so that they have to be computed
        again; None where they do."""
        return None

    @abstractmethod
    def admit_strangers(self) -> None:
        """`Unavailable`, with what to do, where `query` could do more than read views: what people ask who have no login
        of their own for the store, as over HTTP, must not be run then."""

    @abstractmethod
    def concerns(self) -> list[tuple[str, str]]:
        """What an operator should know about the logins of the store, and what to do about each."""

    @abstractmethod
    def changes(self, view: str, after: Cursor | None) -> Iterator[Change]:
        """The changes kept after the cursor (None: all that are kept), and no waiting. `OutOfRange` when some of
        them are no longer kept."""

    @abstractmethod
    def changed(self, flow: str, after: int | None) -> tuple[int, dict[str, int]]:
        """The flow's newest commit, and how many rows of each of its views changed in the commits after `after`, as far
        as those are kept (None: none are counted)."""

    @abstractmethod
    def version(self, view: str, at: Position | int) -> tuple[ViewProgress, pa.Table]:
        """The view as it was after the first epoch that had read up to a position, or after the last one committed
        by a time (microseconds). `Invalid` when the view keeps no history, `OutOfRange` outside of it."""

    @abstractmethod
    def close(self) -> None:
        """Close what was opened. The store can be opened again."""

    def pause(self, seconds: float) -> None:
        """Wait for so long, or until this object commits an epoch: for those who wait for news."""
        with self._news:
            self._news.wait(seconds)

    def announce(self) -> None:
        """Wake those in `pause`."""
        with self._news:
            self._news.notify_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open_store(
    place: str | os.PathLike[str], *, create: bool = True, changes_kept: Duration = "1 hour", read: str | None = None
) -> Store:
    """The store at a place: "postgresql://…", or a file for SQLite. `create=False` refuses one that is not there. `read` is
    the address of the same PostgreSQL for a login that sees the views and nothing else, which queries then use."""
    from riverrun.views.sql.sqlstore import SqlStore

    where = os.fspath(place)
    scheme, is_url, _ = where.partition("://")
    if not is_url:
        from riverrun.views.sql.sqlite import SqliteDatabase

        return SqlStore(SqliteDatabase(where, create=create), changes_kept)
    if scheme not in ("postgresql", "postgres"):
        raise Invalid(f"there is no view store for {scheme}://", hint="Views are kept in a file or in postgresql://…")
    try:
        from riverrun.views.sql.postgres import PostgresDatabase
    except ImportError as error:
        raise not_installed("a view store in PostgreSQL", error, "postgres") from None
    return SqlStore(PostgresDatabase(where, read=read, create=create), changes_kept)


def identity_of_none(file: str) -> StoreIdentity:
    """What is known of a store in a file before it is made."""
    from riverrun.views.sql.sqlite import place_of

    return StoreIdentity(None, place_of(file))


def refusal(view: str, to: str | None, what: str, hint: str | None = None) -> Invalid:
    """The error for what the store of a view cannot do."""
    where = "in the home store" if to is None else f"in {NAMES[StoreAddress.parse(to).kind]}"
    if what == "search for words":
        hint = 'Declare it with flow.view(…, to="search:")'
    return Invalid(f"view {view!r} is {where}, which cannot {what}", hint=hint)
