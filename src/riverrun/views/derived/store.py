"""The contract of a derived store.

What every derived store promises:

1. An epoch takes effect with its marker: number, fence, input and generation, in one atomic step of the store.
   (Redis writes large epochs in pieces; each is such a step, and readers may see an epoch piece by piece.)
2. The epoch that was written last changes nothing when it comes again; with other input it is refused.
3. An older fence is refused, whatever it brings. A gap is refused: the store is behind (`Behind`).
4. A rebuild is written where nobody sees it, and takes the place of the running rows by `switch`, which may be repeated and
   goes on after a crash.
5. Nothing is acknowledged that a crash of this process could undo.
6. After a `Transient` error the same call may be made again. Errors name the store, and never a password.
7. Several flows may share a store, and several threads one object. Reading waits for no writer.
8. Only `raise_fence` and `begin` make a store. One that is not there later is away, not empty: `Transient`, and nothing is
   put in its place.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from riverrun.errors import Transient, not_installed
from riverrun.store_address import StoreAddress
from riverrun.views.derived.marker import DerivedEpoch, Marker
from riverrun.views.epoch import Positions
from riverrun.views.spec import ViewSpec

if TYPE_CHECKING:
    import pyarrow as pa

    from riverrun.views.store import Store


class DerivedStore(ABC):
    """Rows of views of some flows, and a marker for each flow. The home store knows what the views are."""

    def __init__(self, address: StoreAddress) -> None:
        self.address = address

    @property
    def place(self) -> str:
        """How errors name the store."""
        return self.address.place

    @abstractmethod
    def ping(self) -> None:
        """`Transient` or `Unavailable` where the store does not answer. Makes nothing."""

    @abstractmethod
    def last(self, flow: str) -> Marker | None:
        """What the flow's newest epoch left here; None where it has never written."""

    @abstractmethod
    def raise_fence(self, flow: str, fence: int) -> None:
        """No older run of the flow can write from now on. `Fenced` when this store has seen a newer one."""

    @abstractmethod
    def declare(self, spec: ViewSpec) -> None:
        """Make what the first rows of a view need; `Invalid` for a view that the store cannot hold."""

    @abstractmethod
    def commit(self, epoch: DerivedEpoch) -> bool:
        """Apply an epoch; False when it is there already. With a token, to the rows of that rebuild, whose epochs count
        from 1."""

    @abstractmethod
    def begin(self, flow: str, token: str, specs: Sequence[ViewSpec]) -> None:
        """Room for a rebuild of these views; what is left of earlier rebuilds of the flow is removed."""

    @abstractmethod
    def switch(
        self, flow: str, token: str, fence: int, sequence: int, positions: Positions, specs: Sequence[ViewSpec]
    ) -> None:
        """Put the rebuilt rows in place of the running ones, whatever those are; the flow goes on after `sequence`. Done
        already: nothing."""

    @abstractmethod
    def abandon(self, flow: str, token: str) -> None:
        """Remove the rows of a rebuild, unless it was switched to."""

    @abstractmethod
    def drop(self, spec: ViewSpec) -> None:
        """Remove the rows of a view."""

    @abstractmethod
    def count(self, spec: ViewSpec) -> int:
        """How many rows the view has."""

    @abstractmethod
    def scan(self, spec: ViewSpec) -> pa.Table:
        """All rows, every column, in key order."""

    @abstractmethod
    def lookup(self, spec: ViewSpec, key: Sequence[pa.Array]) -> pa.Table:
        """The row with this key (one array of one value per key column), or no row; every column."""

    def search(
        self, spec: ViewSpec, query: str, limit: int, highlight: bool
    ) -> tuple[pa.Table, list[dict[str, str]]] | None:
        """The rows that meet a search, best first, every column; with `highlight` also the parts of each that met it.
        None where the store cannot search."""
        return None

    def query(
        self, spec: ViewSpec, sql: str, parameters: Sequence[Any] | Mapping[str, Any], timeout: float | None
    ) -> list[dict[str, Any]] | None:
        """One read-only SQL query over the view by its name; None where the store cannot."""
        return None

    def whole_store(self) -> Store | None:
        """The store of views that this one is, where it can answer everything itself."""
        return None

    @abstractmethod
    def close(self) -> None:
        """Close what was opened."""


def not_there(place: str) -> Transient:
    """The error for a store that was there before. Its files may be on a disk that comes back."""
    return Transient(
        f"{place} is not there",
        hint="Put it back: runs wait for it. If it is lost, run the flow again: its views are computed from the log then",
    )


def open_derived(address: StoreAddress, river: str) -> DerivedStore:
    """The store at an address; `river` is the directory for those that are in the river. Nothing is made before something
    is written."""
    try:
        match address.kind:
            case "redis":
                from riverrun.views.derived.redis.store import RedisStore

                return RedisStore(address)
            case "search":
                from riverrun.views.derived.search.store import SearchStore

                return SearchStore(address, address.path or f"{river}/search")
            case "delta":
                from riverrun.views.derived.delta.store import DeltaStore

                return DeltaStore(address)
            case _:
                from riverrun.views.sql.derived import DerivedSqlStore

                return DerivedSqlStore(address)
    except ImportError as error:
        extra = "postgres" if address.kind == "postgresql" else address.kind
        raise not_installed(f"a view in {address.place}", error, extra) from None
