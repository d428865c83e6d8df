"""What a store writes down beside the rows: its own tables, and in one of them the views. The same SQL for every database."""

from __future__ import annotations

import secrets
from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import msgspec

from riverrun.errors import Invalid, NewerFormat, NotFound, OlderFormat, did_you_mean
from riverrun.position import Position
from riverrun.views.epoch import Positions, ViewProgress
from riverrun.views.layout import Layout, layout_of
from riverrun.views.spec import ViewSpec
from riverrun.views.sql.database import Transaction

FORMAT = 2
LIVE = 0  # the `rebuild` of what readers see

FLOWS, VIEWS, EPOCHS, CHANGES, COUNTERS, RUNS = (
    f'"riverrun:{name}"' for name in ("flows", "views", "epochs", "changes", "counters", "runs")
)
RUNS_TABLE = (  # stores from before have none: it is made when a run tells that it is alive
    f"create table if not exists {RUNS} (flow text primary key, fence bigint not null, run text not null,"
    " process text not null, since bigint not null, heard bigint not null)"
)


def check_format(found: int, where: str) -> None:
    """Refuse a store that another Riverrun has made in another way."""
    if found > FORMAT:
        raise NewerFormat(f"{where} has format {found}, this Riverrun knows {FORMAT}", hint="Upgrade Riverrun")
    if found < FORMAT:
        raise OlderFormat(
            f"{where} was made by an older Riverrun: it has format {found}, this one knows {FORMAT}",
            hint="Its views are computed from the log again: remove it and the checkpoints of its flows (RIVER/flows),"
            " drop the topics that they write, and run them",
        )


def tables(blob: str) -> list[str]:
    """Statements that create the catalogue; `blob` is what the database calls bytes."""
    return [
        f"create table {COUNTERS} (name text primary key, value bigint not null)",
        f"insert into {COUNTERS} values ('format', {FORMAT}), ('id', 0), ('store', {secrets.randbits(62)})",
        f"create table {FLOWS} (flow text, rebuild bigint, fence bigint not null, run text not null,"
        " epoch bigint not null, seq bigint not null, positions text not null,"
        f" manifest {blob}, ledger {blob}, received bigint not null, committed bigint not null,"
        " primary key (flow, rebuild))",
        f"create table {VIEWS} (id bigint primary key, name text not null, folded text not null,"
        " rebuild bigint not null, flow text not null, spec text not null, rows bigint not null,"
        " pruned bigint not null, nulls text not null, stopped text, unique (folded, rebuild))",
        f"create table {EPOCHS} (flow text, rebuild bigint, seq bigint, epoch bigint not null, positions text not null,"
        " committed bigint not null, primary key (flow, rebuild, seq))",
        f"create table {CHANGES} (view bigint, seq bigint, first bigint, changes bigint not null,"
        f" total bigint not null, committed bigint not null, data {blob} not null, primary key (view, seq, first))",
        RUNS_TABLE,
    ]


@dataclass(frozen=True, slots=True)
class ViewRow:
    """A view in the catalogue. `rows` numbers its table, `pruned` is the newest commit whose changes are not kept,
    `nulls` has the key columns that have ever held a null, `stopped` is how far it was when its flow left it."""

    id: int
    spec: ViewSpec
    rebuild: int
    rows: int
    pruned: int
    nulls: tuple[str, ...]
    stopped: ViewProgress | None = None

    @property
    def layout(self) -> Layout:
        """How its rows lie."""
        return layout_of(self.spec)


_VIEW = "id, spec, rebuild, rows, pruned, nulls, stopped"


def _view(row: tuple[Any, ...]) -> ViewRow:
    number, spec, rebuild, rows, pruned, nulls, stopped = row
    parts = tuple(filter(None, nulls.split(" ")))
    return ViewRow(number, read_spec(spec), rebuild, rows, pruned, parts, read_stopped(stopped))


def next_id(db: Transaction) -> int:
    """A number that no view, table or rebuild of the store had before."""
    db.run(f"update {COUNTERS} set value = value + 1 where name = 'id'")
    row = db.one(f"select value from {COUNTERS} where name = 'id'")
    assert row is not None
    return int(row[0])


def store_number(db: Transaction) -> int | None:
    """The number that a store was given when it was made."""
    row = db.one(f"select value from {COUNTERS} where name = 'store'")
    return None if row is None else int(row[0])


def number_store(db: Transaction) -> int:
    """The number of a store, which is given one now if it has none."""
    db.run(f"insert into {COUNTERS} values ('store', ?) on conflict do nothing", secrets.randbits(62))
    number = store_number(db)
    assert number is not None
    return number


def find_views(db: Transaction, flow: str, rebuild: int = LIVE) -> dict[str, ViewRow]:
    """The views of a flow, by name."""
    rows = db.all(f"select {_VIEW} from {VIEWS} where flow = ? and rebuild = ?", flow, rebuild)
    return {view.spec.name: view for view in map(_view, rows)}


def all_views(db: Transaction, rebuild: int = LIVE) -> list[ViewRow]:
    """Every view, by name."""
    return [_view(row) for row in db.all(f"select {_VIEW} from {VIEWS} where rebuild = ? order by name", rebuild)]


def find_view(db: Transaction, name: str) -> ViewRow | None:
    """The view with this name, in whatever case it was declared."""
    row = db.one(f"select {_VIEW} from {VIEWS} where folded = ? and rebuild = {LIVE}", name.lower())
    return None if row is None else _view(row)


def need_view(db: Transaction, name: str) -> ViewRow:
    """The view with exactly this name."""
    view = find_view(db, name)
    if view is None or view.spec.name != name:
        raise no_view(db, name)
    return view


def need_rows(db: Transaction, name: str) -> ViewRow:
    """The same for a view whose rows are here."""
    view = need_view(db, name)
    if view.spec.to is not None:
        raise Invalid(f"view {name!r} is not in this store: it is in {view.spec.to}", hint="Read it by river.view(…)")
    return view


def no_view(db: Transaction, name: str) -> NotFound:
    """The error for a name that no view has."""
    return NotFound(f"there is no view {name!r}", hint=did_you_mean(name, [view.spec.name for view in all_views(db)]))


def add_view(db: Transaction, spec: ViewSpec, rebuild: int, pruned: int) -> ViewRow:
    """Write a new view down; its table is numbered as the view is."""
    number = next_id(db)
    db.run(
        f"insert into {VIEWS} (id, name, folded, rebuild, flow, spec, rows, pruned, nulls)"
        " values (?, ?, ?, ?, ?, ?, ?, ?, '')",
        *(number, spec.name, spec.name.lower(), rebuild, spec.flow, spec_text(spec), number, pruned),
    )
    return ViewRow(number, spec, rebuild, number, pruned, ())


def write_view(db: Transaction, view: ViewRow) -> None:
    """Put what is known of a view, but for its name, in place of what was there."""
    db.run(
        f"update {VIEWS} set spec = ?, rebuild = ?, rows = ?, pruned = ?, nulls = ? where id = ?",
        *(spec_text(view.spec), view.rebuild, view.rows, view.pruned, " ".join(view.nulls), view.id),
    )


def remove_view(db: Transaction, view: ViewRow) -> None:
    """Forget a view."""
    db.run(f"delete from {VIEWS} where id = ?", view.id)


def keep_only(db: Transaction, flow: str, views: Collection[str], at: ViewProgress) -> None:
    """Let the other views of a flow stop where it is; those named go on."""
    stopped = msgspec.json.encode((at.commit, at.epoch, position_text(at.positions), at.committed)).decode()
    for view in find_views(db, flow).values():
        if (view.spec.name in views) is (view.stopped is not None):
            mark = stopped if view.stopped is None else None
            db.run(f"update {VIEWS} set stopped = ? where id = ?", mark, view.id)


@lru_cache(maxsize=1024)
def read_spec(text: str) -> ViewSpec:
    """The way back from `spec_text`."""
    return ViewSpec.from_dict(msgspec.json.decode(text))


def spec_text(spec: ViewSpec) -> str:
    """A declaration as the catalogue has it."""
    return msgspec.json.encode(spec.as_dict()).decode()


def read_stopped(text: str | None) -> ViewProgress | None:
    """How far a view was when its flow left it; None while the flow keeps it up."""
    if text is None:
        return None
    commit, epoch, positions, committed = msgspec.json.decode(text)
    return ViewProgress(commit, epoch, read_position(positions), committed, kept_up=False)


def position_text(positions: Positions) -> str:
    """A position as the catalogue has it, topics and partitions in order.

    >>> position_text({"orders": {1: 4, 0: 17}})
    '{"orders":{"0":17,"1":4}}'
    """
    plain = {topic: {str(p): at for p, at in parts.items()} for topic, parts in Position(positions).items()}
    return msgspec.json.encode(plain).decode()


def read_position(text: str) -> Position:
    """The way back from `position_text`."""
    return Position(msgspec.json.decode(text, type=dict[str, dict[int, int]]))
