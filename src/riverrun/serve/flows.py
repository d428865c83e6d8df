"""`/flows`: where every flow is. A run of this process is asked; of others, the store knows what they committed."""

from __future__ import annotations

import threading
import time
from typing import Any

import msgspec
from fastapi import APIRouter
from starlette.responses import Response

from riverrun.errors import NotFound, RiverrunError, not_installed
from riverrun.runtime.status import FlowStatus, StoredStatus
from riverrun.serve.answers import answer
from riverrun.serve.backend import Backend, Running
from riverrun.serve.documents import FlowDocument, answers
from riverrun.views import Store

_FRESH = 0.5  # seconds for which an answer holds: asking a run costs a call to Spark


def flow_routes(flows: Flows) -> APIRouter:
    """The route `/flows`."""
    routes = APIRouter(tags=["flows"])

    @routes.get("/flows", response_model=list[FlowDocument], responses=answers())
    async def status() -> Response:
        """Every flow: epoch, positions, lag, watermarks, ledger; `here` when it runs in this process."""
        return answer([describe_flow(status) for status in await flows.backend.read(flows.all)])

    return routes


def describe_flow(status: FlowStatus) -> dict[str, Any]:
    """A status as clients get it: without what nobody here can know."""
    document = status.plain()
    if status.state == "unknown":
        document = {name: document[name] for name in ("flow", "state", "reason", "ledger")}
    elif status.state is None:
        document = {name: document[name] for name in (*StoredStatus.__struct_fields__, "state")}
    return {**document, "here": status.state is not None}


class Flows:
    """The status of every flow, asked for at most twice a second."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self._lock = threading.Lock()
        self._at = 0.0
        self._statuses: list[FlowStatus] = []

    def all(self) -> list[FlowStatus]:
        """Every flow, by name."""
        with self._lock:
            if time.monotonic() > self._at + _FRESH:
                self._statuses = self._look()
                self._at = time.monotonic()
            return self._statuses

    def forget(self) -> None:
        """Ask anew the next time: something was done to a flow."""
        with self._lock:
            self._at = 0.0

    def _look(self) -> list[FlowStatus]:
        here = {run.name: run for run in self.backend.runs}
        store = self.backend.store() if self.backend.has_views() else None
        try:
            names = store.flows() if store else []
        except RiverrunError:
            if not here:
                raise
            names = []  # the runs say themselves that their store is away
        statuses = [_ask(run) for run in here.values()]
        if store:
            statuses += [self._read_stored(store, name) for name in names if name not in here]
        return sorted(statuses, key=lambda status: status.flow)

    def _read_stored(self, store: Store, name: str) -> FlowStatus:
        """Of a flow that does not run here; whether it runs, only its own process knows."""
        try:
            from riverrun.runtime.lag import measure_lag
            from riverrun.runtime.manifest import home_of
            from riverrun.runtime.stored_status import read_status
        except ImportError as error:
            raise not_installed("what a flow says", error, "spark") from None
        last = store.last(name)
        topics = {}
        for topic in last.positions:
            try:
                topics[topic] = self.backend.topic(topic)
            except NotFound:
                continue  # dropped since
        lag = measure_lag(topics, last.positions)
        home = home_of(self.backend.river.checkpoints, name, last)
        return FlowStatus(**msgspec.structs.asdict(read_status(name, last, lag, home)))


def _ask(run: Running) -> FlowStatus:
    try:
        return run.observe()
    except RiverrunError as error:
        return FlowStatus(flow=run.name, state="unknown", reason=error.message)
