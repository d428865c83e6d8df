"""`s.latest(key)`: the last row of each key."""

from __future__ import annotations

from dataclasses import dataclass, field

from riverrun.flow.operators.node import IDENTITY, Node


@dataclass(frozen=True, eq=False, kw_only=True)
class Latest(Node):
    """The last row of each key by event time; of equal times, the later in the log."""

    kind = "latest"
    stateful = True
    is_table = True
    retracts = True
    by: tuple[str, ...] = field(metadata=IDENTITY)

    @property
    def key(self) -> tuple[str, ...]:
        return self.by

    @property
    def routes(self) -> tuple[tuple[str, ...], ...]:
        return (self.by,)

    @property
    def label(self) -> str:
        return f"latest by {', '.join(self.by)}"
