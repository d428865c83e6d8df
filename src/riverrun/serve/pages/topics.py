"""All topics: what comes in, what is kept, who falls behind."""

from __future__ import annotations

from typing import Any

from riverrun.durations import micros, show, wall_clock
from riverrun.errors import RiverrunError
from riverrun.log.topic import Topic
from riverrun.serve.pages.figures import UNKNOWN, number, rate, size, span
from riverrun.serve.pages.history import History
from riverrun.serve.pages.markup import Content, Html, tag
from riverrun.serve.pages.readers import TopicReader, readers
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
    reading = readers(history)
    rows = [_row(history, name, reading.get(name, [])) for name in names]
    heads: list[Content] = [
        "Topic",
        "Rate, the last minute",
        tag("th", "Now", scope="col", class_="n"),
        tag("th", "Rows kept", scope="col", class_="n"),
        tag("th", "Size", scope="col", class_="n"),
        "Kept for",
        "Readers and how far they are behind",
    ]
    regions["topics"] = table(f"{len(names)} topics", heads, rows)
    return Drawn("Topics", regions)


def _row(history: History, name: str, reading: list[TopicReader]) -> Html:
    head = tag("th", tag("a", name, href=address("topics", name)), scope="row")
    try:
        found = described(history, name)
    except RiverrunError as error:
        return tag("tr", head, tag("td", error.message, colspan=6, class_="wide"), id=f"topic-{name}")
    now = history.topic_rate(name, 5)
    who = [tag("div", f"{one.kind} ", tag("b", one.name), " ", one.lag()) for one in reading]
    return tag(
        "tr",
        head,
        tag("td", spark_line(history.topic_rates(name), name)),
        tag("td", rate(now) if now is not None else UNKNOWN, class_="n"),
        tag("td", number(found["offsets"]), class_="n"),
        tag("td", size(found["bytes"]), class_="n"),
        tag("td", age(found), " ", tag("span", limit(found), class_="quiet")),
        tag("td", *who if who else [tag("span", "nobody", class_="quiet")]),
        id=f"topic-{name}",
    )


def described(history: History, name: str) -> dict[str, Any]:
    """What a topic says of itself, with the receive time of its oldest row; a few seconds old at most."""
    return history.kept(("topic", name), _FRESH, lambda: _describe(history.backend.topic(name)))


def _describe(topic: Topic) -> dict[str, Any]:
    first, last = topic.begins(), topic.ends()
    oldest = next((part.first_received for part in topic.summaries(first, last) if part.rows), None)
    newest = topic.describe()
    return {**newest, "oldest": oldest}


def age(found: dict[str, Any]) -> Html:
    """How old the oldest row is."""
    if found["oldest"] is None:
        return tag("span", "no rows yet", class_="quiet")
    return span(max(wall_clock() - found["oldest"], 0) / 1e6)


def limit(found: dict[str, Any]) -> str:
    """How long rows are kept."""
    if found["compact"]:
        return "newest of each key"
    return f"at most {show(micros(found['retention']))}" if found["retention"] else "for ever"
