"""What all requests share: the river, the runs of this process, and threads for everything that waits for a disk."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from riverrun.errors import NotFound, Unavailable
from riverrun.log.topic import Topic
from riverrun.river import River
from riverrun.runtime.status import EpochTimes, FlowStatus
from riverrun.serve.counts import RequestCounts
from riverrun.serve.live_feed import Feeds
from riverrun.serve.memory_budget import MemoryBudget
from riverrun.views import Store

if TYPE_CHECKING:
    from riverrun.flow import Flow

T = TypeVar("T")

# Writers wait for the disk together (group commit), so a few threads are enough for many appends.
_APPENDING, _READING, _FOLLOWING = 8, 16, 64
LARGEST_PAGE = 16 << 20  # bytes of rows in one answer


class Running(Protocol):
    """A run of a flow, as this process can ask it."""

    @property
    def name(self) -> str:
        """The flow's name, with the suffix of a replay."""

    @property
    def flow(self) -> Flow:
        """The flow as it was declared."""

    def observe(self) -> FlowStatus:
        """Where it is now; a `RiverrunError` where it cannot say."""

    def epochs(self) -> list[EpochTimes]:
        """Its last epochs, oldest first."""


class Backend:
    """Opens topics and views for requests. The river stays its owner's."""

    def __init__(self, river: River, runs: Sequence[Running] = ()) -> None:
        self.river = river
        self.runs = tuple(runs)
        self._directory = _identify(river.path)
        self.counts = RequestCounts()
        self.memory = MemoryBudget(river.settings.http_memory, river.settings.http_body_bytes)
        self.answers = MemoryBudget(river.settings.http_memory, LARGEST_PAGE, "too many answers wait to be taken")
        self.beside: list[Callable[[], Coroutine[Any, Any, None]]] = []  # what goes on for as long as it is served
        self._appending = ThreadPoolExecutor(_APPENDING, "riverrun-append")
        self._reading = ThreadPoolExecutor(_READING, "riverrun-read")
        self._following = ThreadPoolExecutor(_FOLLOWING, "riverrun-follow")
        self.feeds = Feeds(self._following, self._reading, river.settings.http_clients)

    async def append(self, call: Callable[..., T], *arguments: Any) -> T:
        """Call it in a thread for appends."""
        return await asyncio.get_running_loop().run_in_executor(self._appending, call, *arguments)

    async def read(self, call: Callable[..., T], *arguments: Any) -> T:
        """Call it in a thread for reading."""
        return await asyncio.get_running_loop().run_in_executor(self._reading, call, *arguments)

    def topic(self, name: str) -> Topic:
        """A topic that is there; `NotFound` names the nearest."""
        return self.river.topic(name)

    def reopen_if_grown(self, topic: Topic) -> Topic | None:
        """The topic with the columns that another process has added meanwhile; None when there are none."""
        schema = topic.backend.newest_schema()
        if schema == topic.spec.schema:
            return None
        return self.river.topic(topic.name, schema)

    def check_there(self) -> None:
        """`Unavailable` when the river has been moved or removed: what is open of it would go on as if nothing were."""
        try:
            found: tuple[int, ...] | None = _identify(self.river.path)
        except OSError:
            found = None
        if found != self._directory:
            raise Unavailable(f"the river {self.river.path} is not there any more", hint="Put it back, or start again")

    def has_views(self) -> bool:
        """Whether there is a store of views; looking must not make one."""
        self.check_there()
        return "://" in self.river.views_address or os.path.exists(self.river.views_address)

    def store(self) -> Store:
        """The store of views; `NotFound` before the first flow has made one."""
        if not self.has_views():
            raise NotFound("there are no views yet", hint="Run a flow that makes some: riverrun run FLOW.py")
        return self.river.store

    def close(self) -> None:
        """Let the threads go; what they do is finished first."""
        for executor in (self._appending, self._reading, self._following):
            executor.shutdown(wait=True, cancel_futures=True)


def _identify(path: str | os.PathLike[str]) -> tuple[int, int]:
    found = os.stat(path)
    return found.st_dev, found.st_ino
