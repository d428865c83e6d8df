"""Which run of each flow is alive, as the runs tell: a row for each flow."""

from __future__ import annotations

from riverrun.views.epoch import Incumbent
from riverrun.views.sql.catalogue import RUNS
from riverrun.views.sql.database import Transaction


def write_incumbent(db: Transaction, flow: str, told: Incumbent) -> None:
    """A run was heard, maybe for the first time. An older one than the newest that was heard is not."""
    db.run(
        f"insert into {RUNS} (flow, fence, run, process, since, heard) values (?, ?, ?, ?, ?, ?)"
        " on conflict (flow) do update set run = excluded.run, process = excluded.process, heard = excluded.heard,"
        f" since = case when {RUNS}.fence = excluded.fence then {RUNS}.since else excluded.since end,"
        f" fence = excluded.fence where {RUNS}.fence <= excluded.fence",
        *(flow, told.fence, told.run, told.process, told.since, told.heard),
    )


def remove_incumbent(db: Transaction, flow: str, fence: int) -> None:
    """A run has ended."""
    db.run(f"delete from {RUNS} where flow = ? and fence = ?", flow, fence)


def find_incumbent(db: Transaction, flow: str) -> Incumbent | None:
    """The run that was heard last."""
    row = db.one(f"select fence, run, process, since, heard from {RUNS} where flow = ?", flow)
    return None if row is None else Incumbent(*row)
