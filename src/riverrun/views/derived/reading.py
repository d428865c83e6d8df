"""Reading views that are in derived stores: what every store can answer from its rows, and what it refuses by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from riverrun.errors import Invalid
from riverrun.position import Position
from riverrun.views.changelog import Change, Cursor
from riverrun.views.columns import scalar
from riverrun.views.derived.store import DerivedStore, not_there
from riverrun.views.epoch import ViewProgress
from riverrun.views.selection import COMPARISONS, Condition, Selection, check_count, comparable, value_of
from riverrun.views.spec import ViewSpec
from riverrun.views.store import Store, refusal

T = TypeVar("T")

_HIT = "_riverrun:hit"
_COMPARED = {
    "=": pc.equal,
    "<>": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


@dataclass(frozen=True)
class DerivedView:
    """A view in a derived store, read as a `Store` is. Conditions in SQL are computed by the home store."""

    home: Store
    spec: ViewSpec
    store: DerivedStore

    def count(self, view: str) -> int:
        found = self.store.count(self.spec)
        return found or self._nothing(found)

    def fetch(
        self, view: str, where: str | None = None, limit: int | None = None, timeout: float | None = None
    ) -> pa.Table:
        check_count("limit", limit)
        rows = self._shown(self._scan())
        if where is not None:
            rows = self.home.matching(self.spec, rows, where)
        return rows.slice(0, limit)

    def select(self, view: str, selection: Selection) -> pa.Table:
        return self._shown(chosen(self.spec, self._scan(), selection))

    def page(self, view: str, selection: Selection, size: int, timeout: float | None = None) -> tuple[pa.Table, bool]:
        wanted = selection.limit
        rows = self.select(view, Selection(selection.conditions, selection.order, None, selection.offset))
        part = rows.slice(0, wanted)
        if part.nbytes > size:
            part = part.slice(0, max(1, int(size * part.num_rows / part.nbytes)))
        return part, part.num_rows < rows.num_rows and bool(part.num_rows)

    def lookup(self, view: str, key: Sequence[pa.Array]) -> pa.Table:
        found = self._shown(self.store.lookup(self.spec, key))
        return found if found.num_rows else self._nothing(found)

    def query(
        self, sql: str, parameters: Sequence[Any] | Mapping[str, Any], timeout: float | None, view: str | None = None
    ) -> list[dict[str, Any]]:
        found = self._nothing(self.store.query(self.spec, sql, parameters, timeout))  # counting nothing gives a row
        if found is None:
            self._refuse("answer SQL", "Use rows(where=…), or keep the view in the home store")
        return found

    def search(
        self, view: str, query: str, limit: int, where: str | None = None, highlight: bool = False
    ) -> tuple[pa.Table, list[dict[str, str]]]:
        asked = limit if where is None else max(4 * limit, 100)
        while True:
            found = self.store.search(self.spec, query, asked, highlight)
            if found is None:
                self._refuse("search for words", None)
            rows, marks = self._shown(found[0]), found[1]
            if not rows.num_rows:
                self._nothing(rows)
            if where is None:
                return rows, marks
            numbered = rows.append_column(_HIT, pa.array(range(rows.num_rows), pa.int64()))
            hits = self.home.matching(self.spec, numbered, where)
            if hits.num_rows >= limit or rows.num_rows < asked:
                hits = hits.slice(0, limit)
                kept = [marks[at] for at in hits.column(_HIT).to_pylist()] if highlight else []
                return hits.drop_columns([_HIT]), kept
            asked *= 8

    def changes(self, view: str, after: Cursor | None) -> Iterator[Change]:
        self._refuse("tell its changes", "Keep a view of the same rows in the home store and follow that one")

    def version(self, view: str, at: Position | int) -> tuple[ViewProgress, pa.Table]:
        self._refuse("tell what it was before", "Keep a view of the same rows in the home store, with history=")

    def _scan(self) -> pa.Table:
        rows = self.store.scan(self.spec)
        return rows if rows.num_rows else self._nothing(rows)

    def _nothing(self, found: T) -> T:
        """What was found, though it is nothing: unless the flow has written, and the store knows nothing of it. Then it is
        away, not empty."""
        if self.home.progress(self.spec.name).epoch and self.store.last(self.spec.flow) is None:
            raise not_there(self.store.place)
        return found

    def _refuse(self, what: str, hint: str | None) -> NoReturn:
        raise refusal(self.spec.name, self.spec.to, what, hint)

    def _shown(self, rows: pa.Table) -> pa.Table:
        return rows.select(self.spec.visible)


def chosen(spec: ViewSpec, rows: pa.Table, selection: Selection) -> pa.Table:
    """The rows, given in key order, that a selection means."""
    for one in selection.conditions:
        rows = rows.filter(_meets(spec, rows, one))
    if selection.order:
        from riverrun.state.frames import from_arrow

        for name, _ in selection.order:
            comparable(spec, name)
        frame = from_arrow(rows.select([name for name, _ in selection.order])).with_row_index(_HIT)
        falling = [down for _, down in selection.order]
        # Null is less than any value.
        names = [name for name, _ in selection.order]
        order = frame.sort(names, descending=falling, nulls_last=falling, maintain_order=True)[_HIT]
        rows = rows.take(order.to_arrow())
    return rows.slice(selection.offset, selection.limit)


def _meets(spec: ViewSpec, rows: pa.Table, one: Condition) -> pa.ChunkedArray:
    comparable(spec, one.column)
    value_of(spec, one)  # refuses what is no value of the column
    column = rows.column(one.column)
    if one.value is None:
        return pc.is_null(column) if one.operator == "eq" else pc.is_valid(column)
    if one.operator == "has":
        return pc.match_substring(column, one.value, ignore_case=True)
    value = scalar(one.value, one.column, column.type)[0]
    try:
        met = _COMPARED[COMPARISONS[one.operator]](column, value)
    except pa.ArrowException as error:
        raise Invalid(f"view {spec.name!r}: {one.column!r} cannot be compared so: {error}") from None
    return pc.or_(met, pc.is_null(column)) if one.operator == "ne" else met


def in_key_order(spec: ViewSpec, rows: pa.Table) -> pa.Table:
    """Rows of a view, every column, sorted as the home store sorts them: nulls last."""
    if not spec.key or rows.num_rows < 2:
        return rows
    from riverrun.state.frames import from_arrow

    keys = from_arrow(rows.select(spec.key)).with_row_index(_HIT)
    return rows.take(keys.sort(spec.key, nulls_last=True, maintain_order=True)[_HIT].to_arrow())
