"""How a view's rows lie in a table: columns c0, c1, … of the four kept kinds, and which of them are the key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from riverrun.columns import WEIGHT
from riverrun.views.columns import Kept, conform, give_back, keep, kept_as
from riverrun.views.spec import ViewSpec

if TYPE_CHECKING:
    import polars as pl

_ONLY = "single"


def quoted(name: str) -> str:
    """A name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


@dataclass(frozen=True, slots=True)
class Layout:
    """Table columns of a view. A view without key columns gets one that is always 0, so that it has one row."""

    spec: ViewSpec
    columns: tuple[str, ...]
    kinds: tuple[Kept, ...]
    key: tuple[str, ...]

    @classmethod
    def of(cls, spec: ViewSpec) -> Layout:
        columns = tuple(f"c{i}" for i in range(len(spec.names)))
        kinds = tuple(kept_as(field.type) for field in spec.arrow)
        if not spec.key:
            return cls(spec, (*columns, _ONLY), (*kinds, Kept.WHOLE), (_ONLY,))
        return cls(spec, columns, kinds, tuple(columns[spec.names.index(name)] for name in spec.key))

    def kind(self, column: str) -> Kept:
        return self.kinds[self.columns.index(column)]

    def keep(self, rows: pa.Table) -> pl.DataFrame:
        """Weighted rows of the view as they are kept."""
        import polars as pl

        spec = self.spec
        what = f"changes of view {spec.name!r}"
        schema = spec.arrow.append(pa.field(WEIGHT, pa.int64()))
        fitting = conform(rows, schema, what)
        columns = {f"c{i}": keep(column) for i, column in enumerate(fitting.columns[:-1])}
        if not spec.key:
            columns[_ONLY] = pa.array([0], pa.int64()).take(pa.nulls(fitting.num_rows, pa.int64()).fill_null(0))
        frame = pl.from_arrow(pa.table({**columns, WEIGHT: fitting.columns[-1]}))
        assert isinstance(frame, pl.DataFrame)
        return frame

    def give_back(self, kept: pa.Table) -> pa.Table:
        """Kept rows as readers see them."""
        spec = self.spec
        shown = [(name, spec.names.index(name)) for name in spec.visible]
        columns = {name: give_back(kept.column(f"c{i}"), spec.arrow.field(i).type) for name, i in shown}
        return pa.table(columns, schema=pa.schema([spec.arrow.field(i) for _, i in shown]))

    def table(self, columns: list[list[object]]) -> pa.Table:
        """A table of kept rows from plain lists, one per column."""
        arrays = [pa.array(values, kind.arrow) for values, kind in zip(columns, self.kinds, strict=True)]
        return pa.table(arrays, names=list(self.columns))
