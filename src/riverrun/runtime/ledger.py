"""The row ledger: every row that a source or an input of a stateful node has read, and where it went."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from riverrun.errors import Corrupt
from riverrun.runtime.compile.job import Job

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


def inputs_of(job: Job) -> list[tuple[str, str]]:
    """Everything that has an entry: sources, with the topic as their input, and the inputs of stateful nodes."""
    sources = [(reading.id, "topic") for reading in job.readings]
    return sources + [(operator.id, name) for stage in job.stages for operator in stage for name in operator.inputs]


def entries(job: Job, counts: EpochCounts) -> list[dict[str, Any]]:
    """What an epoch adds, an entry for every input of the job."""
    return add_up(job, None, counts)


def add_up(job: Job, before: list[dict[str, Any]] | None, counts: EpochCounts) -> list[dict[str, Any]]:
    """Running totals; inputs that the job no longer has keep theirs."""
    totals = {
        (node, input): {"node": node, "input": input, **dict.fromkeys(COUNTS, 0)} for node, input in inputs_of(job)
    }
    totals |= {(entry["node"], entry["input"]): dict(entry) for entry in before or []}
    for node, inputs in counts.items():
        for input, count in inputs.items():
            for kind, number in count.items():
                totals[node, input][kind] += number
    return list(totals.values())
