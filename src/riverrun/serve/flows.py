"""`/flows`: where every flow is. A run of this process is asked; of others, the store knows what they committed."""

from __future__ import annotations

import threading
import time
from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from riverrun.errors import NotFound, RiverrunError, Unavailable
from riverrun.serve.answers import answer
from riverrun.serve.backend import Backend, Running
from riverrun.serve.documents import FlowStatus, answers
from riverrun.views import Store

_FRESH = 0.5  # seconds for which what was found holds: asking a run costs a call to Spark


def flow_routes(flows: Flows) -> APIRouter:
    """The route `/flows`."""
    routes = APIRouter(tags=["flows"])

    @routes.get("/flows", response_model=list[FlowStatus], responses=answers())
    async def status() -> Response:
        """Every flow: epoch, positions, lag, watermarks, ledger; `here` when it runs in this process."""
        return answer(await flows.backend.read(flows.all))

    return routes


class Flows:
    """What is known of the flows, asked for at most twice a second."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self._lock = threading.Lock()
        self._at = 0.0
        self._found: list[dict[str, Any]] = []

    def all(self) -> list[dict[str, Any]]:
        """Every flow, by name."""
        with self._lock:
            if time.monotonic() > self._at + _FRESH:
                self._found = self._look()
                self._at = time.monotonic()
            return self._found

    def forget(self) -> None:
        """Ask anew the next time: something was done to a flow."""
        with self._lock:
            self._at = 0.0

    def _look(self) -> list[dict[str, Any]]:
        here = {run.name: run for run in self.backend.runs}
        store = self.backend.store() if self.backend.has_views() else None
        try:
            known = store.flows() if store else []
        except RiverrunError:
            if not here:
                raise
            known = []  # the runs say themselves that their store is away
        found = [_running(run) for run in here.values()]
        if store:
            found += [self._elsewhere(store, name) for name in known if name not in here]
        return sorted(found, key=lambda one: str(one["flow"]))

    def _elsewhere(self, store: Store, name: str) -> dict[str, Any]:
        try:
            from riverrun.runtime.manifest import home_of
            from riverrun.runtime.status import flow_status
        except ImportError as error:
            raise Unavailable(
                f"what flows say cannot be read without a package that is not installed ({error.name})",
                hint="Install it: pip install 'riverrun[spark]'",
            ) from None
        last = store.last(name)
        ends = {}
        for topic in last.positions:
            try:
                ends[topic] = self.backend.topic(topic).ends()
            except NotFound:
                continue  # dropped since
        return {
            **flow_status(name, last, ends, home_of(self.backend.river.checkpoints, name, last)),
            "here": False,
            "state": None,  # whether it runs, only its own process knows
            "fence": last.fence,
            "run": last.run,
            "ledger": last.ledger or [],
        }


def _running(run: Running) -> dict[str, Any]:
    try:
        return {**run.status(), "here": True, "ledger": run.ledger()}
    except RiverrunError as error:
        return {"flow": run.name, "here": True, "state": "unknown", "reason": error.message, "ledger": []}
