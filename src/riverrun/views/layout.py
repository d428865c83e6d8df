"""How rows of a view lie in stores, the same in all of them: columns c0, c1, … of the four kept kinds, some of them the key.

Changes of a view lie so, too, with one more column, `OP`, which says what each row is.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import pyarrow as pa

from riverrun.columns import WEIGHT
from riverrun.errors import Corrupt
from riverrun.views.columns import Kept, conform, give_back, keep, kept_as
from riverrun.views.spec import ViewSpec

if TYPE_CHECKING:
    import polars as pl

OP = "_riverrun:op"
"""Begins with an underscore, so that no column of a topic or a flow is called so; views' columns have other names here."""

INSERT, DELETE, OLD, NEW = range(4)
"""A new row; a row that is gone; the row before an update, next to it the row after."""

_ONLY = "single"


@dataclass(frozen=True, slots=True)
class Layout:
    """Kept columns of a view. A view without key columns gets one that is always 0, so that it has one row."""

    spec: ViewSpec
    columns: tuple[str, ...]
    kinds: tuple[Kept, ...]
    key: tuple[str, ...]

    def kind(self, column: str) -> Kept:
        """What a column holds."""
        return self.kinds[self.columns.index(column)]

    @property
    def changes(self) -> pa.Schema:
        """The columns of changes of the view."""
        return pa.schema([*zip(self.columns, (_LARGE[kind] for kind in self.kinds), strict=True), (OP, pa.int8())])

    def keep(self, rows: pa.Table) -> pl.DataFrame:
        """Weighted rows of the view as they are kept."""
        from riverrun.state.frames import from_arrow

        spec = self.spec
        schema = spec.arrow.append(pa.field(WEIGHT, pa.int64()))
        fitting = conform(rows, schema, f"changes of view {spec.name!r}")
        columns = {f"c{i}": keep(column) for i, column in enumerate(fitting.columns[:-1])}
        if not spec.key:
            columns[_ONLY] = pa.repeat(pa.scalar(0, pa.int64()), fitting.num_rows)
        return from_arrow(pa.table({**columns, WEIGHT: fitting.columns[-1]}))

    def give_back(self, kept: pa.Table) -> pa.Table:
        """Kept rows as readers see them; `Corrupt` when there are values among them that were never kept."""
        spec = self.spec
        shown = [(name, spec.names.index(name)) for name in spec.visible]
        with self._noticing_damage():
            columns = {name: give_back(kept.column(f"c{i}"), spec.arrow.field(i).type) for name, i in shown}
        return pa.table(columns, schema=pa.schema([spec.arrow.field(i) for _, i in shown]))

    def table(self, columns: list[list[object]]) -> pa.Table:
        """A table of kept rows from plain lists, one per column; `Corrupt` as in `give_back`."""
        with self._noticing_damage():
            arrays = [pa.array(values, kind.arrow) for values, kind in zip(columns, self.kinds, strict=True)]
        return pa.table(arrays, names=list(self.columns))

    @contextmanager
    def _noticing_damage(self) -> Iterator[None]:
        try:
            yield
        except (pa.ArrowException, OverflowError, ValueError, TypeError) as error:
            raise Corrupt(
                f"rows of view {self.spec.name!r} that are kept are damaged: {str(error).splitlines()[0]}",
                hint="Rebuild the view: riverrun run FLOW.py --rebuild",
            ) from error


# As Polars writes strings: so that nothing is limited to 2 GiB, and nothing is copied on the way back.
_LARGE = {kind: kind.arrow for kind in Kept} | {Kept.STRING: pa.large_string(), Kept.BYTES: pa.large_binary()}


@lru_cache(maxsize=1024)
def layout_of(spec: ViewSpec) -> Layout:
    """The layout of a view."""
    columns = tuple(f"c{i}" for i in range(len(spec.names)))
    kinds = tuple(kept_as(field.type) for field in spec.arrow)
    if not spec.key:
        return Layout(spec, (*columns, _ONLY), (*kinds, Kept.WHOLE), (_ONLY,))
    return Layout(spec, columns, kinds, tuple(columns[spec.names.index(name)] for name in spec.key))
