"""Views as they were, in an SQL store: which commit is meant, and the rows before the changes since then."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from riverrun.durations import from_micros
from riverrun.errors import OutOfRange
from riverrun.position import Position
from riverrun.views.changelog import unpack
from riverrun.views.epoch import ViewProgress
from riverrun.views.layout import DELETE, OLD, OP, Layout
from riverrun.views.sql.catalogue import EPOCHS, LIVE, ViewRow, read_position
from riverrun.views.sql.database import Transaction
from riverrun.views.sql.flow_progress import of_topics

if TYPE_CHECKING:
    import polars as pl

_ANY = (1 << 62) - 1
_EPOCH = "seq, epoch, positions, committed"


def find_version(db: Transaction, view: ViewRow, at: Position | int) -> ViewProgress:
    """The first epoch that had read up to a position, or the last one committed by a time; `OutOfRange` when the changes
    since then are no longer kept."""
    version = _by_time(db, view, at) if isinstance(at, int) else _by_position(db, view, at)
    if version is None or version.commit < view.pruned:
        raise OutOfRange(f"view {view.spec.name!r} does not keep what it was then; {_range(db, view)}")
    return version


def _progress(view: ViewRow, row: tuple[int, int, str, int]) -> ViewProgress:
    seq, epoch, positions, committed = row
    return ViewProgress(seq, epoch, of_topics(view.spec, read_position(positions)), committed)


def _by_time(db: Transaction, view: ViewRow, time: int) -> ViewProgress | None:
    rows = db.all(
        f"select {_EPOCH} from {EPOCHS} where flow = ? and rebuild = {LIVE} and committed <= ? and seq <= ?"
        " order by seq desc limit 1",
        *(view.spec.flow, time, _newest(view)),
    )
    return _progress(view, rows[0]) if rows else None


def _by_position(db: Transaction, view: ViewRow, wanted: Position) -> ViewProgress | None:
    """Found by halving: positions only grow."""
    seqs = db.all(
        f"select seq from {EPOCHS} where flow = ? and rebuild = {LIVE} and seq <= ? order by seq",
        *(view.spec.flow, _newest(view)),
    )
    low, high = 0, len(seqs)
    nearest: ViewProgress | None = None
    while low < high:
        middle = (low + high) // 2
        rows = db.all(
            f"select {_EPOCH} from {EPOCHS} where flow = ? and rebuild = {LIVE} and seq = ?",
            *(view.spec.flow, *seqs[middle]),
        )
        progress = _progress(view, rows[0])
        if wanted <= progress.positions:
            nearest, high = progress, middle
        else:
            low = middle + 1
    return nearest


def _newest(view: ViewRow) -> int:
    """The last commit that a view can be part of."""
    return _ANY if view.stopped is None else view.stopped.commit


def _range(db: Transaction, view: ViewRow) -> str:
    rows = db.all(
        f"select min(committed), max(committed) from {EPOCHS} where flow = ? and rebuild = {LIVE}"
        " and seq between ? and ?",
        *(view.spec.flow, view.pruned, _newest(view)),
    )
    first, last = rows[0]
    if first is None:
        return "it has no version yet"
    return f"it has versions committed from {from_micros(first)} to {from_micros(last)}"


def undo(now: pa.Table, blobs: list[bytes], layout: Layout) -> pa.Table:
    """The kept rows before the changes in the blobs: for each key touched, what its first change replaced."""
    import polars as pl

    if not blobs:
        return now
    rows, changes = pl.from_arrow(now), pl.from_arrow(pa.concat_tables(unpack(b, layout.spec) for b in blobs))
    assert isinstance(rows, pl.DataFrame)
    assert isinstance(changes, pl.DataFrame)
    key = list(layout.key)
    touched = changes.unique(key, keep="first")
    before = touched.filter(pl.col(OP).is_in([DELETE, OLD])).select(rows.columns)
    whole = pl.concat([rows.join(touched, on=key, how="anti", nulls_equal=True), before])
    return whole.sort([_sorted_by(layout, name) for name in key], nulls_last=True).to_arrow()


def _sorted_by(layout: Layout, column: str) -> pl.Expr:
    """What gives kept values of a key column the order of its type: decimals are kept as strings."""
    import polars as pl

    number = layout.columns.index(column)
    kind = layout.spec.arrow.field(number).type if number < len(layout.spec.arrow) else None
    if kind is not None and pa.types.is_decimal(kind):
        return pl.col(column).cast(pl.Decimal(kind.precision, kind.scale))
    return pl.col(column)
