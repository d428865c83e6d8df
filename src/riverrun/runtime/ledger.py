"""The row ledger: every row that a source or an input of a stateful node has read, and where it went."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from riverrun.errors import Corrupt

if TYPE_CHECKING:
    from riverrun.runtime.compile.job import Job


class LedgerEntry(msgspec.Struct, frozen=True):
    """Where the rows went that one input of a node has read, in total.

    Late are those that came when nothing could count them any more: dropped, or put aside. Two are no part of the sum but
    some of the accepted ones: `corrected` came to a window that had been issued, which was issued again; `deleted` are the
    tombstones of a table. `given_up` are attempts of a pattern that were open for more rows than may be kept, if there were
    any. `name` is what the flow calls the node, if it does.
    """

    node: str
    input: str
    read: int = 0
    accepted: int = 0
    late_dropped: int = 0
    late_aside: int = 0
    duplicates: int = 0
    quarantined: int = 0
    corrected: int = 0
    deleted: int = 0
    given_up: int = 0
    name: str | None = None

    @property
    def late(self) -> int:
        """Rows that came too late to count."""
        return self.late_dropped + self.late_aside

    @property
    def called(self) -> str:
        """The node's name, or its id."""
        return self.name or self.node

    @property
    def missing(self) -> int:
        """Rows that were read and are not accounted for: 0, or the ledger does not balance."""
        return self.read - sum(self.count(part) for part in LEDGER_PARTS)

    def count(self, kind: str) -> int:
        """The count of that name."""
        return int(getattr(self, kind))


LEDGER_COUNTS = LedgerEntry.__struct_fields__[2:-2]  # what every entry has; attempts are given up by patterns only
LEDGER_PARTS = ("accepted", "late_dropped", "late_aside", "duplicates", "quarantined")  # what `read` is the sum of

EpochCounts = Mapping[str, Mapping[str, Mapping[str, int]]]
"""What one epoch adds: node → input → count by kind."""


def check_balance(flow: str, epoch: int, counts: EpochCounts) -> None:
    """`Corrupt` unless each row read is accounted for."""
    for node, inputs in counts.items():
        for input, count in inputs.items():
            if count.get("read", 0) != sum(count.get(kind, 0) for kind in LEDGER_PARTS):
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
    nothing = dict.fromkeys(LEDGER_COUNTS, 0)
    totals: dict[tuple[str, str], dict[str, Any]] = {
        (node, input): {"node": node, "input": input, **nothing} for node, input in inputs_of(job)
    }
    # what an older version wrote may know fewer counts
    totals |= {(entry["node"], entry["input"]): {**nothing, **entry} for entry in before or []}
    for node, inputs in counts.items():
        for input, count in inputs.items():
            for kind, number in count.items():
                if number or kind in LEDGER_COUNTS:
                    totals[node, input][kind] = totals[node, input].get(kind, 0) + number
    for entry in totals.values():
        entry.pop("name", None)
        if entry["node"] in job.names:
            entry["name"] = job.names[entry["node"]]
    return list(totals.values())
