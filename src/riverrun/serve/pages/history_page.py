"""The last day of a flow: throughput, lag, lateness and the time of epochs."""

from __future__ import annotations

from collections.abc import Callable

from riverrun.durations import wall_clock
from riverrun.serve.pages.day import DAY, FINE, HOUR, MINUTE, DayPart, coarsen
from riverrun.serve.pages.day_chart import Measure, draw_chart
from riverrun.serve.pages.history import History
from riverrun.serve.pages.markup import Html, join, tag
from riverrun.serve.pages.quantities import clock, number, rate, short, span, span_text
from riverrun.serve.pages.shell import Asked, Drawn, choose_flow, empty, summary, table
from riverrun.serve.pages.table_cells import heads

_SPANS = {"day": DAY, "2h": FINE}
_SAID = {"day": "day", "2h": "2 hours"}


def _per_minute(count: int, part: DayPart) -> float:
    return count * MINUTE / part.seconds if part.seconds else 0.0


def _rows(value: float) -> str:
    return f"{short(value)}/min"


_CHARTS: tuple[tuple[str, Measure, Callable[[float], str]], ...] = (
    ("Rows read in a second", lambda part: part.rate, lambda value: f"{short(value)}/s"),
    ("Lag: how long the oldest row waited", lambda part: part.lag, span_text),
    ("Watermark behind the clock", lambda part: part.behind, span_text),
    ("Late rows in a minute", lambda part: _per_minute(part.late, part), _rows),
    ("Rows that corrected a window, in a minute", lambda part: _per_minute(part.corrected, part), _rows),
    ("The slowest epoch", lambda part: part.slowest, span_text),
)


def draw(history: History, asked: Asked) -> Drawn:
    regions = {"summary": summary(history, asked)}
    past = choose_flow(history, asked)
    parts = history.day(past.name) if past else []
    if not past or not parts:
        regions["history"] = empty(
            "Nothing is known of the last day yet; a run that serves its pages writes it down, from its first minute on",
            "riverrun run FLOW.py",
        )
        return Drawn("History", regions)
    chosen = asked.get("span") if asked.get("span") in _SPANS else "day"
    # By the minute, so that the page changes once in one.
    end = (wall_clock() // 1_000_000 // MINUTE + 1) * MINUTE
    regions["choice"] = _choices(chosen, asked)
    width = _SPANS[chosen]
    regions["charts"] = join(*(draw_chart(title, parts, of, show, end, width) for title, of, show in _CHARTS))
    regions["hours"] = _hours([part for part in parts if part.at >= end - DAY])
    return Drawn("History", regions, every=5.0)


def _choices(chosen: str, asked: Asked) -> Html:
    links = [
        tag("a", said, href=asked.link(span=name), aria_current="true" if name == chosen else None)
        for name, said in _SAID.items()
    ]
    return tag("div", tag("span", "The last", class_="quiet"), *links, class_="tabs")


def _hours(parts: list[DayPart]) -> Html:
    rows = [
        tag(
            "tr",
            tag("th", clock(part.at * 1_000_000), scope="row"),
            tag("td", number(part.rows), class_="n"),
            tag("td", rate(round(part.rate, 1)), class_="n"),
            tag("td", span(part.lag), class_="n"),
            tag("td", "–" if part.behind is None else span(part.behind), class_="n"),
            tag("td", number(part.late), class_="n"),
            tag("td", number(part.corrected), class_="n"),
            tag("td", "–" if part.slowest is None else span(part.slowest), class_="n"),
            id=f"hour-{part.at}",
        )
        for part in reversed(coarsen(parts, HOUR))
    ]
    names = ["Hour", "Rows", "Rate", "Most lag", "Watermark behind", "Late", "Corrected", "Slowest epoch"]
    return join(
        tag("h2", "By the hour"),
        table(
            "Newest first; of times, the worst that was seen; an hour counts as far as it was watched",
            heads(names, names[1:]),
            rows,
        ),
    )
