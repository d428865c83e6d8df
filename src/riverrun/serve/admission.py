"""How much of what is being sent is held in memory at once."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from riverrun.serve.problems import Refused


class Admission:
    """Counts the bytes of all bodies that are received or appended. Used from the event loop only.

    `memory` is the limit for all of them: what does not fit is refused, to be sent again. Of those that are complete,
    only `parsing` bytes are made into rows at once, since rows take several times as much; the others wait their turn.
    """

    def __init__(self, memory: int, parsing: int) -> None:
        self._memory = memory
        self._parsing = parsing
        self.held = 0
        self._parsed = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    def take(self, size: int) -> None:
        """So many bytes more; `Refused` when that is too much."""
        if self.held + size > self._memory:
            raise Refused(429, "too much is being sent at once", hint="Send it again a little later")
        self.held += size

    def give_back(self, size: int) -> None:
        """So many bytes less."""
        self.held -= size

    @asynccontextmanager
    async def turn(self, size: int) -> AsyncIterator[None]:
        """Wait until a body of this size may be made into rows: in order, and one that is too large alone."""
        while self._parsed and self._parsed + size > self._parsing:
            future = asyncio.get_running_loop().create_future()
            self._waiting.append(future)
            try:
                await future
            finally:
                if future in self._waiting:
                    self._waiting.remove(future)
        self._parsed += size
        try:
            yield
        finally:
            self._parsed -= size
            while self._waiting:
                future = self._waiting.popleft()
                if not future.done():
                    future.set_result(None)
