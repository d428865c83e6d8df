"""The page of time: how late data is, who holds the watermark back, what another lateness would change."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from riverrun.durations import show, wall_clock
from riverrun.runtime.status import SourceStatus
from riverrun.serve.pages.arrival_sample import DELAYS, SECOND
from riverrun.serve.pages.chart import choose_span
from riverrun.serve.pages.history import FlowHistory, History, declared_sources
from riverrun.serve.pages.markup import Html, join, tag
from riverrun.serve.pages.quantities import ago, clock, number, share, short, span, span_text
from riverrun.serve.pages.shell import ROOT, Asked, Drawn, choose_flow, empty, figure, figures, summary, table
from riverrun.serve.pages.time_picture import Looked, find_holder, measure_spread, time_picture

if TYPE_CHECKING:
    from riverrun.flow import Flow
    from riverrun.flow.operators.node import Node
    from riverrun.flow.operators.window import Window

_SPANS = {"2min": 120, "5min": 300, "15min": 900}


def draw(history: History, asked: Asked) -> Drawn:
    regions = {"summary": summary(history, asked)}
    past = choose_flow(history, asked)
    sources = past.status.sources if past else ()
    if not past or not sources:
        regions["time"] = _nothing_yet(past)
        return Drawn("Time", regions)
    graph = history.graph(past.name)
    source = next((one for one in sources if one.source == asked.get("source")), sources[0])
    arrivals = history.arrivals.get(source.topic)
    regions["choice"] = _choices(sources, source, asked)
    if arrivals is None:
        regions["time"] = empty(f"Nothing has been seen of topic {source.topic} yet")
        return Drawn("Time", regions)
    now = wall_clock()
    width = _SPANS.get(asked.get("span"), 120) * SECOND
    samples = list(past.samples)
    marks = [sample.watermarks.get(source.source) for sample in samples if sample.at >= now - width]
    frame = choose_span(arrivals.arrived, [mark for mark in marks if mark is not None], now, width)
    declared = declared_sources(graph).get(source.source)
    window = next(_find_windows(graph, source.source), None) if graph else None
    looked = Looked(samples, source, arrivals, declared, window, frame)
    regions["figures"] = _numbers(looked, past)
    regions["picture"] = time_picture(looked)
    regions["producers"] = _producers(looked)
    regions["lateness"] = _lateness(looked)
    return Drawn("Time", regions)


def _nothing_yet(past: FlowHistory | None) -> Html:
    if past and past.status.lag.rows:
        return empty("There is event time to show after the first epoch")
    return empty(
        "No epoch has been committed yet, so there is no event time to show. Append some rows",
        "riverrun topic append TOPIC FILE.ndjson",
    )


def _choices(sources: Sequence[SourceStatus], source: SourceStatus, asked: Asked) -> Html:
    topics = [
        tag("a", one.topic, href=asked.link(source=one.source), aria_current="true" if one is source else None)
        for one in sources
    ]
    current = asked.get("span") if asked.get("span") in _SPANS else "2min"
    spans = [
        tag(
            "a",
            name.replace("min", " min"),
            href=asked.link(span=name),
            aria_current="true" if name == current else None,
        )
        for name in _SPANS
    ]
    return tag(
        "div",
        tag("div", tag("span", "Topic", class_="quiet"), *topics, class_="tabs"),
        tag("div", tag("span", "The last", class_="quiet"), *spans, class_="tabs"),
        class_="row",
    )


def _find_windows(graph: Flow, source: str) -> Iterator[Window]:
    """Windows of a fixed size that rows of a source come to."""
    from riverrun.flow.operators.window import Window
    from riverrun.flow.windows import Hopping, Tumbling

    def comes_from(node: Node) -> bool:
        return node.id == source or any(comes_from(below) for below in node.inputs)

    for node in graph.nodes:
        if isinstance(node, Window) and isinstance(node.window, Tumbling | Hopping) and comes_from(node):
            yield node


def _numbers(looked: Looked, past: FlowHistory) -> Html:
    source, declared, arrivals = looked.source, looked.declared, looked.arrivals
    lateness = show(declared.lateness) if declared else None
    ledger = tag("a", "ledger", href=f"{ROOT}/ledger?{urlencode({'flow': past.name})}")
    return figures(
        figure(
            "Watermark",
            clock(source.watermark),
            "no row with a time yet" if source.behind is None else join(span(source.behind), " behind the clock"),
        ),
        _holder(looked),
        figure("Lateness allowed", lateness or tag("span", "unknown", class_="unknown"), "as the flow declares"),
        figure(
            "Behind the watermark",
            number(arrivals.behind, "rows"),
            join("of ", number(arrivals.rows), " seen here; an open or corrected window still takes them"),
        ),
        figure("Late rows", number(past.status.late, "rows"), join("of the whole flow, ", ledger)),
    )


def _holder(looked: Looked) -> Html:
    slowest, count = find_holder(looked), len(looked.arrivals.speakers)
    if slowest is not None:
        behind = join(span(measure_spread(looked) / SECOND), " behind the furthest")
        if looked.source.silent is not None:
            behind = join(behind, ", and silent for ", span(looked.source.silent), " while others went on")
        return figure("Held back by", looked.arrivals.name_producer(slowest.producer), behind)
    if not looked.source.held_by:
        return figure("Held back by", "nobody", f"no {_noun(looked)} is live")
    return figure("Held back by", "nobody", f"all are within a second: {count} {_noun(looked)}{'s' * (count != 1)}")


def _noun(looked: Looked) -> str:
    """What the producers of this topic are."""
    return "producer" if looked.declared and looked.declared.producers else "partition"


def _producers(looked: Looked) -> Html:
    speakers = sorted(looked.arrivals.speakers.values(), key=lambda one: one.time)
    if not speakers:
        return empty("No row has been seen of any producer yet")
    idle = looked.declared.idle if looked.declared else None
    rows = []
    for speaker in speakers[:50]:
        silent = idle is not None and looked.frame.end - speaker.heard > idle
        rows.append(
            tag(
                "tr",
                tag("th", looked.arrivals.name_producer(speaker.name), scope="row"),
                tag("td", clock(speaker.time)),
                tag("td", span(max(looked.frame.end - speaker.time, 0) / 1e6), class_="n"),
                tag("td", ago(speaker.heard), " (idle: does not count)" if silent else ""),
                tag("td", number(speaker.rows), class_="n"),
                id=f"producer-{speaker.name}",
            )
        )
    noun = _noun(looked).capitalize()
    head = [
        noun,
        "Its newest row says",
        tag("th", "Behind the clock", scope="col", class_="n"),
        "Last heard",
        tag("th", "Rows seen", scope="col", class_="n"),
    ]
    more = f" (the slowest 50 of {len(speakers)})" if len(speakers) > 50 else ""
    what = looked.declared.producers if looked.declared and looked.declared.producers else "partition"
    return join(tag("h2", f"{noun}s"), table(f"By {what}, the slowest first{more}", head, rows))


def _lateness(looked: Looked) -> Html:
    arrivals = looked.arrivals
    if not arrivals.rows:
        return Html("")
    declared = looked.declared.lateness / 1e6 if looked.declared else None
    rows = []
    for limit, count in zip(DELAYS, arrivals.delays.tolist(), strict=True):
        rows.append(
            tag(
                "tr",
                tag("th", span_text(limit), " ← as declared" if declared == limit else "", scope="row"),
                tag("td", number(count), class_="n"),
                tag("td", share(count, arrivals.rows), class_="n"),
            )
        )
    head = ["Lateness", tag("th", "Rows", scope="col", class_="n"), tag("th", "Share", scope="col", class_="n")]
    said = (
        f"Of {short(arrivals.rows)} rows seen here: at most so many would come behind the watermark with that lateness"
    )
    return join(tag("h2", "What another lateness would change"), table(said, head, rows))
