"""The home store, and the stores that some of its views are in: one store for whoever reads and writes views.

An epoch goes to the other stores first, each of which takes it whole and once, and to the home store last: that decides. So
whoever finds a position in the home store finds its rows in the others. A fence goes to all of them, and so does a rebuild.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from riverrun.errors import Conflict, RiverrunError, Transient, Unavailable
from riverrun.failpoints import failpoint
from riverrun.position import Position
from riverrun.store_address import StoreAddress
from riverrun.views.changelog import Change, Cursor
from riverrun.views.derived.marker import DerivedEpoch, misfit
from riverrun.views.derived.reading import DerivedView
from riverrun.views.derived.store import DerivedStore, open_derived
from riverrun.views.epoch import Epoch, Incumbent, Last, StoreIdentity, ViewProgress
from riverrun.views.selection import Selection
from riverrun.views.spec import ViewSpec
from riverrun.views.store import Store

log = logging.getLogger("riverrun.views")


class RoutedStore(Store):
    """A home store whose views may be in other stores; closes all of them. `river` is the directory of the river."""

    def __init__(self, home: Store, river: str, home_address: str) -> None:
        super().__init__()
        self.home = home
        self._river = river
        self._home_address = home_address
        self._lock = threading.Lock()
        self._addresses: dict[str, StoreAddress] = {}
        self._opened: dict[str, DerivedStore] = {}
        self._views: dict[tuple[str, int | None], dict[str, ViewSpec]] = {}  # of the flows that are written here

    def introduce(self, addresses: Iterable[StoreAddress]) -> None:
        with self._lock:
            for address in addresses:
                self._addresses[address.public] = address

    def derived(self, to: str) -> DerivedStore:
        """The store at an address; one object for each."""
        with self._lock:
            opened = self._opened.get(to)
            if opened is None:
                address = self._addresses.get(to) or StoreAddress.parse(to)
                if address.kind == "sqlite" and os.path.realpath(address.path) == os.path.realpath(self._home_address):
                    raise Conflict(f"{address.place} is the home store itself", hint="Leave to= out")
                opened = self._opened[to] = open_derived(address, self._river)
            return opened

    def derived_stores(self) -> list[DerivedStore]:
        """The other stores that some view is in."""
        return [self.derived(to) for to in sorted({spec.to for spec in self.home.views() if spec.to is not None})]

    def identity(self, *, number: bool = False) -> StoreIdentity:
        return self.home.identity(number=number)

    def take_fence(self, flow: str, run: str | None = None) -> int:
        stores = []
        highest = 0
        for to, its in by_store(self._written_by(flow)).items():
            try:
                store = self._declared(to, its)
                marker = store.last(flow)
            except (Transient, Unavailable) as error:
                if to in self._addresses:
                    raise
                log.warning("flow %s has no view any more in a store that does not answer: %s", flow, error)
                continue
            stores.append(store)
            highest = max(highest, marker.fence if marker else 0)
        if highest > self.home.last(flow).fence:  # the home store was lost, or restored from a copy
            self.home.raise_fence(flow, highest)
        fence = self.home.take_fence(flow, run)
        for store in stores:
            store.raise_fence(flow, fence)
        return fence

    def raise_fence(self, flow: str, fence: int, run: str | None = None) -> None:
        self.home.raise_fence(flow, fence, run)

    def check_fence(self, flow: str, fence: int) -> None:
        self.home.check_fence(flow, fence)

    def hear(self, flow: str, fence: int, process: str) -> None:
        self.home.hear(flow, fence, process)

    def resign(self, flow: str, fence: int) -> None:
        self.home.resign(flow, fence)

    def incumbent(self, flow: str) -> Incumbent | None:
        return self.home.incumbent(flow)

    def declare(self, spec: ViewSpec) -> None:
        if spec.to is not None:
            self.derived(spec.to).declare(spec)
        self.home.declare(spec)
        self._views.pop((spec.flow, None), None)

    def keep_only(self, flow: str, fence: int, views: Collection[str]) -> None:
        self.home.keep_only(flow, fence, views)
        last = self.home.last(flow)
        specs = [spec for spec in self._specs(flow, None).values() if spec.name in views]
        for to, its in by_store(specs).items():
            store = self.derived(to)
            if not last.epoch and last.manifest is None:
                _empty(store, flow, fence, its)
            store.raise_fence(flow, fence)

    def drop(self, view: str) -> None:
        spec = self.home.spec(view)
        self.home.drop(view)
        self._views.pop((spec.flow, None), None)
        if spec.to is not None:
            self.derived(spec.to).drop(spec)

    def commit(self, epoch: Epoch) -> bool:
        specs = self._specs(epoch.flow, epoch.rebuild)
        for to, its in by_store([specs[name] for name in epoch.changes if name in specs]).items():
            names = {spec.name: spec for spec in its}
            self.derived(to).commit(
                DerivedEpoch(
                    flow=epoch.flow,
                    fence=epoch.fence,
                    generation=epoch.generation if epoch.rebuild is None else _token(epoch.flow, epoch.rebuild),
                    sequence=epoch.epoch + (epoch.base if epoch.rebuild is None else 0),
                    positions=epoch.positions,
                    specs=names,
                    changes={name: epoch.changes[name] for name in names},
                    whole=epoch.whole & names.keys(),
                    token=None if epoch.rebuild is None else _token(epoch.flow, epoch.rebuild),
                )
            )
            failpoint("derived.committed")
        here = {name: rows for name, rows in epoch.changes.items() if name not in specs or specs[name].to is None}
        return self.home.commit(epoch if len(here) == len(epoch.changes) else replace(epoch, changes=here))

    def last(self, flow: str, rebuild: int | None = None) -> Last:
        return self.home.last(flow, rebuild)

    def misfit(self, flow: str, sequence: int, generation: str) -> str | None:
        last = self.home.last(flow)
        specs = [spec for spec in self._specs(flow, None).values() if self.home.progress(spec.name).kept_up]
        for to in by_store(specs):
            if to not in self._addresses:  # the flow has no view there any more
                continue
            store = self.derived(to)
            why = misfit(store.last(flow), sequence, generation, last.positions)
            if why is not None:
                return f"{store.place} {why}"
        return None

    def begin_rebuild(self, flow: str, specs: Sequence[ViewSpec]) -> int:
        rebuild = self.home.begin_rebuild(flow, specs)
        try:
            for to, its in by_store(specs).items():
                self._declared(to, its).begin(flow, _token(flow, rebuild), its)
                failpoint("derived.begun")
        except RiverrunError:
            self.home.abandon(rebuild)
            raise
        self._views[flow, rebuild] = {spec.name: spec for spec in specs}
        return rebuild

    def rebuilds(self, flow: str) -> list[int]:
        return self.home.rebuilds(flow)

    def staged(self, rebuild: int) -> list[ViewSpec]:
        return self.home.staged(rebuild)

    def switch(
        self, rebuild: int, fence: int, epoch: int | None = None, manifest: bytes | None = None, base: int = 0
    ) -> None:
        specs = self.home.staged(rebuild)
        before = {spec.name: spec for spec in self.home.views()}
        for to, its in by_store(specs).items():
            flow = its[0].flow
            built = self.home.last(flow, rebuild)
            sequence = base + (built.epoch if epoch is None else epoch)
            self.derived(to).switch(flow, _token(flow, rebuild), fence, sequence, built.positions, its)
            failpoint("derived.switched")
        self.home.switch(rebuild, fence, epoch, manifest)
        for spec in specs:
            self._views.pop((spec.flow, None), None)
            self._views.pop((spec.flow, rebuild), None)
            moved = before.get(spec.name)
            if moved is not None and moved.to not in (None, spec.to):
                self._leave(moved)

    def abandon(self, rebuild: int) -> None:
        for to, its in by_store(self.home.staged(rebuild)).items():
            try:
                self.derived(to).abandon(its[0].flow, _token(its[0].flow, rebuild))
            except RiverrunError as error:  # the next rebuild does it
                log.warning("rows of a rebuild stay in %s for now: %s", self.derived(to).place, error)
        self.home.abandon(rebuild)

    def _leave(self, spec: ViewSpec) -> None:
        """Remove the rows of a view that has gone to another store."""
        assert spec.to is not None
        try:
            self.derived(spec.to).drop(spec)
        except RiverrunError as error:
            log.warning("rows of view %s, which is in another store now, stay in %s: %s", spec.name, spec.to, error)

    def _written_by(self, flow: str) -> list[ViewSpec]:
        """The views of a flow, and those that are being built."""
        specs = {spec.name: spec for spec in self.home.views() if spec.flow == flow}
        building = [spec for rebuild in self.home.rebuilds(flow) for spec in self.home.staged(rebuild)]
        return [*specs.values(), *(spec for spec in building if spec not in specs.values())]

    def _declared(self, to: str, specs: Iterable[ViewSpec]) -> DerivedStore:
        store = self.derived(to)
        for spec in specs:
            store.declare(spec)
        return store

    def _specs(self, flow: str, rebuild: int | None) -> Mapping[str, ViewSpec]:
        """The views of a flow, or of a rebuild. Nobody else changes them while a run of the flow writes."""
        found = self._views.get((flow, rebuild))
        if found is None:
            specs = self.home.staged(rebuild) if rebuild is not None else self.home.views()
            found = self._views[flow, rebuild] = {spec.name: spec for spec in specs if spec.flow == flow}
        return found

    def _asked(self, view: str) -> Store | DerivedView:
        """Who can be asked for a view's rows."""
        spec = self.home.spec(view)
        if spec.to is None:
            return self.home
        store = self.derived(spec.to)
        return store.whole_store() or DerivedView(self.home, spec, store)

    def flows(self) -> list[str]:
        return self.home.flows()

    def views(self) -> list[ViewSpec]:
        return self.home.views()

    def spec(self, view: str) -> ViewSpec:
        return self.home.spec(view)

    def progress(self, view: str) -> ViewProgress:
        found = self.home.progress(view)
        to = self.home.spec(view).to
        whole = None if to is None or not found.kept_up else self.derived(to).whole_store()
        return found if whole is None else whole.progress(view)  # cursors are those of the store that has the changes

    def count(self, view: str) -> int:
        return self._asked(view).count(view)

    def fetch(
        self, view: str, where: str | None = None, limit: int | None = None, timeout: float | None = None
    ) -> pa.Table:
        return self._asked(view).fetch(view, where, limit, timeout)

    def select(self, view: str, selection: Selection) -> pa.Table:
        return self._asked(view).select(view, selection)

    def page(self, view: str, selection: Selection, size: int, timeout: float | None = None) -> tuple[pa.Table, bool]:
        return self._asked(view).page(view, selection, size, timeout)

    def matching(self, spec: ViewSpec, rows: pa.Table, where: str) -> pa.Table:
        return self.home.matching(spec, rows, where)

    def lookup(self, view: str, key: Sequence[pa.Array]) -> pa.Table:
        return self._asked(view).lookup(view, key)

    def query(
        self,
        sql: str,
        parameters: Sequence[Any] | Mapping[str, Any] = (),
        timeout: float | None = None,
        view: str | None = None,
    ) -> list[dict[str, Any]]:
        asked = self.home if view is None else self._asked(view)
        return asked.query(sql, parameters, timeout, view)

    def search(
        self, view: str, query: str, limit: int, where: str | None = None, highlight: bool = False
    ) -> tuple[pa.Table, list[dict[str, str]]]:
        return self._asked(view).search(view, query, limit, where, highlight)

    def admit_strangers(self) -> None:
        self.home.admit_strangers()

    def concerns(self) -> list[tuple[str, str]]:
        return self.home.concerns()

    def changes(self, view: str, after: Cursor | None) -> Iterator[Change]:
        return self._asked(view).changes(view, after)

    def changed(self, flow: str, after: int | None) -> tuple[int, dict[str, int]]:
        return self.home.changed(flow, after)

    def version(self, view: str, at: Position | int) -> tuple[ViewProgress, pa.Table]:
        return self._asked(view).version(view, at)

    def pause(self, seconds: float) -> None:
        self.home.pause(seconds)

    def announce(self) -> None:
        self.home.announce()

    def close(self) -> None:
        with self._lock:
            opened, self._opened = list(self._opened.values()), {}
        for store in opened:
            store.close()
        self.home.close()


def by_store(specs: Iterable[ViewSpec]) -> dict[str, list[ViewSpec]]:
    """Views in other stores, by address."""
    found: dict[str, list[ViewSpec]] = {}
    for spec in specs:
        if spec.to is not None:
            found.setdefault(spec.to, []).append(spec)
    return found


def _token(flow: str, rebuild: int) -> str:
    """What a rebuild is called in other stores, and later its generation: as the directory of the flow is."""
    return f"{flow}~{rebuild}"


def _empty(store: DerivedStore, flow: str, fence: int, specs: Sequence[ViewSpec]) -> None:
    """A flow that has no epoch yet begins with nothing, whatever an earlier life of it has left in a store."""
    marker = store.last(flow)
    if marker is None or not marker.sequence:
        return
    log.warning("%s has rows of flow %s from before its views were removed: they are replaced", store.place, flow)
    token = f"{flow}~0"
    store.begin(flow, token, specs)
    store.switch(flow, token, fence, 0, {}, specs)
