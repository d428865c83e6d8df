"""What this server has done, as Prometheus counts it, and the layer that counts its requests."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"))  # others are anybody's invention


class RequestCounts:
    """Counters with a registry of their own: several servers in one process do not mix."""

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # twice as many lines that say next to nothing
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "riverrun_http_requests", "Requests answered.", ["method", "route", "status"], registry=self.registry
        )
        self.appended = Counter(
            "riverrun_http_appended_rows",
            "Rows appended over HTTP; repeats count, too.",
            ["topic"],
            registry=self.registry,
        )
        self.appending = Histogram(
            "riverrun_http_append_seconds",
            "From a complete body to its position.",
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.held = Gauge("riverrun_http_held_bytes", "Bodies and answers in memory.", registry=self.registry)
        self.streams = Gauge("riverrun_http_streams", "Streams of events being followed.", registry=self.registry)


class RequestCounter:
    """A layer around the app: counts requests by method, route and status."""

    def __init__(self, app: ASGIApp, counts: RequestCounts) -> None:
        self._app = app
        self._counter = counts.requests

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status = 500

        async def note_status(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, note_status)
        finally:
            route = getattr(scope.get("route"), "path", "")
            method = scope["method"] if scope["method"] in _METHODS else "other"
            self._counter.labels(method, route, str(status)).inc()
