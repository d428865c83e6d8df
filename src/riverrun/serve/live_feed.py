"""Streams that many follow: one reader looks at a topic or a view, and everybody gets what it finds.

A follower first reads on its own, from where it wants to begin to where the feed is, at its own pace; then it joins.
Followers have a bounded queue. The feed waits a little for a slow one, then goes on without it: it is told, and can come
back with the id of the last event it got.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, suppress
from typing import Any, Protocol

from riverrun.errors import RiverrunError, Unavailable
from riverrun.serve.problems import Refused
from riverrun.serve.share import Share, Ticket
from riverrun.serve.sse import HEARTBEAT, trouble

log = logging.getLogger("riverrun.serve")

_QUEUE = 1 << 20  # bytes that wait for one follower; a single larger event is taken, too
_PATIENCE = 2.0  # seconds that a slow follower may hold up the others
_QUIET = 10.0  # seconds without an event after which a sign of life is sent
_PAUSE = 0.05  # seconds between two rounds: a burst is sent together
_LOOK = 1.0  # seconds a thread waits for news before it asks whether anybody is left


class Reader(Protocol):
    """Reads a topic or a view from some place on; used by one thread at a time."""

    @property
    def place(self) -> Any:
        """How far it has read; a value that does not change."""

    def read(self, end: Any = None) -> Sequence[bytes]:
        """The next events, a bounded number of them, up to the place `end`. There may be none, and the place moves."""

    def compare(self, place: Any) -> int:
        """Below 0 while there is something between its own place and that one, 0 when they are the same, above 0
        when it is ahead."""

    def wait(self, seconds: float) -> None:
        """Return when there may be more, when the time is up, or when `wake` is called."""

    def wake(self) -> None:
        """End `wait`, from any thread."""

    def close(self) -> None:
        """Let go of what it holds."""


class Follower:
    """One who gets the events of a feed."""

    def __init__(self) -> None:
        self._queue: deque[bytes] = deque()
        self._size = 0
        self._news = asyncio.Event()
        self.room = asyncio.Event()
        self.room.set()
        self._ended = False

    def put(self, events: bytes) -> None:
        self._queue.append(events)
        self._size += len(events)
        if self._size > _QUEUE:
            self.room.clear()
        self._news.set()

    def end(self, last: bytes | None, at_once: bool = False) -> None:
        """No more after this."""
        if at_once:
            self._queue.clear()
        if last is not None:
            self._queue.append(last)
        self._ended = True
        self._news.set()

    async def events(self) -> AsyncGenerator[bytes]:
        while True:
            await self._news.wait()
            self._news.clear()
            while self._queue:
                part = b"".join(self._queue)
                self._queue.clear()
                self._size = 0
                self.room.set()
                yield part
            if self._ended:
                return


class LiveFeed:
    """One reader, and those who follow it. Everything but the reading happens in the event loop."""

    def __init__(
        self, reader: Reader, threads: ThreadPoolExecutor, readers: ThreadPoolExecutor, ended: Callable[[], None]
    ) -> None:
        self._reader = reader
        self._place = reader.place  # of what was given; the reader may be further already
        self._threads = threads
        self._readers = readers
        self._followers: set[Follower] = set()
        self._joining = 0
        self._moved = asyncio.Event()
        self._ended = ended
        self._closed = False
        self._failure: RiverrunError | None = None
        self._task = asyncio.ensure_future(self._run())

    async def follow(self, own: Reader) -> AsyncGenerator[bytes]:
        """The events after the place of `own`, for as long as there are any."""
        loop = asyncio.get_running_loop()
        follower = Follower()
        self._joining += 1
        try:
            while order := own.compare(self._place):
                if order > 0:
                    self._moved.clear()
                    await self._moved.wait()
                elif events := await loop.run_in_executor(self._readers, own.read, self._place):
                    yield b"".join(events)
                self._check()
            self._check()
            self._followers.add(follower)
        except RiverrunError as error:
            yield trouble(error)
            return
        finally:
            self._joining -= 1
        try:
            async for part in follower.events():
                yield part
        finally:
            self._followers.discard(follower)

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        last = time.monotonic()
        try:
            while not self._closed and (self._followers or self._joining or time.monotonic() < last + _LOOK):
                events, place = await loop.run_in_executor(self._threads, self._next)
                await self._give(b"".join(events), place)
                if events:
                    last = time.monotonic()
                    await asyncio.sleep(_PAUSE)
                elif time.monotonic() > last + _QUIET:
                    await self._give(HEARTBEAT, place)
                    last = time.monotonic()
        except RiverrunError as error:
            self._failure = error
        except Exception as error:
            log.error("a stream broke off: %s: %s", type(error).__name__, error)
            log.debug("", exc_info=True)
            self._failure = Unavailable("the stream broke off; the server's log says why", hint="Connect again")
        finally:
            self._failure = self._failure or Unavailable("the server is being stopped", hint="Connect again")
            self._ended()
            self._moved.set()
            for follower in self._followers:
                follower.end(None if self._closed else trouble(self._failure))
            self._reader.close()

    def _next(self) -> tuple[Sequence[bytes], Any]:
        events = self._reader.read()
        if not events:
            self._reader.wait(_LOOK)
            events = self._reader.read()
        return events, self._reader.place

    async def _give(self, events: bytes, place: Any) -> None:
        if events:
            await self._make_room()
        # Without a pause from here on: who joins has either all of these events, or none.
        self._place = place
        self._moved.set()
        for follower in list(self._followers) if events else ():
            if follower.room.is_set():
                follower.put(events)
            else:
                self._followers.discard(follower)
                follower.end(trouble(_TOO_SLOW), at_once=True)

    async def _make_room(self) -> None:
        slow = [follower for follower in self._followers if not follower.room.is_set()]
        if slow:
            with suppress(TimeoutError):
                async with asyncio.timeout(_PATIENCE):
                    await asyncio.gather(*(follower.room.wait() for follower in slow))

    async def close(self) -> None:
        """End every stream, now."""
        self._closed = True
        self._reader.wake()
        with suppress(Exception):
            await self._task


_TOO_SLOW = Unavailable(
    "events come faster than this client takes them", hint="Connect again with Last-Event-ID: nothing is lost"
)


class Feeds:
    """The feeds that somebody follows, by what they read. Of the streams there may be, one client may have half."""

    def __init__(self, threads: ThreadPoolExecutor, readers: ThreadPoolExecutor, limit: int) -> None:
        self._threads = threads  # each feed takes one
        self._readers = readers
        self._share = Share(limit)
        self._feeds: dict[Hashable, LiveFeed] = {}
        self._closed = False

    @property
    def is_closed(self) -> bool:
        """Whether every stream has to end."""
        return self._closed

    @property
    def clients(self) -> int:
        """How many streams there are, those of pages, too."""
        return self._share.taken

    def admit(self, account: str) -> Ticket:
        """One more may come; `Refused` when there is no room."""
        if self._closed:
            raise Refused(503, "the server is being stopped")
        if not self._share.fits(account):
            is_full = self._share.taken >= self._share.limit
            said = (
                f"{self._share.limit} streams are"
                if is_full
                else f"this client has {self._share.each} streams that are"
            )
            raise Refused(429, f"{said} being followed already", hint="See the setting http_clients")
        return Ticket(self._share, account)

    async def follow(self, what: Hashable, own: Reader, make: Callable[[], Reader]) -> AsyncGenerator[bytes]:
        """The events after the place of `own`. `make` gives the reader that everybody shares, placed at the end."""
        try:
            if what not in self._feeds:
                shared = await asyncio.get_running_loop().run_in_executor(self._readers, make)
                if self._closed:
                    shared.close()
                    return
                if what in self._feeds:
                    shared.close()
                else:
                    self._feeds[what] = LiveFeed(shared, self._threads, self._readers, lambda: self._forget(what))
            async with aclosing(self._feeds[what].follow(own)) as events:
                async for part in events:
                    yield part
        except RiverrunError as error:
            yield trouble(error)
        finally:
            own.close()

    def _forget(self, what: Hashable) -> None:
        self._feeds.pop(what, None)

    async def close(self) -> None:
        """End every stream, and begin no more."""
        self._closed = True
        await asyncio.gather(*(feed.close() for feed in list(self._feeds.values())))
