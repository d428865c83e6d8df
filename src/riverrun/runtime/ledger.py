"""The row ledger: every row that a source or an input of a stateful node has read, and where it went."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from riverrun.errors import Corrupt

COUNTS = ("read", "accepted", "late_dropped", "late_aside", "duplicates", "quarantined")

EpochCounts = Mapping[str, Mapping[str, Mapping[str, int]]]
"""What one epoch adds: node → input → count by kind."""


def check_balance(flow: str, epoch: int, counts: EpochCounts) -> None:
    """`Corrupt` unless each row read is accounted for."""
    for node, inputs in counts.items():
        for input, count in inputs.items():
            if count.get("read", 0) != sum(count.get(kind, 0) for kind in COUNTS[1:]):
                raise Corrupt(
                    f"flow {flow}, epoch {epoch}: the ledger of {node} ({input}) does not balance: {dict(count)}"
                )


def entries(counts: EpochCounts) -> list[dict[str, Any]]:
    """The same as a list, every count in it."""
    return [
        {"node": node, "input": input, **{kind: count.get(kind, 0) for kind in COUNTS}}
        for node, inputs in counts.items()
        for input, count in inputs.items()
    ]


def add_up(before: list[dict[str, Any]] | None, counts: EpochCounts) -> list[dict[str, Any]]:
    """Running totals."""
    totals = {(entry["node"], entry["input"]): dict(entry) for entry in before or []}
    for entry in entries(counts):
        total = totals.setdefault((entry["node"], entry["input"]), {**entry, **dict.fromkeys(COUNTS, 0)})
        for kind in COUNTS:
            total[kind] += entry[kind]
    return list(totals.values())
