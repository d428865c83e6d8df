"""Reading views of an SQL store: rows, changes, versions."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from riverrun.durations import from_micros
from riverrun.errors import Invalid, OutOfRange
from riverrun.position import Position
from riverrun.views import catalogue
from riverrun.views.catalogue import CHANGES, EPOCHS, FLOWS, LIVE, VIEWS, Transaction, ViewRow
from riverrun.views.changelog import Change, Cursor, changes_of
from riverrun.views.columns import keep
from riverrun.views.epoch import ViewProgress
from riverrun.views.layout import Layout
from riverrun.views.ops import DELETE, OLD, OP
from riverrun.views.positions import from_json
from riverrun.views.selection import COMPARISONS, Selection, check_count, comparable, value_of
from riverrun.views.spec import ViewSpec
from riverrun.views.sqlstore import SqlStore
from riverrun.views.where import condition

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa


_DIRECTIONS = (" asc nulls first", " desc nulls last")
_ALL = (1 << 62) - 1


class SqlReads(SqlStore):
    """An SQL store that can be read."""

    @abstractmethod
    def _scan(self, db: Transaction, view: ViewRow, layout: Layout, where: str | None, limit: int | None) -> pa.Table:
        """Kept rows in key order; `where` has been checked."""

    @abstractmethod
    def _get(self, db: Transaction, view: ViewRow, layout: Layout, key: Sequence[Any]) -> pa.Table:
        """The kept row with this key, or none."""

    @abstractmethod
    def _listed(self, layout: Layout) -> str:
        """The columns of a query for kept rows of the table `t`; the next three belong to it, too."""

    @abstractmethod
    def _fetched(self, view: ViewRow, layout: Layout, rows: Sequence[tuple[Any, ...]]) -> pa.Table:
        """Kept rows from what such a query gives."""

    @abstractmethod
    def _equal(self, view: ViewRow, layout: Layout, column: int) -> tuple[str, str]:
        """SQL for a column and for a value, written `?`, to be compared for being equal; null is null."""

    @abstractmethod
    def _ordered(self, view: ViewRow, layout: Layout, column: int) -> tuple[str, str]:
        """The same, to be compared for what comes first."""

    @abstractmethod
    def _matching(self, view: ViewRow, layout: Layout, rows: pl.DataFrame, where: str) -> list[int]:
        """The numbers of the kept rows for which a checked condition holds, in order."""

    def _key_order(self, view: ViewRow, layout: Layout, written: str) -> list[str]:
        """SQL for what rows are sorted by, for columns whose names are `written` so: the key, nulls last."""
        return [written.format(name) for name in layout.key]

    def flows(self) -> list[str]:
        with self._reading() as db:
            return catalogue.flow_names(db)

    def views(self) -> list[ViewSpec]:
        with self._reading() as db:
            return [view.spec for view in catalogue.all_views(db)]

    def spec(self, view: str) -> ViewSpec:
        with self._reading() as db:
            return catalogue.need_view(db, view).spec

    def progress(self, view: str) -> ViewProgress:
        with self._reading() as db:
            return _progress(db, view)

    def count(self, view: str) -> int:
        with self._reading() as db:
            row = db.one(f'select count(*) from "riverrun:rows:{catalogue.need_view(db, view).rows}"')
            return int(row[0]) if row else 0

    def fetch(self, view: str, where: str | None = None, limit: int | None = None) -> pa.Table:
        check_count("limit", limit)
        with self._reading() as db:
            row = catalogue.need_view(db, view)
            layout = Layout.of(row.spec)
            checked = None if where is None else condition(where, row.spec.visible)
            kept = self._scan(db, row, layout, checked, limit)
        return layout.give_back(kept)

    def select(self, view: str, selection: Selection) -> pa.Table:
        with self._reading() as db:
            row = catalogue.need_view(db, view)
            layout = Layout.of(row.spec)
            wheres, parameters = ["true"], []
            for one in selection.conditions:
                column, value = comparable(row.spec, one.column), value_of(row.spec, one)
                sides = self._equal if one.operator in ("eq", "ne") else self._ordered
                text, marks = _condition(*sides(row, layout, column), one.operator, value)
                wheres.append(text)
                parameters += [value] * marks
            order = [
                self._ordered(row, layout, comparable(row.spec, name))[0] + _DIRECTIONS[falling]
                for name, falling in selection.order
            ]
            order += self._key_order(row, layout, "t.{}")
            limit = _ALL if selection.limit is None else selection.limit
            found = db.all(
                f'select {self._listed(layout)} from "riverrun:rows:{row.rows}" t where {" and ".join(wheres)}'
                f" order by {', '.join(order)} limit {int(limit)} offset {int(selection.offset)}",
                *parameters,
            )
            kept = self._fetched(row, layout, found)
        return layout.give_back(kept)

    def matching(self, spec: ViewSpec, rows: pa.Table, where: str) -> pa.Table:
        import polars as pl
        import pyarrow as pa

        checked = condition(where, spec.visible)
        plain = ViewSpec(spec.name, spec.flow, rows.schema, key=())
        kept = {f"c{i}": keep(column) for i, column in enumerate(rows.columns)}
        frame = pl.from_arrow(pa.table(kept))
        assert isinstance(frame, pl.DataFrame)
        return rows.take(self._matching(ViewRow(0, plain, LIVE, 0, 0, ()), Layout.of(plain), frame, checked))

    def lookup(self, view: str, key: Sequence[pa.Array]) -> pa.Table:
        with self._reading() as db:
            row = catalogue.need_view(db, view)
            layout = Layout.of(row.spec)
            parts = [keep(part)[0].as_py() for part in key] or [0]
            kept = self._get(db, row, layout, parts)
        return layout.give_back(kept)

    def changes(self, view: str, after: Cursor | None) -> Iterator[Change]:
        while True:
            # A transaction per part: a slow reader must not hold a snapshot open.
            with self._reading() as db:
                row = catalogue.need_view(db, view)
                after = _checked(db, row, after)
                done = -1 if after.done is None else after.done
                part = db.one(
                    f"select seq, first, total, data from {CHANGES} where view = ?"
                    " and (seq > ? or (seq = ? and ? >= 0 and first + changes > ?)) order by seq, first limit 1",
                    *(row.id, after.commit, after.commit, done, done),
                )
            if part is None:
                return
            seq, first, total, data = part
            skip = max(0, done - first) if seq == after.commit else 0
            for change in islice(changes_of(bytes(data), row.spec, seq, first, total), skip, None):
                after = Cursor.parse(change.cursor)
                yield change

    def changed(self, flow: str, after: int | None) -> tuple[int, dict[str, int]]:
        with self._reading() as db:
            row = db.one(f"select seq from {FLOWS} where flow = ? and rebuild = {LIVE}", flow)
            newest = int(row[0]) if row else 0
            found = db.all(
                f"select v.name, coalesce(sum(c.changes), 0) from {VIEWS} v left join {CHANGES} c"
                f" on c.view = v.id and c.seq > ? where v.flow = ? and v.rebuild = {LIVE} group by v.name",
                *(newest if after is None else after, flow),
            )
        return newest, {name: int(count) for name, count in found}

    def version(self, view: str, at: Position | int) -> tuple[ViewProgress, pa.Table]:
        with self._reading() as db:
            row = catalogue.need_view(db, view)
            if row.spec.history_micros is None:
                raise Invalid(f"view {view!r} keeps no history", hint='Declare it with flow.view(…, history="7 days")')
            found = _by_time(db, row, at) if isinstance(at, int) else _by_position(db, row, at)
            if found is None or found.commit < row.pruned:
                raise OutOfRange(f"view {view!r} does not keep what it was then; {_range(db, row)}")
            layout = Layout.of(row.spec)
            now = self._scan(db, row, layout, None, None)
            parts = [
                bytes(data)
                for (data,) in db.all(
                    f"select data from {CHANGES} where view = ? and seq > ? order by seq, first", row.id, found.commit
                )
            ]
        return found, layout.give_back(_undone(now, parts, layout))


def _condition(column: str, given: str, operator: str, value: Any) -> tuple[str, int]:
    """SQL for one condition, and how often it has the value in it."""
    if value is None:
        return f"{column} is {'not ' * (operator == 'ne')}null", 0
    if operator == "has":
        return f"lower({column}) like lower({given}) escape '!'", 1
    compared = f"{column} {COMPARISONS[operator]} {given}"
    return (f"({column} is null or {compared})" if operator == "ne" else compared), 1


def _progress(db: Transaction, name: str) -> ViewProgress:
    row = db.one(
        f"select v.spec, v.stopped, f.seq, f.epoch, f.positions, f.committed from {VIEWS} v"
        f" left join {FLOWS} f on f.flow = v.flow and f.rebuild = {LIVE} where v.name = ? and v.rebuild = {LIVE}",
        name,
    )
    if row is None:
        catalogue.need_view(db, name)
        raise AssertionError(name)
    spec, stopped, seq, epoch, positions, committed = row
    left = catalogue.read_stopped(stopped)
    if left is not None:
        return replace(left, positions=of_topics(catalogue.read_spec(spec), left.positions))
    if seq is None:
        return ViewProgress(0, 0, Position(), 0)
    return ViewProgress(seq, epoch, of_topics(catalogue.read_spec(spec), from_json(positions)), committed)


def of_topics(spec: ViewSpec, positions: Position) -> Position:
    """The positions of the topics a view reads; all of them when it does not say."""
    return Position({topic: at for topic, at in positions.items() if not spec.topics or topic in spec.topics})


def _checked(db: Transaction, view: ViewRow, cursor: Cursor | None) -> Cursor:
    if cursor is None:
        return Cursor(view.pruned)
    newest = catalogue.find_flow(db, view.spec.flow).seq
    expired = cursor.commit < view.pruned or (cursor.commit == view.pruned and cursor.done is not None)
    if expired or cursor.commit > newest:
        raise OutOfRange(
            f"view {view.spec.name!r} does not have the changes after cursor {cursor};"
            f" it has those after {view.pruned}, up to {newest}",
            hint="Read the view, then follow it from its cursor",
        )
    return cursor


_EPOCH = "seq, epoch, positions, committed"


def _known(spec: ViewSpec, row: tuple[int, int, str, int]) -> ViewProgress:
    seq, epoch, positions, committed = row
    return ViewProgress(seq, epoch, of_topics(spec, from_json(positions)), committed)


def _by_time(db: Transaction, view: ViewRow, time: int) -> ViewProgress | None:
    rows = db.all(
        f"select {_EPOCH} from {EPOCHS} where flow = ? and rebuild = {LIVE} and committed <= ? and seq <= ?"
        " order by seq desc limit 1",
        *(view.spec.flow, time, _newest(view)),
    )
    return _known(view.spec, rows[0]) if rows else None


def _by_position(db: Transaction, view: ViewRow, wanted: Position) -> ViewProgress | None:
    """The first epoch that had read so far, found by halving: positions only grow."""
    seqs = [
        seq
        for (seq,) in db.all(
            f"select seq from {EPOCHS} where flow = ? and rebuild = {LIVE} and seq <= ? order by seq",
            *(view.spec.flow, _newest(view)),
        )
    ]
    low, high = 0, len(seqs)
    found: ViewProgress | None = None
    while low < high:
        middle = (low + high) // 2
        rows = db.all(
            f"select {_EPOCH} from {EPOCHS} where flow = ? and rebuild = {LIVE} and seq = ?",
            *(view.spec.flow, seqs[middle]),
        )
        known = _known(view.spec, rows[0])
        if wanted <= known.positions:
            found, high = known, middle
        else:
            low = middle + 1
    return found


def _newest(view: ViewRow) -> int:
    """The last commit that a view can be part of."""
    return _ALL if view.stopped is None else view.stopped.commit


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


def _undone(now: pa.Table, parts: list[bytes], layout: Layout) -> pa.Table:
    """The rows before the changes in `parts`: for each key touched, what its first change found."""
    import io

    import polars as pl

    rows = pl.from_arrow(now)
    assert isinstance(rows, pl.DataFrame)
    if not parts:
        return now
    key = list(layout.key)
    touched = pl.concat([pl.read_ipc(io.BytesIO(part)) for part in parts]).unique(key, keep="first")
    found = touched.filter(pl.col(OP).is_in([DELETE, OLD])).select(rows.columns)
    whole = pl.concat([rows.join(touched, on=key, how="anti", nulls_equal=True), found])
    return whole.sort([_sorted_by(layout, name) for name in key], nulls_last=True).to_arrow()


def _sorted_by(layout: Layout, column: str) -> pl.Expr:
    """What gives kept values of a key column the order of its type: decimals are kept as text."""
    import polars as pl
    import pyarrow as pa

    number = layout.columns.index(column)
    kind = layout.spec.arrow.field(number).type if number < len(layout.spec.arrow) else None
    if kind is not None and pa.types.is_decimal(kind):
        return pl.col(column).cast(pl.Decimal(kind.precision, kind.scale))
    return pl.col(column)
