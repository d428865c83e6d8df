"""The page of time: how late data is, who holds the watermark back, what another lateness would change."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from riverrun.durations import show, wall_clock
from riverrun.serve.pages.arrivals import DELAYS, SECOND, Arrivals, Speaker
from riverrun.serve.pages.chart import FOOT, HEIGHT, LEFT, RIGHT, TOP, WIDTH, Frame, axes, density, framed, line
from riverrun.serve.pages.figures import ago, clock, number, parse, share, short, span, span_text
from riverrun.serve.pages.history import FlowHistory, History, declared_sources
from riverrun.serve.pages.markup import Content, Html, join, tag
from riverrun.serve.pages.shell import Asked, Drawn, chosen, empty, figure, figures, summary, table

if TYPE_CHECKING:
    from riverrun.flow import Flow
    from riverrun.flow.nodes import Node, Source, Window

_SPANS = {"2min": 120, "5min": 300, "15min": 900}
_STRIP, _STRIPS = 24, 12
_NARROWEST = 12  # pixels: smaller windows are not drawn
_MOST = 60  # windows


@dataclass(frozen=True)
class Looked:
    """What the picture is about."""

    known: FlowHistory
    source: dict[str, Any]
    arrivals: Arrivals
    declared: Source | None
    window: Window | None
    frame: Frame


def draw(history: History, asked: Asked) -> Drawn:
    regions = {"summary": summary(history, asked)}
    found = chosen(history, asked)
    sources = found[1].status.get("sources", []) if found else []
    if not found or not sources:
        regions["time"] = empty(
            "No epoch has been committed yet, so there is no event time to show. Append some rows",
            "riverrun topic append TOPIC FILE.ndjson",
        )
        return Drawn("Time", regions)
    name, known = found
    graph = history.graph(name)
    source = next((one for one in sources if one["source"] == asked.get("source")), sources[0])
    arrivals = history.arrivals.get(source["topic"])
    regions["choice"] = _choices(sources, source, asked)
    if arrivals is None:
        regions["time"] = empty(f"Nothing has been seen of topic {source['topic']} yet")
        return Drawn("Time", regions)
    now = wall_clock()
    width = _SPANS.get(asked.get("span"), 120) * SECOND
    marks = [sample.watermarks.get(source["source"]) for sample in known.samples if sample.at >= now - width]
    frame = framed(arrivals.seconds, [mark for mark in marks if mark is not None], now, width)
    declared = declared_sources(graph).get(source["source"])
    window = next(_windows(graph, source["source"]), None) if graph else None
    looked = Looked(known, source, arrivals, declared, window, frame)
    regions["figures"] = _numbers(looked)
    regions["picture"] = _picture(looked)
    regions["producers"] = _producers(looked)
    regions["lateness"] = _lateness(looked)
    return Drawn("Time", regions)


def _choices(sources: list[dict[str, Any]], source: dict[str, Any], asked: Asked) -> Html:
    topics = [
        tag("a", one["topic"], href=asked.link(source=one["source"]), aria_current="true" if one is source else None)
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


def _windows(graph: Flow, source: str) -> Iterator[Window]:
    """Windows of a fixed size that rows of a source come to."""
    from riverrun.flow.nodes import Window
    from riverrun.flow.windows import Hopping, Tumbling

    def comes_from(node: Node) -> bool:
        return node.id == source or any(comes_from(below) for below in node.inputs)

    for node in graph.nodes:
        if isinstance(node, Window) and isinstance(node.window, Tumbling | Hopping) and comes_from(node):
            yield node


def _numbers(looked: Looked) -> Html:
    source, declared = looked.source, looked.declared
    holders = source["held_by"]
    lateness = show(declared.lateness) if declared else None
    return figures(
        figure(
            "Watermark",
            clock(parse(source["watermark"])),
            join(span(source["behind"]), " behind the clock")
            if source["behind"] is not None
            else "no row with a time yet",
        ),
        figure(
            "Held back by",
            holders[0]["producer"] or "(no name)" if holders else "nobody",
            join("its newest row says ", clock(parse(holders[0]["time"]))) if holders else "no producer is live",
        ),
        figure("Lateness allowed", lateness or tag("span", "unknown", class_="unknown"), "as the flow declares"),
        figure(
            "Behind the watermark",
            number(len(looked.arrivals.late), "rows"),
            "of those remembered; the ledger has all",
        ),
    )


def _picture(looked: Looked) -> Html:
    frame, known, source = looked.frame, looked.known, looked.source
    cells, shown, outside = density(list(looked.arrivals.seconds), frame)
    speakers = _slowest(looked)
    below = TOP + HEIGHT + FOOT + len(speakers) * _STRIP + (8 if speakers else 0)
    marks = [(sample.at, sample.watermarks.get(source["source"])) for sample in known.samples]
    path = [(frame.across(mark), frame.y(at)) for at, mark in marks if mark is not None and at >= frame.begin]
    now = path[-1][0] if path else None
    start, end = max(frame.low, frame.begin), min(frame.high, frame.end)
    ideal = [(frame.x(start), frame.y(start)), (frame.x(end), frame.y(end))] if start < end else []
    parts: list[Content] = [
        tag("title", "Rows by event time and by the time they arrived, with watermark and windows"),
        axes(frame, below),
        cells,
        line(ideal, class_="ideal"),
        _boxes(looked),
        line(path, class_="watermark"),
        _late(looked),
        tag("text", "arrived ↑", x=LEFT - 8, y=TOP + HEIGHT + 16, text_anchor="end", class_="tick"),
        tag("text", "event time →", x=LEFT + WIDTH + 8, y=TOP + HEIGHT + 16, class_="tick"),
        _strips(looked, speakers),
        tag("line", x1=now, x2=now, y1=TOP + HEIGHT, y2=below, class_="watermark now") if now and speakers else None,
    ]
    svg = tag(
        "svg",
        *parts,
        viewBox=f"0 0 {LEFT + WIDTH + RIGHT} {below + 8}",
        width=LEFT + WIDTH + RIGHT,
        height=below + 8,
        class_="time",
        role="img",
        aria_label="Event time across, arrival up; the tables below say the same",
    )
    notes = [join(number(shown, "rows"), " shown")]
    if outside:
        notes.append(join(number(outside, "rows"), " have a time outside the picture"))
    if not looked.arrivals.is_exact:
        notes.append(join("rows came faster than they can be looked at one by one: cells are estimated from headers"))
    return join(
        tag("div", svg, class_="scroll picture", tabindex="0", role="region", aria_label="The picture of time"),
        _legend(looked),
        tag("p", *(join("; " if i else "", note) for i, note in enumerate(notes)), ".", class_="note"),
    )


def _boxes(looked: Looked) -> Html:
    """Windows: from their first row to the moment the watermark closed them; with a horizon, a second edge."""
    window, frame = looked.window, looked.frame
    if window is None:
        return Html("")
    size, every, offset = (int(getattr(window.window, part, 0)) for part in ("size", "every", "offset"))
    if frame.x(frame.low + size) - frame.x(frame.low) < _NARROWEST:
        return Html("")
    first = (frame.low - offset - size) // every * every + offset
    parts = []
    for start in list(range(first, frame.high, every))[-_MOST:]:
        end = start + size
        came, rows = _filled(looked, start, end)
        if came is None:
            continue
        closed = _passed(looked, end)
        left, right = frame.across(start), frame.across(end)
        bottom, top = frame.up(came), frame.up(closed or frame.end)
        if right - left < 2 or bottom - top < 1:
            continue
        state = "closed" if closed else "open"
        title = tag("title", f"{window.window}, {rows} rows, {state}")
        parts.append(
            tag("rect", title, x=left, y=top, width=right - left, height=bottom - top, class_=f"window {state}")
        )
        if closed and window.late.horizon:
            issued = frame.up(_passed(looked, end + window.late.horizon) or frame.end)
            parts.append(
                tag("rect", x=left, y=issued, width=right - left, height=top - issued, class_="window correcting")
            )
        if right - left > 40 and bottom - top > 20:
            parts.append(
                tag("text", short(rows), x=(left + right) / 2, y=bottom - 6, text_anchor="middle", class_="count")
            )
    return tag("g", *parts)


def _filled(looked: Looked, start: int, end: int) -> tuple[int | None, int]:
    """When the first row of a window arrived, and how many did."""
    came, rows = None, 0
    for part in looked.arrivals.seconds:
        inside = (part.times * SECOND >= start - SECOND // 2) & (part.times * SECOND < end - SECOND // 2)
        found = int(part.counts[inside].sum())
        if found:
            came = part.received * SECOND if came is None else min(came, part.received * SECOND)
            rows += found
    return came, rows


def _passed(looked: Looked, time: int) -> int | None:
    """When the watermark came to a time; None if it has not, or if that was before anybody looked."""
    name = looked.source["source"]
    return next((s.at for s in looked.known.samples if (s.watermarks.get(name) or time - 1) >= time), None)


def _late(looked: Looked) -> Html:
    frame = looked.frame
    parts = []
    for received, time in looked.arrivals.late:
        if received >= frame.begin:
            x, y = frame.across(time), frame.up(received)
            parts.append(f"M{x - 3:g} {y - 3:g}l6 6m0-6l-6 6")
    return tag("path", tag("title", "Rows older than the watermark when they arrived"), d="".join(parts), class_="late")


def _slowest(looked: Looked) -> list[Speaker]:
    return sorted(looked.arrivals.speakers.values(), key=lambda one: one.time)[:_STRIPS]


def _strips(looked: Looked, speakers: list[Speaker]) -> Html:
    frame, holders = looked.frame, looked.source["held_by"]
    holder = holders[0]["producer"] if holders else None
    parts: list[Content] = []
    for place, speaker in enumerate(speakers):
        y = TOP + HEIGHT + FOOT + place * _STRIP
        end = frame.across(speaker.time)
        holds = speaker.name == holder
        heard = [frame.across(time) for received, time in speaker.trail if time >= frame.low]
        ticks_ = "".join(f"M{x:g} {y + 6}v8" for x in sorted(set(heard)))
        said = span_text(max(looked.frame.end - speaker.time, 0) / 1e6)
        parts += [
            tag(
                "text",
                _short(speaker.name),
                tag("title", speaker.name),
                x=LEFT - 8,
                y=y + 14,
                text_anchor="end",
                class_="producer holds" if holds else "producer",
            ),
            tag(
                "rect", x=LEFT, y=y + 6, width=max(end - LEFT, 0), height=8, class_="strip holds" if holds else "strip"
            ),
            tag("path", d=ticks_, class_="heard") if ticks_ else None,
            tag(
                "text",
                f"◀ slowest, {said}" if holds else said,
                x=LEFT + WIDTH + 8,
                y=y + 14,
                class_="producer holds" if holds else "tick",
            ),
        ]
    return tag("g", *parts)


def _short(name: str) -> str:
    return name if len(name) <= 14 else name[:13] + "…"


def _legend(looked: Looked) -> Html:
    parts = [
        tag("li", tag("span", "■", class_="key heat", aria_hidden="true"), " rows, darker is more"),
        tag("li", tag("span", "┄", class_="key ideal", aria_hidden="true"), " ideal: arrived when it happened"),
        tag("li", tag("span", "━", class_="key watermark", aria_hidden="true"), " watermark"),
        tag("li", tag("span", "×", class_="key late", aria_hidden="true"), " older than the watermark"),
    ]
    if looked.window is not None:
        parts.append(
            tag(
                "li",
                tag("span", "▭", class_="key", aria_hidden="true"),
                f" {looked.window.window}: grows until the watermark closes it; the number is its rows",
            )
        )
        if looked.window.late.horizon:
            parts.append(tag("li", tag("span", "┅", class_="key", aria_hidden="true"), " still corrected"))
    return tag("ul", *parts, class_="legend")


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
                tag("th", speaker.name or "(no name)", scope="row"),
                tag("td", clock(speaker.time)),
                tag("td", span(max(looked.frame.end - speaker.time, 0) / 1e6), class_="n"),
                tag("td", ago(speaker.heard), " (idle: does not count)" if silent else ""),
                tag("td", number(speaker.rows), class_="n"),
                id=f"producer-{speaker.name}",
            )
        )
    head = [
        "Producer",
        "Its newest row says",
        tag("th", "Behind the clock", scope="col", class_="n"),
        "Last heard",
        tag("th", "Rows seen", scope="col", class_="n"),
    ]
    more = f" (the slowest 50 of {len(speakers)})" if len(speakers) > 50 else ""
    what = looked.declared.producers if looked.declared and looked.declared.producers else "partition"
    return join(tag("h2", "Producers"), table(f"By {what}, the slowest first{more}", head, rows))


def _lateness(looked: Looked) -> Html:
    arrivals = looked.arrivals
    if not arrivals.rows or not arrivals.is_exact:
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
    said = f"Of {short(arrivals.rows)} rows seen here: at most so many would be late with that lateness"
    return join(tag("h2", "What another lateness would change"), table(said, head, rows))
