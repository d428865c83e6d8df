"""Another SQL database than the home store, `postgresql://…` or `sqlite:PATH`: a store of views like the home store, whose
epochs are the home's sequences. It answers everything that the home store does.

The flow is called `FLOW.derived` there, so that a database may be the home of one flow and hold views of another.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from riverrun.errors import NotFound
from riverrun.store_address import StoreAddress
from riverrun.views.derived.marker import DerivedEpoch, Marker, digest
from riverrun.views.derived.store import DerivedStore
from riverrun.views.epoch import Epoch, Last, Positions
from riverrun.views.spec import ViewSpec
from riverrun.views.sql.sqlstore import SqlStore
from riverrun.views.store import Store, open_store


class DerivedSqlStore(DerivedStore):
    """Views of flows in an SQL database. It is opened when it is needed, and made when something is written."""

    def __init__(self, address: StoreAddress) -> None:
        super().__init__(address)
        self._lock = threading.Lock()
        self._store: SqlStore | None = None
        self._tokens: dict[str, int] = {}

    def _open(self, create: bool) -> SqlStore:
        with self._lock:
            if self._store is None:
                whole = self.address.connectable()
                where = self.address.path if self.address.kind == "sqlite" else whole
                opened = open_store(where, create=create)
                assert isinstance(opened, SqlStore)
                self._store = opened
            return self._store

    def ping(self) -> None:
        self._open(create=False).flows()

    def last(self, flow: str) -> Marker | None:
        if self.address.kind == "sqlite" and not os.path.exists(self.address.path):
            return None
        try:
            last = self._open(create=False).last(_named(flow))
        except NotFound:
            return None  # nobody has written to this database yet
        return _marker(last) if last.epoch or last.fence else None

    def raise_fence(self, flow: str, fence: int) -> None:
        self._open(create=True).raise_fence(_named(flow), fence)

    def declare(self, spec: ViewSpec) -> None:
        known = {one.name: one for one in self._open(create=True).views()}
        here = _here(spec)
        if spec.name not in known or known[spec.name].flow != here.flow:
            self._open(create=True).declare(here)  # else another rebuild replaces it, whatever it is

    def commit(self, epoch: DerivedEpoch) -> bool:
        store = self._open(create=True)
        rebuild = None if epoch.token is None else self._token(epoch.flow, epoch.token)
        last = store.last(_named(epoch.flow), rebuild)
        after = epoch.after(_marker(last), self.place)
        if after is None:
            return False
        return store.commit(
            Epoch(
                _named(epoch.flow),
                epoch.fence,
                epoch.sequence,
                epoch.positions,
                epoch.changes,
                manifest=epoch.generation.encode(),
                rebuild=rebuild,
                whole=epoch.whole,
            )
        )

    def begin(self, flow: str, token: str, specs: Sequence[ViewSpec]) -> None:
        store = self._open(create=True)
        for old in store.rebuilds(_named(flow)):
            store.abandon(old)
        self._tokens[token] = store.begin_rebuild(_named(flow), [_here(spec) for spec in specs])

    def switch(
        self, flow: str, token: str, fence: int, sequence: int, positions: Positions, specs: Sequence[ViewSpec]
    ) -> None:
        store = self._open(create=True)
        live = _marker(store.last(_named(flow)))
        live.refuse_older(flow, fence)
        if live.generation == token and token not in self._tokens:
            return
        store.supersede(self._token(flow, token), fence, sequence, positions, token.encode())
        self._tokens.pop(token, None)

    def abandon(self, flow: str, token: str) -> None:
        store = self._open(create=True)
        rebuild = self._tokens.pop(token, None)
        for old in store.rebuilds(_named(flow)):
            if rebuild in (None, old):
                store.abandon(old)

    def drop(self, spec: ViewSpec) -> None:
        try:
            self._open(create=True).drop(spec.name)
        except NotFound:
            pass

    def whole_store(self) -> Store | None:
        return self._open(create=False)

    def count(self, spec: ViewSpec) -> int:
        return self._open(create=False).count(spec.name)

    def scan(self, spec: ViewSpec) -> pa.Table:
        return self._open(create=False).fetch(spec.name)

    def lookup(self, spec: ViewSpec, key: Sequence[pa.Array]) -> pa.Table:
        return self._open(create=False).lookup(spec.name, key)

    def close(self) -> None:
        with self._lock:
            if self._store is not None:
                self._store.close()
                self._store = None

    def _token(self, flow: str, token: str) -> int:
        """The number that the database has for a rebuild; its epochs say which one it is."""
        if token not in self._tokens:
            store = self._open(create=True)
            for number in store.rebuilds(_named(flow)):
                if _marker(store.last(_named(flow), number)).generation == token:
                    self._tokens[token] = number
                    break
            else:
                raise NotFound(f"{self.place} has no rebuild {token}; it was switched or abandoned")
        return self._tokens[token]


def _named(flow: str) -> str:
    return f"{flow}.derived"


def _here(spec: ViewSpec) -> ViewSpec:
    return replace(spec, flow=_named(spec.flow), to=None, partition_by=())


def _marker(last: Last) -> Marker:
    """The generation stands where the home store has a manifest."""
    generation = (last.manifest or b"").decode()
    return Marker(last.fence, last.run, generation, last.epoch, digest(last.positions))
