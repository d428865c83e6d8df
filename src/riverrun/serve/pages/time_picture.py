"""The picture of the page of time: rows, watermark, windows that fill and close, and a strip for each producer."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from riverrun.durations import to_micros
from riverrun.runtime.status import SlowProducer, SourceStatus
from riverrun.serve.pages.arrival_sample import SECOND, ArrivalSample, Speaker
from riverrun.serve.pages.chart import FOOT, HEIGHT, LEFT, RIGHT, TOP, WIDTH, TimeSpan, axes, density, line
from riverrun.serve.pages.history import FlowMoment
from riverrun.serve.pages.markup import Content, Html, join, tag
from riverrun.serve.pages.quantities import number, short, span_text

if TYPE_CHECKING:
    from riverrun.flow.operators.source import Source
    from riverrun.flow.operators.window import Window

_STRIP, _STRIPS = 24, 12
_NARROWEST = 12  # pixels: smaller windows are not drawn
_MOST = 60  # windows
_APART = SECOND  # producers that are nearer to each other do not hold each other back


@dataclass(frozen=True)
class Looked:
    """What the picture is about."""

    samples: list[FlowMoment]
    source: SourceStatus
    arrivals: ArrivalSample
    declared: Source | None
    window: Window | None
    frame: TimeSpan


def time_picture(looked: Looked) -> Html:
    frame, source = looked.frame, looked.source
    cells, shown, outside = density(looked.arrivals.arrived, frame)
    speakers = _slowest(looked)
    below = TOP + HEIGHT + FOOT + len(speakers) * _STRIP + (8 if speakers else 0)
    marks = [(sample.at, sample.watermarks.get(source.source)) for sample in looked.samples]
    path = [(frame.across(mark), frame.y(at)) for at, mark in marks if mark is not None and at >= frame.begin]
    now = path[-1][0] if path else None
    start, end = max(frame.low, frame.begin), min(frame.high, frame.end)
    ideal = [(frame.x(start), frame.y(start)), (frame.x(end), frame.y(end))] if start < end else []
    parts: list[Content] = [
        tag("title", "Rows by event time and by the time they arrived, with watermark and windows"),
        axes(frame, below),
        cells,
        line(ideal, class_="ideal under"),
        line(ideal, class_="ideal"),
        _boxes(looked),
        line(path, class_="watermark"),
        _marks(looked),
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
        notes.append(join(number(outside, "rows"), " with a time outside of it, and without a mark"))
    if not looked.arrivals.is_exact:
        notes.append(join("rows came faster than they can be looked at one by one: cells are estimated from headers"))
    return join(
        tag(
            "div",
            svg,
            class_="scroll picture",
            data_end=RIGHT - 48,
            tabindex="0",
            role="region",
            aria_label="The picture of time",
        ),
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
    passing = _Passing(looked)
    first = (frame.low - offset - size) // every * every + offset
    parts = []
    for start in list(range(first, frame.high, every))[-_MOST:]:
        end = start + size
        came, rows = _filled(looked, start, end)
        if came is None:
            continue
        closed = passing.at(end)
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
            issued = frame.up(passing.at(end + window.late.horizon) or frame.end)
            parts.append(
                tag("rect", x=left, y=issued, width=right - left, height=top - issued, class_="window correcting")
            )
        if right - left > 40 and bottom - top > 20:
            parts.append(
                # in the corner that neither the ideal nor the watermark passes
                tag("text", short(rows), x=right - 6, y=bottom - 6, text_anchor="end", class_="count")
            )
    return tag("g", *parts)


def _filled(looked: Looked, start: int, end: int) -> tuple[int | None, int]:
    """When the first row of a window arrived, and how many did; seconds that are cut in half count where they begin."""
    arrived = looked.arrivals.arrived
    first, last = np.searchsorted(arrived.times, (-(-start // SECOND), -(-end // SECOND)))
    if first == last:
        return None, 0
    return int(arrived.received[first:last].min()) * SECOND, int(arrived.counts[first:last].sum())


class _Passing:
    """When the watermark came to a time."""

    def __init__(self, looked: Looked) -> None:
        name = looked.source.source
        marks = [(mark, sample.at) for sample in looked.samples if (mark := sample.watermarks.get(name)) is not None]
        self._marks = [mark for mark, _ in marks]  # it never goes back
        self._moments = [at for _, at in marks]

    def at(self, time: int) -> int | None:
        """The first sample that saw it there; None if it has not come."""
        place = bisect_left(self._marks, time)
        return self._moments[place] if place < len(self._moments) else None


def _marks(looked: Looked) -> Html:
    frame = looked.frame
    parts = []
    for received, time in list(looked.arrivals.marks):
        if received >= frame.begin and frame.low <= time <= frame.high:
            x, y = frame.x(time), frame.up(received)
            parts.append(f"M{x - 3:g} {y - 3:g}l6 6m0-6l-6 6")
    title = tag("title", "Rows that were behind the watermark when they arrived")
    return tag("path", title, d="".join(parts), class_="straggler")


def find_holder(looked: Looked) -> SlowProducer | None:
    """The producer that holds the watermark back; none where all are about as far."""
    slowest = looked.source.held_by[0] if looked.source.held_by else None
    return slowest if measure_spread(looked) >= _APART else None


def measure_spread(looked: Looked) -> int:
    """How far the slowest producer that counts is behind the one that is furthest, in microseconds: both as they were
    last seen here, since the run may know an older moment."""
    slowest, speakers = looked.source.held_by[0] if looked.source.held_by else None, looked.arrivals.speakers
    if slowest is None or slowest.time is None or not speakers:
        return 0
    seen = speakers.get(slowest.producer or "")
    return max(max(one.time for one in speakers.values()) - (seen.time if seen else to_micros(slowest.time)), 0)


def _slowest(looked: Looked) -> list[Speaker]:
    return sorted(looked.arrivals.speakers.values(), key=lambda one: one.time)[:_STRIPS]


def _strips(looked: Looked, speakers: list[Speaker]) -> Html:
    frame, slow = looked.frame, find_holder(looked)
    holder = slow.producer if slow else None
    parts: list[Content] = []
    for place, speaker in enumerate(speakers):
        y = TOP + HEIGHT + FOOT + place * _STRIP
        end = frame.across(speaker.time)
        holds = slow is not None and speaker.name == holder
        heard = [frame.across(time) for _, time in list(speaker.trail) if time >= frame.low]
        ticks_ = "".join(f"M{x:g} {y + 6}v8" for x in sorted(set(heard)))
        said = span_text(max(looked.frame.end - speaker.time, 0) / 1e6)
        parts += [
            tag(
                "text",
                _short(looked.arrivals.name_producer(speaker.name)),
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
                f"◀ holds back, {said}" if holds else said,
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
        tag("li", tag("span", "■", class_="key heat", aria_hidden="true"), " rows: the stronger, the more"),
        tag("li", tag("span", "┄", class_="key ideal", aria_hidden="true"), " ideal: arrived when it happened"),
        tag("li", tag("span", "━", class_="key watermark", aria_hidden="true"), " watermark"),
        tag("li", tag("span", "×", class_="key straggler", aria_hidden="true"), " behind the watermark when it came"),
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
