"""Views as full-text indexes in a directory: strings are searched, all else filters.

Guarantee: an epoch of a flow is one commit of its index, with the marker in it. Readers see whole epochs. A rebuild is an
index in a directory of its own; a file says which one counts, and is replaced in one step.

    PATH/shop/current       the name of the directory that counts
    PATH/shop/first/        an index, of the first computation
    PATH/shop/shop~17/      another one, of a rebuild
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from riverrun import durable
from riverrun.errors import NotFound, from_system
from riverrun.failpoints import failpoint
from riverrun.search.parsing import parse_query
from riverrun.store_address import StoreAddress
from riverrun.views.columns import rows_of
from riverrun.views.derived.key_text import key_text
from riverrun.views.derived.marker import DerivedEpoch, Marker, digest
from riverrun.views.derived.reading import in_key_order
from riverrun.views.derived.search.documents import ANALYZER, KEY, ROW
from riverrun.views.derived.search.highlighting import Highlighter
from riverrun.views.derived.search.index import Batch, WordIndex
from riverrun.views.derived.search.queries import has_near, of_view, tantivy_query
from riverrun.views.derived.search.verification import meeting
from riverrun.views.derived.store import DerivedStore, not_there
from riverrun.views.epoch import Positions, this_run
from riverrun.views.layout import DELETE, INSERT, NEW, OP
from riverrun.views.settled import settled_parts
from riverrun.views.spec import ViewSpec

_FIRST = "first"
_ROWS = 10_000  # made into documents at once


class SearchStore(DerivedStore):
    """A directory of indexes, one for each flow."""

    def __init__(self, address: StoreAddress, path: str) -> None:
        super().__init__(address)
        self._path = path
        self._lock = threading.RLock()
        self._opened: dict[str, WordIndex] = {}
        self._declared: dict[str, dict[str, ViewSpec]] = {}

    def ping(self) -> None:
        if os.path.exists(self._path) and not os.access(self._path, os.R_OK | os.W_OK | os.X_OK):
            raise from_system(PermissionError(13, "Permission denied"), f"{self.place} cannot be used")

    def last(self, flow: str) -> Marker | None:
        index = self._current(flow)
        return None if index is None else index.marker()

    def raise_fence(self, flow: str, fence: int) -> None:
        self._need(flow).write(lambda there: _unless_same(there, there.fenced(flow, fence)), lambda: ())

    def declare(self, spec: ViewSpec) -> None:
        self._declared.setdefault(spec.flow, {})[spec.name] = spec

    def commit(self, epoch: DerivedEpoch) -> bool:
        index = self._there(epoch.flow) if epoch.token is None else self._staged(epoch.flow, epoch.token)
        return index.write(lambda there: epoch.after(there, self.place), lambda: _batches(index, epoch))

    def begin(self, flow: str, token: str, specs: Sequence[ViewSpec]) -> None:
        with self._lock:
            self._sweep(flow)
            directory = self._directory(flow, token)
            self._opened[directory] = WordIndex.make(directory, specs, Marker(generation=token))

    def switch(
        self, flow: str, token: str, fence: int, sequence: int, positions: Positions, specs: Sequence[ViewSpec]
    ) -> None:
        live = self._current(flow)
        before = live.marker() if live is not None else Marker()
        before.refuse_older(flow, fence)
        if before.generation == token and live is not None and live.directory == self._directory(flow, token):
            self._sweep(flow)
            return
        done = Marker(
            fence,
            before.run if fence == before.fence else this_run(),
            token,
            sequence,
            digest(positions),
        )
        self._staged(flow, token).write(lambda _: done, lambda: ())
        failpoint("search.staged")
        if live is not None:  # a zombie that has it open learns of the fence
            live.write(lambda there: _unless_same(there, there.fenced(flow, fence)), lambda: ())
        self._point(flow, token)
        failpoint("search.switched")
        self._sweep(flow)

    def abandon(self, flow: str, token: str) -> None:
        if self._name(flow) != token:
            self._remove(self._directory(flow, token))

    def drop(self, spec: ViewSpec) -> None:
        index = self._current(spec.flow)
        if index is not None and spec.name in index.names:
            index.remove_view(index.names.index(spec.name))

    def count(self, spec: ViewSpec) -> int:
        index = self._current(spec.flow)
        if index is None:
            return 0
        view, searcher = index.view(spec), index.searcher()
        with index.noticing():
            found: int = searcher.search(of_view(view, index.schema), limit=1).count
        return found

    def scan(self, spec: ViewSpec) -> pa.Table:
        index = self._current(spec.flow)
        if index is None:
            return spec.arrow.empty_table()
        return in_key_order(spec, self._rows(index, spec, of_view(index.view(spec), index.schema), None))

    def lookup(self, spec: ViewSpec, key: Sequence[pa.Array]) -> pa.Table:
        import tantivy

        index = self._current(spec.flow)
        if index is None:
            return spec.arrow.empty_table()
        term = index.view(spec).key(key_text(spec, key))
        return self._rows(index, spec, tantivy.Query.term_query(index.schema, KEY, term), 1)

    def search(self, spec: ViewSpec, query: str, limit: int, highlight: bool) -> tuple[pa.Table, list[dict[str, str]]]:
        index = self._current(spec.flow)
        fields = None if index is None else index.view(spec).fields
        if index is None or fields is None or not limit:
            return spec.arrow.empty_table(), []
        tree = parse_query(query, fields, ANALYZER)
        wanted = tantivy_query(tree, index.view(spec), index.schema)
        if has_near(tree):
            rows = meeting(tree, fields, self._rows(index, spec, wanted, None)).slice(0, limit)
        else:
            rows = self._rows(index, spec, wanted, limit)
        marks = Highlighter(tree, fields.text, ANALYZER)
        return rows, [marks.mark(row) for row in rows_of(rows)] if highlight else []

    def close(self) -> None:
        with self._lock:
            self._opened.clear()

    def _rows(self, index: WordIndex, spec: ViewSpec, query: object, limit: int | None) -> pa.Table:
        searcher = index.searcher()
        with index.noticing():
            most = limit or max(searcher.search(query, limit=1).count, 1)
            stored = [searcher.doc(address).get_first(ROW) for _, address in searcher.search(query, limit=most).hits]
        return index.view(spec).rows(stored)

    def _directory(self, flow: str, name: str) -> str:
        return f"{self._path}/{flow}/{name}"

    def _name(self, flow: str) -> str | None:
        """The directory that counts, None before the first."""
        try:
            with open(f"{self._path}/{flow}/current", encoding="utf-8") as file:
                return file.read()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise from_system(error, f"{self.place} cannot be read") from error

    def _current(self, flow: str) -> WordIndex | None:
        name = self._name(flow)
        return None if name is None else self._open(self._directory(flow, name))

    def _there(self, flow: str) -> WordIndex:
        """The index of a flow, which was made when its run began."""
        found = self._current(flow)
        if found is None:
            raise not_there(self.place)
        return found

    def _need(self, flow: str) -> WordIndex:
        """The index of a flow, made now if there is none."""
        with self._lock:
            found = self._current(flow)
            if found is None:
                specs = list(self._declared.get(flow, {}).values())
                directory = self._directory(flow, _FIRST)
                self._remove(directory)  # of somebody who was killed
                found = self._opened[directory] = WordIndex.make(directory, specs, Marker())
                self._point(flow, _FIRST)
            return found

    def _staged(self, flow: str, token: str) -> WordIndex:
        directory = self._directory(flow, token)
        if not os.path.isdir(f"{self._path}/{flow}"):
            raise not_there(self.place)
        if not os.path.exists(directory):
            raise NotFound(f"{self.place} has no rebuild {token}; it was switched or abandoned")
        return self._open(directory)

    def _open(self, directory: str) -> WordIndex:
        with self._lock:
            opened = self._opened.get(directory)
            if opened is None:
                opened = self._opened[directory] = WordIndex(directory)
            return opened

    def _point(self, flow: str, name: str) -> None:
        try:
            durable.write_file(f"{self._path}/{flow}/current", name)
        except OSError as error:
            raise from_system(error, f"{self.place} cannot be written") from error

    def _sweep(self, flow: str) -> None:
        """Remove every index of a flow but the one that counts."""
        current, above = self._name(flow), f"{self._path}/{flow}"
        for name in os.listdir(above) if os.path.isdir(above) else ():
            if name != current and os.path.isdir(f"{above}/{name}"):
                self._remove(f"{above}/{name}")

    def _remove(self, directory: str) -> None:
        with self._lock:
            self._opened.pop(directory, None)
            shutil.rmtree(directory, ignore_errors=True)


def _batches(index: WordIndex, epoch: DerivedEpoch) -> Iterator[Batch]:
    for name, changes in epoch.changes.items():
        view = index.view(epoch.specs[name])
        for part in settled_parts(view.spec, changes):
            rows = pa.Table.from_batches([part.batch])
            op = rows.column(OP)
            # Of a view that is whole, what is inserted was not there.
            old = [DELETE, NEW] if name in epoch.whole else [DELETE, NEW, INSERT]
            yield view.keys(rows.filter(pc.is_in(op, pa.array(old, pa.int8())))), ()
            there = rows.filter(pc.is_in(op, pa.array([INSERT, NEW], pa.int8())))
            for start in range(0, there.num_rows, _ROWS):
                yield (), view.documents(there.slice(start, _ROWS))


def _unless_same(there: Marker, after: Marker) -> Marker | None:
    return None if after == there else after
