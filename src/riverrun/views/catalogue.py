"""What a store writes down beside the rows: flows, views, epochs, changes. The same SQL for SQLite and PostgreSQL."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

import msgspec

from riverrun.errors import NotFound, did_you_mean
from riverrun.position import Position
from riverrun.views.epoch import Last, ViewProgress
from riverrun.views.positions import from_json, to_json
from riverrun.views.spec import ViewSpec

FORMAT = 1
LIVE = 0  # the `rebuild` of what readers see

FLOWS, VIEWS, EPOCHS, CHANGES, COUNTERS = (
    f'"riverrun:{name}"' for name in ("flows", "views", "epochs", "changes", "counters")
)


class Transaction(Protocol):
    """A transaction. Parameters are written as `?`."""

    def all(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """The rows of a query, or of a statement that returns some."""

    def one(self, sql: str, *parameters: Any) -> tuple[Any, ...] | None:
        """The first row, if there is one."""

    def run(self, sql: str, *parameters: Any) -> None:
        """A statement without rows."""


def tables(blob: str) -> list[str]:
    """Statements that create the catalogue; `blob` is what the database calls bytes."""
    return [
        f"create table {COUNTERS} (name text primary key, value bigint not null)",
        f"insert into {COUNTERS} values ('format', {FORMAT}), ('id', 0)",
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


@dataclass(frozen=True, slots=True)
class FlowRow:
    """A flow in the catalogue; `seq` counts its commits and never goes back."""

    last: Last
    seq: int


_VIEW = "id, spec, rebuild, rows, pruned, nulls, stopped"
_FLOW = "epoch, fence, positions, manifest, ledger, received, committed, run, seq"


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


def find_flow(db: Transaction, flow: str, rebuild: int = LIVE) -> FlowRow:
    """A flow's row; one that was never written is at epoch 0."""
    row = db.one(f"select {_FLOW} from {FLOWS} where flow = ? and rebuild = ?", flow, rebuild)
    if row is None:
        return FlowRow(Last(epoch=0, fence=0, positions=Position()), 0)
    epoch, fence, positions, manifest, ledger, received, committed, run, seq = row
    last = Last(
        epoch=epoch,
        fence=fence,
        positions=from_json(positions),
        manifest=None if manifest is None else bytes(manifest),
        ledger=None if ledger is None else msgspec.json.decode(bytes(ledger)),
        received=received,
        committed=committed,
        run=run,
    )
    return FlowRow(last, seq)


def find_fence(db: Transaction, flow: str) -> Last:
    """Who may write for a flow, without anything else about it."""
    row = db.one(f"select fence, run from {FLOWS} where flow = ? and rebuild = {LIVE}", flow)
    fence, run = row or (0, "")
    return Last(epoch=0, fence=fence, positions=Position(), run=run)


def flow_names(db: Transaction) -> list[str]:
    """Every flow, by name."""
    return [name for (name,) in db.all(f"select flow from {FLOWS} where rebuild = {LIVE} order by flow")]


def has_flow(db: Transaction, flow: str, rebuild: int) -> bool:
    """Whether the flow, or this rebuild of it, has been written."""
    return db.one(f"select 1 from {FLOWS} where flow = ? and rebuild = ?", flow, rebuild) is not None


def find_views(db: Transaction, flow: str, rebuild: int = LIVE) -> dict[str, ViewRow]:
    """The views of a flow, by name."""
    found = map(_view, db.all(f"select {_VIEW} from {VIEWS} where flow = ? and rebuild = ?", flow, rebuild))
    return {view.spec.name: view for view in found}


def all_views(db: Transaction, rebuild: int = LIVE) -> list[ViewRow]:
    """Every view, by name."""
    return [_view(row) for row in db.all(f"select {_VIEW} from {VIEWS} where rebuild = ? order by name", rebuild)]


def find_view(db: Transaction, name: str, rebuild: int = LIVE) -> ViewRow | None:
    """The view with this name, in whatever case it was declared."""
    row = db.one(f"select {_VIEW} from {VIEWS} where folded = ? and rebuild = ?", name.lower(), rebuild)
    return None if row is None else _view(row)


def need_view(db: Transaction, name: str) -> ViewRow:
    """The view with exactly this name."""
    view = find_view(db, name)
    if view is None or view.spec.name != name:
        raise NotFound(f"there is no view {name!r}", hint=did_you_mean(name, [v.spec.name for v in all_views(db)]))
    return view


def add_view(db: Transaction, spec: ViewSpec, rebuild: int, pruned: int) -> ViewRow:
    """Write a new view down; its table is numbered as the view is."""
    number = next_id(db)
    db.run(
        f"insert into {VIEWS} (id, name, folded, rebuild, flow, spec, rows, pruned, nulls)"
        " values (?, ?, ?, ?, ?, ?, ?, ?, '')",
        *(number, spec.name, spec.name.lower(), rebuild, spec.flow, spec_text(spec), number, pruned),
    )
    return ViewRow(number, spec, rebuild, number, pruned, ())


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
    return ViewProgress(commit, epoch, from_json(positions), committed, kept_up=False)


def keep_only(db: Transaction, flow: str, views: Collection[str], at: FlowRow) -> None:
    """Let the other views of a flow stop where it is; those named go on."""
    stopped = msgspec.json.encode((at.seq, at.last.epoch, to_json(at.last.positions), at.last.committed)).decode()
    for view in find_views(db, flow).values():
        if (view.spec.name in views) is (view.stopped is not None):
            mark = stopped if view.stopped is None else None
            db.run(f"update {VIEWS} set stopped = ? where id = ?", mark, view.id)


def mark_nulls(db: Transaction, view: ViewRow, nulls: Sequence[str]) -> None:
    """Remember that these key columns hold nulls."""
    db.run(f"update {VIEWS} set nulls = ? where id = ?", " ".join(nulls), view.id)


def write_flow(db: Transaction, flow: str, rebuild: int, row: FlowRow) -> None:
    """Put a flow's row in place of what was there."""
    last = row.last
    ledger = None if last.ledger is None else msgspec.json.encode(last.ledger)
    names = f"{_FLOW}, flow, rebuild".split(", ")
    db.run(
        f"insert into {FLOWS} ({', '.join(names)}) values ({', '.join('?' * len(names))})"
        f" on conflict (flow, rebuild) do update set {', '.join(f'{name} = excluded.{name}' for name in names[:-2])}",
        *(last.epoch, last.fence, to_json(last.positions), last.manifest, ledger),
        *(last.received, last.committed, last.run, row.seq, flow, rebuild),
    )


def write_epoch(db: Transaction, flow: str, rebuild: int, row: FlowRow) -> None:
    """Remember an epoch's positions, to recognise it when it comes again and for `as_of`."""
    db.run(
        f"insert into {EPOCHS} (flow, rebuild, seq, epoch, positions, committed) values (?, ?, ?, ?, ?, ?)",
        *(flow, rebuild, row.seq, row.last.epoch, to_json(row.last.positions), row.last.committed),
    )
