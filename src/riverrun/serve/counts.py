"""What this server has done, as Prometheus counts it."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


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
        self.held = Gauge("riverrun_http_held_bytes", "Bodies in memory.", registry=self.registry)
        self.streams = Gauge("riverrun_http_streams", "Streams of events being followed.", registry=self.registry)
