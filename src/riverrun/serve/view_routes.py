"""`/views`: rows by condition or by key, as fresh as a position, and changes as they come."""

from __future__ import annotations

import re
import threading
from typing import Annotated, Any

import pyarrow as pa
from fastapi import APIRouter, Header, Path, Query, Request
from starlette.datastructures import URL
from starlette.responses import Response

from riverrun.durations import seconds
from riverrun.errors import Invalid, NotFound, Unavailable
from riverrun.position import Position
from riverrun.serve.answers import answer, encode
from riverrun.serve.arrivals import Arrivals
from riverrun.serve.backend import LARGEST_PAGE, Backend
from riverrun.serve.caller import caller_of
from riverrun.serve.documents import ViewSummary, answers
from riverrun.serve.sse import EventStream
from riverrun.serve.url_query import parse_key, parse_selection
from riverrun.serve.view_changes import ViewChanges
from riverrun.views import Store, View, ViewSpec
from riverrun.views.changelog import Cursor
from riverrun.views.columns import rows_of
from riverrun.views.view import counted, described

Name = Annotated[str, Path(description="The view.", max_length=200)]
AtLeast = Annotated[str | None, Query(description="Wait until the input up to this position has been processed")]
Timeout = Annotated[str, Query(description="How long to wait for `at_least`")]

_NUMBER = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")
MOST_ROWS = 100_000
_ROWS = 1000
_MOST_FOUND = 1000  # by a search
_PATIENCE = 30.0  # seconds to find the rows of one answer
_LONGEST = 300.0  # seconds that a request may wait
_EVENTS: dict[str, Any] = {"description": "Server-sent events", "content": {"text/event-stream": {}}}
_FILTERS = {
    "parameters": [
        {
            "name": "filters",
            "in": "query",
            "style": "form",
            "explode": True,
            "description": "`column=value`, or `column.operator=value` with eq, ne, lt, le, gt, ge, has, null",
            "schema": {"type": "object", "additionalProperties": {"type": "string"}},
        }
    ]
}


def view_routes(backend: Backend, summaries: Summaries) -> APIRouter:
    """The routes below `/views`."""
    routes = APIRouter(tags=["views"])
    arrivals = Arrivals(backend)

    async def fresh(name: str, at_least: str | None, timeout: str) -> View:
        view = await backend.read(_open, backend, name)
        if at_least is not None:
            wanted = Position.parse(at_least)
            await backend.read(view.has_processed, wanted)
            await arrivals.wait(view, wanted, min(_patience(timeout), _LONGEST))
        return view

    @routes.get("/views", response_model=list[ViewSummary], responses=answers())
    async def views() -> Response:
        """The views: their rows, key, flow, and how far they are."""
        return answer(await backend.read(summaries.all))

    @routes.get(
        "/views/{view}",
        response_model=list[dict[str, Any]],
        responses=answers(400, 404, 410, 429, 504),
        openapi_extra=_FILTERS,
    )
    async def rows(
        request: Request,
        view: Name,
        limit: Annotated[int, Query(ge=0, le=MOST_ROWS, description="At most so many rows")] = _ROWS,
        offset: Annotated[int, Query(ge=0, lt=1 << 53, description="Pass over so many first")] = 0,
        order: Annotated[list[str] | None, Query(description="Columns; `-amount` for descending")] = None,
        q: Annotated[
            str | None, Query(description="Words to look for, in a view that is searched", max_length=10_000)
        ] = None,
        highlight: Annotated[str | None, Query(description="With `q`, `true`: what met it, as `_highlight`")] = None,
        at_least: AtLeast = None,
        timeout: Timeout = "30 seconds",
    ) -> Response:
        """Rows in key order, or as `order` says; fewer than `limit` where they are large. The header Link has the next page,
        where there is one.

        With `q`, the rows of a view in a search index that meet a search, best first.

        Riverrun-Position says how far the view has come; Riverrun-Cursor is where to go on with its changes.
        """
        opened = await fresh(view, at_least, timeout)
        given = request.query_params.multi_items()
        if q is not None and (opened.spec.is_searched or "q" not in opened.spec.visible):
            headers, found = await backend.read(_search, backend, opened, given, q, limit, highlight == "true")
            return Response(await backend.read(encode, found), headers=headers, media_type="application/json")

        def read() -> tuple[pa.Table, bool, dict[str, str]]:
            store, spec = backend.store(), opened.spec
            wanted = parse_selection(spec, given, order or [], limit, offset)
            headers = _freshness(store, spec)
            return *store.page(view, wanted, LARGEST_PAGE, _PATIENCE), headers

        table, more, headers = await backend.read(read)
        with backend.answers.holding(caller_of(request).account, table.nbytes):
            async with backend.answers.turn(table.nbytes):
                body = await backend.read(lambda: encode(rows_of(table)))
        if more:
            url = URL(scope=request.scope).include_query_params(offset=offset + table.num_rows, limit=limit)
            headers["link"] = f'<{url.path}?{url.query}>; rel="next"'
        return Response(body, headers=headers, media_type="application/json")

    @routes.get(
        "/views/{view}/changes",
        response_class=Response,
        responses={**answers(400, 404, 410, 429), 200: _EVENTS},
    )
    async def changes(
        request: Request,
        view: Name,
        since: Annotated[str | None, Query(description="A cursor; `oldest` for all that are kept")] = None,
        last_event_id: Annotated[str | None, Header(description="Go on after this cursor")] = None,
    ) -> Response:
        """Changes as they come, as server-sent events. An event's id is the cursor after it."""
        ticket = backend.feeds.admit(caller_of(request).account)
        store, own = await ticket.through(backend.read(_open_changes, backend, view, last_event_id or since))

        def at_end() -> ViewChanges:
            return ViewChanges(store, view, Cursor(store.progress(view).commit))

        return EventStream(lambda: backend.feeds.follow((store, view), own, at_end), ticket)

    @routes.get("/views/{view}/{key:path}", response_model=dict[str, Any], responses=answers(400, 404, 410, 504))
    async def row(
        request: Request,
        view: Name,
        key: Annotated[str, Path(description="The key; parts between slashes, or a JSON array")],
        at_least: AtLeast = None,
        timeout: Timeout = "30 seconds",
    ) -> Response:
        """The row with a key. A key of several parts is `/views/v/first/second`, or `/views/v/["first", null]`."""
        parts = parse_key(_after_view(request))
        opened = await fresh(view, at_least, timeout)
        one = await backend.read(opened.get, parts)
        if one is None:
            raise NotFound(
                f"view {view!r} has no row with this key",
                hint=f"Its key is {', '.join(opened.spec.told_key or ())}",
            )
        return answer(one)

    return routes


def _patience(timeout: str) -> float:
    """A duration, or a number of seconds."""
    return seconds(float(timeout) if _NUMBER.fullmatch(timeout) else timeout) or 0.0


def _after_view(request: Request) -> str:
    """What follows `/views/{view}/` as it was sent."""
    raw: bytes = request.scope.get("raw_path") or request.scope["path"].encode()
    try:
        path = raw.partition(b"?")[0].decode("ascii")
    except UnicodeDecodeError:
        raise Invalid("a path is written in ASCII, with everything else percent-encoded") from None
    _, _, _, *key = path.split("/", 3)
    if not key:  # its slash was percent-encoded
        raise NotFound("there is nothing at this address", hint="Between a view and a key, write / as it is")
    return key[0]


def _freshness(store: Store, spec: ViewSpec) -> dict[str, str]:
    """Read before the rows: they may be newer than this says, never older."""
    progress = store.progress(spec.name)
    return {"riverrun-position": str(progress.positions), "riverrun-cursor": str(Cursor(progress.commit))}


def _search(
    backend: Backend, view: View, given: list[tuple[str, str]], query: str, limit: int, highlight: bool
) -> tuple[dict[str, str], list[dict[str, Any]]]:
    other = [name for name, _ in given if name not in ("q", "highlight", "limit", "at_least", "timeout")]
    if other:
        raise Invalid(f"with q, rows are not chosen by {other[0]}", hint="Write it in the search: price:<50 AND boots")
    headers = _freshness(backend.store(), view.spec)
    return headers, view.search(query, min(limit, _MOST_FOUND), highlight=highlight)


def _open_changes(backend: Backend, name: str, since: str | None) -> tuple[Store, ViewChanges]:
    store = backend.store()
    store.spec(name)
    if since is None:
        start: Cursor | None = Cursor(store.progress(name).commit)
    else:
        start = None if since == "oldest" else Cursor.parse(since)
    own = ViewChanges(store, name, start)
    own.open()
    return store, own


class Summaries:
    """What there is to say about each view. Rows are counted again only when there was a commit."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._lock = threading.Lock()
        self._counted: dict[str, tuple[int, int | None]] = {}

    def all(self) -> list[dict[str, Any]]:
        """Every view, by name."""
        if not self._backend.has_views():
            return []
        store = self._backend.store()
        return [self._summary(store, spec) for spec in store.views()]

    def _summary(self, store: Store, spec: ViewSpec) -> dict[str, Any]:
        progress = store.progress(spec.name)
        with self._lock:
            commit, rows = self._counted.get(spec.name, (-1, 0))
        if commit != progress.commit:
            rows = counted(store, spec.name)
            with self._lock:
                self._counted[spec.name] = (progress.commit if rows is not None else -1, rows)
        return described(spec, progress, rows)


def _open(backend: Backend, name: str) -> View:
    """The view; `Unavailable` where a flow of this process will have made it in a moment."""
    try:
        return View(backend.store(), name)
    except NotFound:
        for run in backend.runs:
            if name.removesuffix(run.name.removeprefix(run.flow.name)) in run.flow.views:
                status = run.observe()
                if status.state == "starting":
                    raise Unavailable(
                        f"flow {run.name} is starting; its views are there when it runs", hint="Ask again in a while"
                    ) from None
        raise
