"""`/healthz` and `/readyz`: the probes of whatever watches over processes."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from riverrun.errors import RiverrunError
from riverrun.serve.answers import answer
from riverrun.serve.backend import Backend
from riverrun.serve.documents import HealthDocument, answers
from riverrun.serve.flows import Flows

_OVER = ("failed", "stopped")


def probe_routes(backend: Backend, flows: Flows) -> APIRouter:
    """The two routes."""
    routes = APIRouter(tags=["operation"])

    @routes.get("/healthz", response_model=HealthDocument, responses=answers())
    async def healthy() -> Response:
        """The process answers."""
        return answer({"status": "ok"})

    @routes.get("/readyz", response_model=HealthDocument, responses=answers())
    async def ready() -> Response:
        """The river can be read, and the flows of this process run."""
        wrong = await backend.read(_find_trouble, backend, flows)
        return answer({"status": "not ready", "error": "; ".join(wrong)}, 503) if wrong else answer({"status": "ok"})

    return routes


def _find_trouble(backend: Backend, flows: Flows) -> list[str]:
    try:
        backend.river.topics()
        if backend.has_views():
            backend.store().views()
    except RiverrunError as error:
        return [error.message]
    if not backend.runs:
        return []
    return [f"flow {status.flow} has {status.state}" for status in flows.all() if status.state in _OVER]
