"""How much of what is being sent, either way, is held in memory at once."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from riverrun.serve.problems import Refused
from riverrun.serve.share import Share


class MemoryBudget:
    """Counts the bytes of all bodies that are received or appended, or of all answers. Used from the event loop only.

    `memory` is the limit for all of them, of which one client may take half, and always one body of `parsing` bytes: what
    does not fit is refused, to be sent again. Of those that are complete, only `parsing` bytes are made into rows at once,
    since rows take several times as much (and so for rows that are made into an answer); the others wait their turn.
    """

    def __init__(self, memory: int, parsing: int, full: str = "too much is being sent at once") -> None:
        self._share = Share(memory, parsing)
        self._full = full
        self._parsing = parsing
        self._parsed = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    @property
    def held(self) -> int:
        """The bytes of all bodies."""
        return self._share.taken

    def take(self, account: str, size: int) -> None:
        """So many bytes more for a client; `Refused` when that is too much."""
        if not self._share.fits(account, size):
            raise Refused(429, self._full, hint="Send it again a little later")
        self._share.take(account, size)

    def give_back(self, account: str, size: int) -> None:
        """So many bytes less."""
        self._share.give_back(account, size)

    @contextmanager
    def holding(self, account: str, size: int) -> Iterator[None]:
        """So many bytes are held meanwhile. What is larger than a client's share counts as all of it."""
        size = min(size, self._share.each, self._share.limit)
        self.take(account, size)
        try:
            yield
        finally:
            self.give_back(account, size)

    @asynccontextmanager
    async def turn(self, size: int) -> AsyncIterator[None]:
        """Wait until a body of this size may be made into rows: first come, first served; a large one goes alone."""
        if self._waiting or not self._fits(size):
            future = asyncio.get_running_loop().create_future()
            self._waiting.append((size, future))
            try:
                await future
            except asyncio.CancelledError:
                if future.cancelled():
                    self._waiting.remove((size, future))
                else:
                    self._end(size)  # it was given its turn just now
                raise
        else:
            self._parsed += size
        try:
            yield
        finally:
            self._end(size)

    def _fits(self, size: int) -> bool:
        return not self._parsed or self._parsed + size <= self._parsing

    def _end(self, size: int) -> None:
        self._parsed -= size
        while self._waiting and self._fits(self._waiting[0][0]):
            following, future = self._waiting.popleft()
            self._parsed += following
            future.set_result(None)
