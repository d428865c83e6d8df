"""Is anything lost or doubled? Every event up to a position is counted by the view `events` exactly once.

Offsets are dense, so a position says how many rows the log holds up to it. A view and its position belong to one epoch,
so this can be asked at any moment, while events go on arriving.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from riverrun.demo.shop.events import KINDS
from riverrun.errors import TimedOut
from riverrun.river import River
from riverrun.runtime.ledger import LedgerEntry
from riverrun.views import Last

_PATIENCE = 5.0  # seconds for a moment between two commits


@dataclass(frozen=True)
class BalanceCheck:
    """What should be so, whether it is, and what was found."""

    claim: str
    held: bool
    found: str


def check_balance(river: River, flow: str, sent: Mapping[str, int] | None = None) -> list[BalanceCheck]:
    """What is claimed of the newest epoch; with `sent`, what senders had acknowledged, also that it is all of that."""
    last, counted = _read_together(river, flow)
    logged = {topic: sum(last.positions.get(topic, {}).values()) for topic in KINDS}
    ledger = msgspec.convert(last.ledger or [], list[LedgerEntry])
    aside = {topic: _count_quarantined(ledger, topic) for topic in KINDS}
    right = {KINDS[topic]: logged[topic] - aside[topic] for topic in KINDS}
    claims = [
        BalanceCheck(
            "every event in the log is counted, once",
            {kind: counted.get(kind, 0) for kind in right} == right,
            f"{sum(counted.values())} counted, {sum(logged.values())} logged, {sum(aside.values())} in quarantine",
        ),
        BalanceCheck("the ledger balances: each row read is accounted for", *_check_ledger(ledger)),
    ]
    if sent is not None:
        every = sum(sent.get(topic, 0) for topic in KINDS)
        claims.insert(
            0,
            BalanceCheck(
                "everything that was acknowledged is in the log",
                all(sent.get(topic, 0) == rows for topic, rows in logged.items()),
                f"{every} sent",
            ),
        )
        written = river.topic("readings.quarantine").describe()["offsets"] if sum(aside.values()) else 0
        claims.append(
            BalanceCheck(
                "what is in quarantine was written to its topic, once",
                written == sum(aside.values()),
                f"{written} rows",
            )
        )
    return claims


def _read_together(river: River, flow: str) -> tuple[Last, dict[str, int]]:
    """The newest epoch, and the counts it left."""
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        last = river.store.last(flow)
        counted = {row["kind"]: row["events"] for row in river.view("events").rows()}
        if river.store.last(flow).epoch == last.epoch:
            return last, counted
    raise TimedOut("epochs follow each other too fast for a look at one")


def _count_quarantined(ledger: list[LedgerEntry], topic: str) -> int:
    return sum(entry.quarantined for entry in ledger if (entry.node, entry.input) == (f"stream-{topic}", "topic"))


def _check_ledger(ledger: list[LedgerEntry]) -> tuple[bool, str]:
    wrong = [entry.node for entry in ledger if entry.missing]
    return not wrong, f"{len(ledger)} entries" if not wrong else ", ".join(wrong)
