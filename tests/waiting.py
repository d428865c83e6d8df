"""Wait for what another thread or process does."""

from __future__ import annotations

import time
from collections.abc import Callable


def until(done: Callable[[], object], timeout: float = 60) -> None:
    """Look again and again. A machine may be busy: only a test that fails waits for the whole time."""
    deadline = time.monotonic() + timeout
    while not done():
        assert time.monotonic() < deadline, "too late"
        time.sleep(0.01)
