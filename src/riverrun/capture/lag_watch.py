"""A thread that looks at a capture while the capture's own one is busy."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Self

from riverrun.errors import RiverrunError

_EVERY = 0.2  # seconds
_ENDING = 5.0


class LagWatch:
    """Calls `look` again and again, until the end of the block."""

    def __init__(self, name: str, look: Callable[[], None]) -> None:
        self._look = look
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"riverrun-lag-{name}", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(_ENDING)

    def _run(self) -> None:
        while not self._ended.wait(_EVERY):
            try:
                self._look()
            except RiverrunError:
                continue  # the capture's own thread comes to it, too, and knows what to do
