"""Where the changes that triggers write down end."""

from __future__ import annotations

import math
from collections.abc import Callable

from riverrun.capture.changes import LogEnd
from riverrun.capture.sqlite.installation import Installation, number_of
from riverrun.capture.sqlite.session import connect, explaining, reading


class ChangesGauge:
    """Implements `LogGauge`: positions have the numbers of changes, `row_bytes` says about how large one is."""

    def __init__(self, path: str, name: str, row_bytes: Callable[[], float]) -> None:
        self._path = path
        self._db = connect(path)
        self._installation = Installation(self._db, name)
        self._row_bytes = row_bytes

    def measure(self, position: int) -> LogEnd:
        with reading(self._db, f"{self._path} cannot be read"):
            end = self._installation.end()
        behind = max(number_of(end) - number_of(position), 0)
        return LogEnd(end, math.ceil(behind * self._row_bytes()))

    def close(self) -> None:
        with explaining(f"{self._path} cannot be closed"):
            self._db.close()
