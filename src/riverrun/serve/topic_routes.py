"""`/topics`: events in, what topics there are, and their rows as they arrive."""

from __future__ import annotations

import time
from typing import Annotated, Any, NamedTuple

from fastapi import APIRouter, Header, Path, Query, Request
from starlette.responses import Response

from riverrun.errors import Invalid, NotFound, RiverrunError
from riverrun.log.topic import Topic
from riverrun.position import Position
from riverrun.serve import ingest
from riverrun.serve.answers import answer
from riverrun.serve.backend import Backend
from riverrun.serve.body import receive_body
from riverrun.serve.caller import caller_of
from riverrun.serve.documents import Accepted, TopicDescription, TopicSummary, answers
from riverrun.serve.owners import Owners
from riverrun.serve.sse import EventStream
from riverrun.serve.tail import Tail
from riverrun.serve.tokens import ADMIN

Name = Annotated[str, Path(description="The topic.", max_length=200)]

_ROW = {"type": "object", "description": "A row: column and value"}
_BODY = {
    "requestBody": {
        "required": True,
        "description": "One row, an array of rows, or NDJSON; may be sent with Content-Encoding: gzip",
        "content": {
            "application/json": {"schema": {"oneOf": [_ROW, {"type": "array", "items": _ROW}]}},
            "application/x-ndjson": {"schema": {"type": "string"}},
        },
    }
}
_EVENTS: dict[str, Any] = {"description": "Server-sent events", "content": {"text/event-stream": {}}}


def topic_routes(backend: Backend) -> APIRouter:
    """The routes below `/topics`."""
    routes = APIRouter(tags=["topics"])
    settings = backend.river.settings
    owners = Owners(backend)

    @routes.post(
        "/topics/{topic}",
        status_code=202,
        response_model=Accepted,
        responses=answers(400, 404, 408, 409, 413, 415, 429),
        openapi_extra=_BODY,
    )
    async def append(
        request: Request,
        topic: Name,
        idempotency_key: Annotated[str | None, Header(description="producer:sequence")] = None,
        producer: Annotated[str | None, Query(description="Who sends; with `sequence`")] = None,
        sequence: Annotated[str | None, Query(description="A repeat has no effect", pattern="^[0-9]{1,18}$")] = None,
    ) -> Response:
        """Append rows, all or none. Answers when they are written, with the position after them."""
        kind = request.headers.get("content-type", "")
        caller = caller_of(request)
        async with receive_body(request, settings.http_body_bytes, backend.memory) as body:
            key = ingest.idempotency_key(idempotency_key, producer, sequence)
            sent = _Sent(body, kind, key and key.named(caller.token), settings.http_rows)
            begun = time.perf_counter()
            async with backend.memory.turn(len(body)):
                checked = None if ADMIN in caller.roles else owners
                position, rows = await backend.append(_append, backend, topic, sent, checked)
        backend.counts.appending.observe(time.perf_counter() - begun)
        backend.counts.appended.labels(topic).inc(rows)
        return answer({"position": str(position), "rows": rows}, 202)

    @routes.get("/topics", response_model=list[TopicSummary], responses=answers())
    async def topics() -> Response:
        """The topics: schema, partitions, sizes, rates."""
        return answer(await backend.read(_summarize_all, backend))

    @routes.get("/topics/{topic}", response_model=TopicDescription, responses=answers(400, 404))
    async def describe(topic: Name) -> Response:
        """One topic, and the groups that read it with their lag in rows and seconds."""
        return answer(await backend.read(_describe, backend, topic))

    @routes.get(
        "/topics/{topic}/tail",
        response_class=Response,
        responses={**answers(400, 404, 410, 429), 200: _EVENTS},
    )
    async def tail(
        request: Request,
        topic: Name,
        start: Annotated[str, Query(alias="from", description="latest, earliest, or a position")] = "latest",
        last_event_id: Annotated[str | None, Header(description="Go on after this position")] = None,
    ) -> Response:
        """The rows as they arrive, as server-sent events. An event's id is the position after it."""
        ticket = backend.feeds.admit(caller_of(request).account)
        opened, own = await ticket.through(backend.read(_open_tail, backend, topic, last_event_id or start))

        def at_end() -> Tail:
            return Tail(opened, opened.ends())

        return EventStream(lambda: backend.feeds.follow(opened, own, at_end), ticket)

    return routes


class _Sent(NamedTuple):
    """What was sent: a body, what kind it is, under which key, and how many rows it may have."""

    body: bytes
    kind: str
    key: ingest.Key | None
    most: int

    def append(self, topic: Topic) -> tuple[Position, int]:
        return ingest.append(topic, ingest.parse(self.body, self.kind, topic, self.most), self.key)


def _append(backend: Backend, name: str, sent: _Sent, owners: Owners | None) -> tuple[Position, int]:
    topic = backend.topic(name)
    if owners is not None:
        owners.check(topic)
    try:
        return sent.append(topic)
    except Invalid:
        grown = backend.reopen_if_grown(topic)
        if grown is None:
            raise
        return sent.append(grown)


def _summarize_all(backend: Backend) -> list[dict[str, Any]]:
    summaries = []
    for name in backend.river.topics():
        try:
            with backend.river.briefly(name) as topic:
                summaries.append(_summarize(topic))
        except NotFound:
            continue  # dropped meanwhile
        except RiverrunError as error:
            summaries.append({"name": name, "error": error.message, "hint": error.hint})
    return summaries


def _summarize(topic: Topic) -> dict[str, Any]:
    return {**topic.describe(), "position": str(topic.latest)}


def _describe(backend: Backend, name: str) -> dict[str, Any]:
    topic = backend.topic(name)
    groups = []
    for one in backend.river.groups.list():
        if name in one["topics"]:
            try:
                lag = backend.river.lag(one["group"])["topics"].get(name, {})
            except NotFound:
                continue  # dropped meanwhile
            groups.append({"group": one["group"], "kind": one["kind"], "members": one["members"], **lag})
    return {**_summarize(topic), "groups": groups}


def _open_tail(backend: Backend, name: str, start: str) -> tuple[Topic, Tail]:
    topic = backend.topic(name)
    offsets = topic.offsets(start, "latest")
    topic.check_range(offsets)
    return topic, Tail(topic, offsets)
