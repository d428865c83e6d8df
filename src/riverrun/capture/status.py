"""What a capture tells: its state, how far it is, its lag, and each table. Plain data, for people and programs."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import asdict, dataclass, field, replace
from typing import Any

_SPAN = 5.0  # seconds over which rates are taken


@dataclass
class TableStatus:
    """One table of a capture."""

    topic: str
    state: str = "starting"  # "snapshot", "streaming", "stopped"
    reason: str | None = None
    snapshot_rows: int = 0
    snapshot_of: int | None = None
    rows: int = 0
    rows_per_second: float = 0.0


@dataclass
class CaptureStatus:
    """A capture as it is now."""

    name: str
    source: str
    state: str = "starting"  # "snapshot", "streaming", "waiting" (for the source), "stopped", "failed"
    reason: str | None = None
    position: str | None = None
    lag_bytes: int | None = None
    lag_seconds: float | None = None
    held_bytes: int | None = None  # what the source keeps on its disk for this capture
    tables: dict[str, TableStatus] = field(default_factory=dict)

    def plain(self) -> dict[str, Any]:
        """For JSON. Of one moment, whichever thread asks: tables are added while a capture begins."""
        return asdict(replace(self, tables=dict(self.tables)))


class Rates:
    """Rows per second of tables, over the last seconds."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, dict[str, int]]] = deque()

    def note(self, rows: dict[str, int], now: float | None = None) -> dict[str, float]:
        """Take in how many rows there were in all by now, and give the rates."""
        moment = time.monotonic() if now is None else now
        self._seen.append((moment, rows))
        while len(self._seen) > 2 and self._seen[1][0] < moment - _SPAN:
            self._seen.popleft()
        begun, before = self._seen[0]
        passed = moment - begun
        return {
            name: round((count - before.get(name, 0)) / passed, 1) if passed > 0 else 0.0
            for name, count in rows.items()
        }
