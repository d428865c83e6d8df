"""How far each flow is, and each rebuild of one: the part of the catalogue that every epoch changes."""

from __future__ import annotations

from dataclasses import dataclass, replace

import msgspec

from riverrun.errors import NotFound
from riverrun.position import Position
from riverrun.views.epoch import Last, ViewProgress
from riverrun.views.spec import ViewSpec
from riverrun.views.sql.catalogue import (
    EPOCHS,
    FLOWS,
    LIVE,
    VIEWS,
    no_view,
    position_text,
    read_position,
    read_spec,
    read_stopped,
)
from riverrun.views.sql.database import Transaction

_EPOCHS_KEPT = 100  # at least so many are remembered, however old
_FLOW = "epoch, fence, positions, manifest, ledger, received, committed, run, seq"


@dataclass(frozen=True, slots=True)
class FlowRow:
    """A flow in the catalogue; `seq` counts its commits and never goes back."""

    last: Last
    seq: int

    @property
    def progress(self) -> ViewProgress:
        """How far a view is that shows all of it."""
        return ViewProgress(self.seq, self.last.epoch, self.last.positions, self.last.committed)


NEVER = FlowRow(Last(epoch=0, fence=0, positions=Position()), 0)


def find_flow(db: Transaction, flow: str, rebuild: int = LIVE) -> FlowRow:
    """A flow's row; one that was never written is at epoch 0."""
    row = db.one(f"select {_FLOW} from {FLOWS} where flow = ? and rebuild = ?", flow, rebuild)
    if row is None:
        return NEVER
    epoch, fence, positions, manifest, ledger, received, committed, run, seq = row
    last = Last(
        epoch=epoch,
        fence=fence,
        positions=read_position(positions),
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
    return replace(NEVER.last, fence=fence, run=run)


def find_seq(db: Transaction, flow: str) -> int:
    """The number of a flow's newest commit."""
    row = db.one(f"select seq from {FLOWS} where flow = ? and rebuild = {LIVE}", flow)
    return int(row[0]) if row else 0


def flow_names(db: Transaction) -> list[str]:
    """Every flow, by name."""
    return [name for (name,) in db.all(f"select flow from {FLOWS} where rebuild = {LIVE} order by flow")]


def write_flow(db: Transaction, flow: str, rebuild: int, row: FlowRow) -> None:
    """Put a flow's row in place of what was there."""
    last = row.last
    ledger = None if last.ledger is None else msgspec.json.encode(last.ledger)
    names = f"{_FLOW}, flow, rebuild".split(", ")
    db.run(
        f"insert into {FLOWS} ({', '.join(names)}) values ({', '.join('?' * len(names))})"
        f" on conflict (flow, rebuild) do update set {', '.join(f'{name} = excluded.{name}' for name in names[:-2])}",
        *(last.epoch, last.fence, position_text(last.positions), last.manifest, ledger),
        *(last.received, last.committed, last.run, row.seq, flow, rebuild),
    )


def write_epoch(db: Transaction, flow: str, rebuild: int, row: FlowRow) -> None:
    """Put a flow's row in place, and remember the epoch: to recognise it when it comes again, and for `as_of`."""
    write_flow(db, flow, rebuild, row)
    db.run(
        f"insert into {EPOCHS} (flow, rebuild, seq, epoch, positions, committed) values (?, ?, ?, ?, ?, ?)",
        *(flow, rebuild, row.seq, row.last.epoch, position_text(row.last.positions), row.last.committed),
    )


def find_positions(db: Transaction, flow: str, rebuild: int, epoch: int) -> Position | None:
    """Where the input of a committed epoch ended, as long as it is remembered."""
    row = db.one(
        f"select positions from {EPOCHS} where flow = ? and rebuild = ? and epoch = ? order by seq desc limit 1",
        *(flow, rebuild, epoch),
    )
    return None if row is None else read_position(row[0])


def forget_epochs(db: Transaction, flow: str, at: FlowRow, age: int) -> None:
    """Forget epochs older than `age`, but for the newest."""
    db.run(
        f"delete from {EPOCHS} where flow = ? and rebuild = {LIVE} and seq < ? and committed < ?",
        *(flow, at.seq - _EPOCHS_KEPT, at.last.committed - age),
    )


def find_progress(db: Transaction, view: str) -> ViewProgress:
    """How far a view is, without anything else about it."""
    row = db.one(
        f"select v.spec, v.stopped, f.seq, f.epoch, f.positions, f.committed from {VIEWS} v"
        f" left join {FLOWS} f on f.flow = v.flow and f.rebuild = {LIVE} where v.name = ? and v.rebuild = {LIVE}",
        view,
    )
    if row is None:
        raise no_view(db, view)
    spec, stopped, seq, epoch, positions, committed = row
    progress = read_stopped(stopped)
    if progress is None and seq is None:
        return NEVER.progress
    if progress is None:
        progress = ViewProgress(seq, epoch, read_position(positions), committed)
    return replace(progress, positions=of_topics(read_spec(spec), progress.positions))


def of_topics(spec: ViewSpec, positions: Position) -> Position:
    """The positions of the topics a view reads; all of them when it does not say."""
    return Position({topic: at for topic, at in positions.items() if not spec.topics or topic in spec.topics})


def rebuild_tokens(db: Transaction, flow: str) -> list[int]:
    """The rebuilds of a flow that were begun and not ended, oldest first."""
    rows = db.all(f"select rebuild from {FLOWS} where flow = ? and rebuild <> {LIVE} order by rebuild", flow)
    return [int(rebuild) for (rebuild,) in rows]


def flow_of(db: Transaction, rebuild: int) -> str:
    """The flow that a rebuild is of; `NotFound` when it was ended."""
    row = db.one(f"select flow from {FLOWS} where rebuild = ? and rebuild <> {LIVE}", rebuild)
    if row is None:
        raise NotFound(f"there is no rebuild {rebuild}; it was switched or abandoned")
    return str(row[0])


def forget_rebuild(db: Transaction, rebuild: int) -> None:
    """Forget how far a rebuild was."""
    for table in (FLOWS, EPOCHS):
        db.run(f"delete from {table} where rebuild = ?", rebuild)
