"""A river with a topic and a view, served by a real server on a free port of this machine."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest

from riverrun.river import River
from riverrun.serve.server import Background, serve_in_background
from riverrun.settings import Settings
from riverrun.views import Epoch, ViewSpec

ORDERS = "user string, amount double, at timestamp"
TOTALS = "user string, n bigint, total double"
AT = "2026-01-31T12:00:00Z"


def order(user: str = "ada", amount: float = 9.5, at: str = AT) -> dict[str, Any]:
    return {"user": user, "amount": amount, "at": at}


def totals_of() -> ViewSpec:
    return ViewSpec("totals", "shop", TOTALS, ("user",), topics=("orders",))


@dataclass
class CommittedFlow:
    """Commits epochs to the river's store, as a run would."""

    river: River
    spec: ViewSpec
    epoch: int = 0
    offset: int = 0
    fence: int = field(init=False)

    def __post_init__(self) -> None:
        self.river.store.declare(self.spec)
        self.fence = self.river.store.take_fence(self.spec.flow)

    def commit(self, *rows: tuple[Any, ...], offset: int | None = None, ledger: Any = None) -> None:
        """Rows of the view, each with its weight behind it."""
        self.epoch += 1
        self.offset = self.offset + 10 if offset is None else offset
        columns = list(zip(*rows, strict=True)) or [()] * (len(self.spec.arrow) + 1)
        arrays = [pa.array(column, kind.type) for column, kind in zip(columns, self.spec.arrow, strict=False)]
        table = pa.table([*arrays, pa.array(columns[-1], pa.int8())], names=[*self.spec.names, "_weight"])
        epoch = Epoch(
            self.spec.flow,
            fence=self.fence,
            epoch=self.epoch,
            positions={"orders": {0: self.offset}},
            changes={self.spec.name: table},
            ledger=ledger,
        )
        assert self.river.store.commit(epoch)


@pytest.fixture
def river(tmp_path: Path) -> Iterator[River]:
    with River(tmp_path / "river", settings=Settings(http_body_bytes=1 << 20)) as opened:
        opened.topic("orders", ORDERS, key="user", time="at", partitions=2, fsync="os")
        yield opened


@pytest.fixture
def totals(river: River) -> CommittedFlow:
    """The flow `shop` with its view `totals`."""
    return CommittedFlow(river, totals_of())


@pytest.fixture
def serve(river: River) -> Iterator[Callable[..., Background]]:
    """serve() serves the river; as often as you like, with what `serve_in_background` takes."""
    served: list[Background] = []

    def start(run: Any = None, port: int = 0, **more: Any) -> Background:
        served.append(serve_in_background(more.pop("river", river), run, port=port, **more))
        return served[-1]

    yield start
    for one in served:
        one.close()


@pytest.fixture
def http(serve: Callable[..., Background]) -> Iterator[httpx.Client]:
    """A client of a server for the river."""
    with httpx.Client(base_url=serve().url, timeout=20) as client:
        yield client


class EventReader:
    """Server-sent events as they come."""

    def __init__(self, response: httpx.Response) -> None:
        self.response = response
        self.lines = self._split(response)

    @staticmethod
    def _split(response: httpx.Response) -> Iterator[str]:
        """By line feeds alone: httpx would also split at characters that end no line here."""
        rest = b""
        for part in response.iter_bytes():
            *whole, rest = (rest + part).split(b"\n")
            yield from (line.decode() for line in whole)

    def next(self) -> dict[str, Any]:
        """The next event: id, event, data."""
        found: dict[str, Any] = {}
        for line in self.lines:
            name, _, value = line.partition(": ")
            if not line and "data" in found:
                return {**found, "data": json.loads(found["data"])}
            if name in ("id", "data", "event"):
                found[name] = value
        raise StopIteration

    def take(self, count: int) -> list[dict[str, Any]]:
        return [self.next() for _ in range(count)]


@pytest.fixture
def stream(http: httpx.Client) -> Iterator[Callable[..., EventReader]]:
    """stream("/topics/orders/tail") follows; closed at the end."""
    opened: list[Any] = []

    def follow(url: str, last: str | None = None, base: str | None = None, accept: str = "*/*") -> EventReader:
        headers = {"accept": accept} if last is None else {"accept": accept, "last-event-id": last}
        context = httpx.stream("GET", (base or str(http.base_url)).rstrip("/") + url, headers=headers, timeout=20)
        response = context.__enter__()
        opened.append(context)
        return EventReader(response)

    yield follow
    for context in opened:
        context.__exit__(None, None, None)
