"""All topics: what comes in, what is kept, who lags."""

from __future__ import annotations

from typing import Any

from riverrun.durations import micros, show, wall_clock
from riverrun.errors import RiverrunError
from riverrun.serve.pages.history import History
from riverrun.serve.pages.markup import Content, Html, tag
from riverrun.serve.pages.quantities import number, rate, size, span
from riverrun.serve.pages.readers import TopicReader, find_readers
from riverrun.serve.pages.shell import Asked, Drawn, address, empty, summary, table
from riverrun.serve.pages.spark_line import spark_line

_FRESH = 5.0  # seconds for which sizes hold
_CREATE = 'riverrun topic create NAME --schema "user string, at timestamp" --key user --time at'


def draw(history: History, asked: Asked) -> Drawn:
    names = history.backend.river.topics()
    regions = {"summary": summary(history, asked)}
    if not names:
        regions["topics"] = empty("There are no topics yet", _CREATE)
        return Drawn("Topics", regions)
    reading = find_readers(history)
    rows = [_row(history, name, reading.get(name, [])) for name in names]
    heads: list[Content] = [
        "Topic",
        "Rate, the last minute",
        tag("th", "Now", scope="col", class_="n"),
        tag("th", "Rows kept", scope="col", class_="n"),
        tag("th", "Size", scope="col", class_="n"),
        "Kept for",
        "Readers and their lag",
    ]
    regions["topics"] = table(f"{len(names)} topic{'s' * (len(names) != 1)}", heads, rows)
    return Drawn("Topics", regions)


def _row(history: History, name: str, reading: list[TopicReader]) -> Html:
    head = tag("th", tag("a", name, href=address("topics", name)), scope="row")
    try:
        topic = describe_topic(history, name)
    except RiverrunError as error:
        return tag("tr", head, tag("td", error.message, colspan=6, class_="wide"), id=f"topic-{name}")
    who = [tag("div", f"{one.kind} ", tag("b", one.name), " ", one.lag()) for one in reading]
    return tag(
        "tr",
        head,
        tag("td", spark_line(history.topic_rates(name), name)),
        tag("td", rate(history.topic_rate(name, 5)), class_="n"),
        tag("td", number(topic["offsets"]), class_="n"),
        tag("td", "–" if topic["bytes"] is None else size(topic["bytes"]), class_="n"),
        tag("td", age(topic), tag("div", limit(topic), class_="quiet")),
        tag("td", *who if who else [tag("span", "nobody", class_="quiet")], class_="wide"),
        id=f"topic-{name}",
    )


def describe_topic(history: History, name: str) -> dict[str, Any]:
    """What a topic says of itself, with the receive time of its oldest row; a few seconds old at most."""
    return history.remember(("topic", name), _FRESH, lambda: _describe(history, name))


def _describe(history: History, name: str) -> dict[str, Any]:
    with history.backend.river.briefly(name) as topic:
        first, last = topic.begins(), topic.ends()
        oldest = next((part.first_received for part in topic.summaries(first, last) if part.rows), None)
        return {**topic.describe(), "oldest": oldest}


def age(topic: dict[str, Any]) -> Html:
    """How old the oldest row is."""
    if topic["oldest"] is None:
        return tag("span", "no rows yet", class_="quiet")
    return span(max(wall_clock() - topic["oldest"], 0) / 1e6)


def limit(topic: dict[str, Any]) -> str:
    """How long rows are kept."""
    if topic["compact"]:
        return "newest of each key"
    return f"at most {show(micros(topic['retention']))}" if topic["retention"] else "for ever"
