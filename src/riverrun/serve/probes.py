"""`/healthz` and `/readyz`: the probes of whatever watches over processes."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from riverrun.errors import RiverrunError
from riverrun.serve.answers import answer
from riverrun.serve.backend import Backend
from riverrun.serve.caller import caller_of
from riverrun.serve.documents import HealthDocument, answers
from riverrun.serve.flows import Flows
from riverrun.serve.tokens import READ

_OVER = ("failed", "stopped")


def probe_routes(backend: Backend, flows: Flows) -> APIRouter:
    """The two routes."""
    routes = APIRouter(tags=["operation"])

    @routes.get("/healthz", response_model=HealthDocument, responses=answers())
    async def healthy() -> Response:
        """The process answers."""
        return answer({"status": "ok"})

    @routes.get("/readyz", response_model=HealthDocument, responses=answers())
    async def ready(request: Request) -> Response:
        """The river can be read, and the flows of this process run. What is wrong, those are told who may read."""
        wrong = await backend.read(_find_trouble, backend, flows)
        if not wrong:
            return answer({"status": "ok"})
        told = {"error": "; ".join(wrong)} if READ in caller_of(request).roles else {}
        return answer({"status": "not ready", **told}, 503)

    return routes


def _find_trouble(backend: Backend, flows: Flows) -> list[str]:
    try:
        backend.check_there()
        backend.river.topics()
        if backend.has_views():
            backend.store().views()
    except RiverrunError as error:
        return [error.message]
    if not backend.runs:
        return []
    return [f"flow {status.flow} has {status.state}" for status in flows.all() if status.state in _OVER]
