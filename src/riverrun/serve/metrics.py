"""`/metrics`: the river in Prometheus' words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fastapi import APIRouter
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from starlette.responses import Response

from riverrun.errors import RiverrunError
from riverrun.runtime.ledger import LEDGER_COUNTS
from riverrun.runtime.status import FlowStatus
from riverrun.serve.backend import Backend
from riverrun.serve.documents import answers
from riverrun.serve.flows import Flows
from riverrun.serve.view_routes import Summaries

_TEXT = {"description": "Prometheus text", "content": {"text/plain": {"schema": {"type": "string"}}}}


def metric_routes(backend: Backend, flows: Flows, views: Summaries) -> APIRouter:
    """The route `/metrics`."""
    routes = APIRouter(tags=["operation"])
    backend.counts.registry.register(Collector(backend, flows, views))

    @routes.get("/metrics", response_class=Response, responses={**answers(), 200: _TEXT})
    async def metrics() -> Response:
        """Rows, lag, watermarks, sizes, and what this server has done, for Prometheus."""
        backend.counts.held.set(backend.memory.held + backend.answers.held)
        backend.counts.streams.set(backend.feeds.clients)
        return Response(await backend.read(generate_latest, backend.counts.registry), media_type=CONTENT_TYPE_LATEST)

    return routes


class Collector:
    """Reads the river when Prometheus asks. A part that cannot be read is left out and counted as an error."""

    def __init__(self, backend: Backend, flows: Flows, views: Summaries) -> None:
        self._backend = backend
        self._flows = flows
        self._views = views

    def describe(self) -> Iterator[Metric]:
        """Nothing is read when this is registered."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        errors = 0
        for part in (self._topics, self._dead_letters, self._lag, self._of_views, self._of_flows, self._captures):
            try:
                yield from list(part())
            except RiverrunError:
                errors += 1
        yield _gauge("riverrun_scrape_errors", "Parts of the river that could not be read.", [], [((), errors)])

    def _topics(self) -> Iterator[Metric]:
        topics = [self._described(name) for name in self._backend.river.topics()]
        ends = [(one["name"], sum(part["latest"] for part in one["partitions"].values())) for one in topics]
        yield _gauge("riverrun_topic_rows", "Rows kept, by offsets.", ["topic"], _each(topics, "offsets"))
        yield _gauge("riverrun_topic_bytes", "Bytes kept.", ["topic"], _each(topics, "bytes"))
        yield _counter(
            "riverrun_topic_appended_rows",
            "Offsets given out so far.",
            ["topic"],
            [((name,), end) for name, end in ends],
        )

    def _described(self, name: str) -> dict[str, Any]:
        with self._backend.river.briefly(name) as topic:
            return topic.describe()

    def _dead_letters(self) -> Iterator[Metric]:
        letters = [((one.topic,), one.waiting) for one in self._backend.river.dead_letters.topics()]
        yield _gauge("riverrun_dead_letters", "Dead letters that were not sent again.", ["topic"], letters)

    def _lag(self) -> Iterator[Metric]:
        """Of groups and of flows: in rows by topic, in seconds for each reader."""
        rows: list[tuple[tuple[str, ...], float]] = []
        seconds: list[tuple[tuple[str, ...], float]] = []
        for one in self._backend.river.groups.list():
            lag = self._backend.river.lag(one["group"])
            rows += [((one["kind"], one["group"], topic), part["rows"]) for topic, part in lag["topics"].items()]
            seconds.append(((one["kind"], one["group"]), lag["seconds"]))
        for status in self._answered():
            rows += [(("flow", status.flow, topic), count) for topic, count in status.lag.topics.items()]
            seconds.append((("flow", status.flow), status.lag.seconds))
        yield _gauge("riverrun_lag_rows", "Rows not yet read.", ["kind", "reader", "topic"], rows)
        yield _gauge("riverrun_lag_seconds", "Age of the oldest of them.", ["kind", "reader"], seconds)

    def _captures(self) -> Iterator[Metric]:
        captures = self._backend.river.captures()
        tables = [(one["name"], table, told) for one in captures for table, told in one.get("tables", {}).items()]
        running = [((one["name"],), one["state"] in ("snapshot", "streaming")) for one in captures]
        yield _gauge("riverrun_capture_running", "Whether it captures.", ["capture"], running)
        for name, about in (
            ("lag_bytes", "What the source has written and is not captured yet."),
            ("lag_seconds", "For how long it has had that, at most."),
            ("held_bytes", "What the source keeps on its disk for it."),
        ):
            known = [((one["name"],), one[name]) for one in captures if one.get(name) is not None]
            yield _gauge(f"riverrun_capture_{name}", about, ["capture"], known)
        rows = [((capture, table), told["rows"]) for capture, table, told in tables]
        yield _gauge("riverrun_capture_rows", "Rows appended since it began.", ["capture", "table"], rows)
        stopped = [((capture, table), told["state"] == "stopped") for capture, table, told in tables]
        yield _gauge(
            "riverrun_capture_table_stopped", "Whether a table is not captured.", ["capture", "table"], stopped
        )

    def _of_views(self) -> Iterator[Metric]:
        yield _gauge("riverrun_view_rows", "Rows of a view.", ["view"], _each(self._views.all(), "rows"))

    def _of_flows(self) -> Iterator[Metric]:
        flows = self._answered()
        ledger = [
            ((status.flow, entry.called, entry.input, kind), entry.count(kind))
            for status in flows
            for entry in status.ledger
            for kind in LEDGER_COUNTS
        ]
        yield _counter("riverrun_rows", "Where every row went.", ["flow", "node", "input", "kind"], ledger)
        epochs = [((status.flow,), status.epoch) for status in flows]
        yield _counter("riverrun_epochs", "Epochs committed.", ["flow"], epochs)
        committed = [((status.flow,), status.committed.timestamp()) for status in flows if status.committed]
        yield _gauge("riverrun_epoch_committed_seconds", "When the last one was, in Unix time.", ["flow"], committed)
        took = [((status.flow,), status.times.total) for status in flows if status.times]
        yield _gauge("riverrun_epoch_seconds", "What the last one took, in this process.", ["flow"], took)
        sources = [(status.flow, source) for status in flows for source in status.sources]
        marks = [((flow, one.source), one.watermark.timestamp()) for flow, one in sources if one.watermark]
        lags = [((flow, one.source), one.behind) for flow, one in sources if one.watermark]
        yield _gauge("riverrun_watermark_seconds", "Watermark in Unix time.", ["flow", "source"], marks)
        yield _gauge("riverrun_watermark_behind_seconds", "Now minus the watermark.", ["flow", "source"], lags)
        sizes = [((status.flow,), status.state_size.bytes) for status in flows]
        yield _gauge("riverrun_state_bytes", "Bytes of operators' state.", ["flow"], sizes)
        off = [((status.flow,), len(status.rules_off)) for status in flows]
        yield _gauge("riverrun_rules_off", "Rules that were switched off by themselves.", ["flow"], off)
        here = [status for status in self._flows.all() if status.state is not None]
        running = [((status.flow,), status.state in ("running", "rebuilding")) for status in here]
        yield _gauge("riverrun_flow_running", "Whether it runs, in this process.", ["flow"], running)
        rates = [((status.flow,), status.rows_per_second) for status in flows if status.rows_per_second is not None]
        yield _gauge("riverrun_flow_rows_per_second", "Over the last ten seconds.", ["flow"], rates)

    def _answered(self) -> list[FlowStatus]:
        """Without runs that could not say how they are."""
        return [status for status in self._flows.all() if status.state != "unknown"]


_Samples = list[tuple[tuple[str, ...], float]]


def _each(named: list[dict[str, Any]], value: str) -> _Samples:
    return [((one["name"],), one[value]) for one in named if one[value] is not None]


def _gauge(name: str, about: str, labels: list[str], samples: Any) -> Metric:
    family = GaugeMetricFamily(name, about, labels=labels)
    for values, number in samples:
        family.add_metric(values, number)
    return family


def _counter(name: str, about: str, labels: list[str], samples: Any) -> Metric:
    family = CounterMetricFamily(name, about, labels=labels)
    for values, number in samples:
        family.add_metric(values, number)
    return family
