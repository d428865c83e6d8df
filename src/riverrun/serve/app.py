"""The HTTP API of a river, put together."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pyarrow as pa
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from riverrun import __version__
from riverrun.errors import RiverrunError, Transient, from_system
from riverrun.river import River
from riverrun.serve.backend import Backend, Running
from riverrun.serve.counts import RequestCounter
from riverrun.serve.dead_letter_routes import dead_letter_routes
from riverrun.serve.flows import Flows, flow_routes
from riverrun.serve.guard import Guard
from riverrun.serve.metrics import metric_routes
from riverrun.serve.paced_answers import PacedAnswers
from riverrun.serve.pages.routes import dashboard
from riverrun.serve.probes import probe_routes
from riverrun.serve.problems import answer_error, answer_http_error, problem
from riverrun.serve.tokens import Tokens
from riverrun.serve.topic_routes import topic_routes
from riverrun.serve.view_routes import Summaries, view_routes

Pages = Callable[[FastAPI, Backend, Flows], None]

_ABOUT = (
    "Events in, views and their changes out. Errors are {error, hint}; positions are strings such as orders@0:17,1:4."
)


def create_app(
    river: River,
    runs: Sequence[Running] = (),
    *,
    host: str = "127.0.0.1",
    tokens: Tokens | None = None,
    pages: Pages | None = dashboard,
) -> FastAPI:
    """The app for a river, and for the runs of this process.

    `host` is the address it is bound to, which decides the names it answers to. `tokens` are those of the river's
    settings, if none are given. `pages` adds routes for people, after those of the API (None: the API alone): it gets
    the app, and what requests share (`app.state.backend` is the same).
    """
    backend = Backend(river, runs)
    flows, summaries = Flows(backend), Summaries(backend)
    settings = river.settings

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        # pyarrow loads pandas, where there is one, with the first array; no request should wait for that.
        await backend.read(pa.array, [None])
        beside = [asyncio.ensure_future(each()) for each in backend.beside]
        yield
        for task in beside:
            task.cancel()
        await asyncio.gather(*beside, return_exceptions=True)
        await backend.feeds.close()
        backend.close()

    app = FastAPI(
        title="Riverrun",
        version=__version__,
        description=_ABOUT,
        lifespan=lifespan,
        docs_url=None,  # its pages would load scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.backend = backend
    for routes in (
        topic_routes(backend),
        dead_letter_routes(backend),
        view_routes(backend, summaries),
        flow_routes(flows),
        metric_routes(backend, flows, summaries),
        probe_routes(backend, flows),
    ):
        app.include_router(routes)
    if pages is not None:
        pages(app, backend, flows)
    app.exception_handler(RiverrunError)(_failed)
    app.exception_handler(OSError)(_short_of_something)
    app.exception_handler(HTTPException)(_not_served)
    app.exception_handler(RequestValidationError)(_misused)
    app.add_middleware(PacedAnswers, memory=backend.answers)
    app.add_middleware(RequestCounter, counts=backend.counts)
    hosts = settings.http_hosts.split(",")
    app.add_middleware(
        Guard,
        host=host,
        hosts=hosts,
        tokens=Tokens.load(settings) if tokens is None else tokens,
        rate=settings.http_rate,
    )
    app.openapi = lambda: _without_422(app)  # type: ignore[method-assign]
    return app


async def _failed(request: Request, error: Exception) -> Response:
    assert isinstance(error, RiverrunError)
    return answer_error(error)


async def _short_of_something(request: Request, error: Exception) -> Response:
    """Files or memory, which will be there again; whatever else it is, is a defect."""
    assert isinstance(error, OSError)
    known = from_system(error, "the server cannot do this now")
    if not isinstance(known, Transient):
        raise error
    return answer_error(known)


async def _not_served(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return answer_http_error(error)


async def _misused(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    return problem(400, f"{first['loc'][-1]}: {first['msg']}")


def _without_422(app: FastAPI) -> dict[str, Any]:
    """FastAPI announces 422 for what is answered with 400 here."""
    if app.openapi_schema is None:
        document = FastAPI.openapi(app)
        for operations in document["paths"].values():
            for operation in operations.values():
                operation.get("responses", {}).pop("422", None)
        for name in ("HTTPValidationError", "ValidationError"):
            document.get("components", {}).get("schemas", {}).pop(name, None)
        app.openapi_schema = document
    return app.openapi_schema
