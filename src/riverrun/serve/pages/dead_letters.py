"""Rows that nobody took: what is in a topic of dead letters, of a queue or of an alert. They are kept until dropped."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote, urlencode

from riverrun.errors import NotFound, OutOfRange
from riverrun.log.topic import Topic
from riverrun.serve.pages.history import History
from riverrun.serve.pages.markup import Html, join, tag
from riverrun.serve.pages.quantities import clock, number
from riverrun.serve.pages.shell import ROOT, Asked, address, table
from riverrun.serve.pages.table_cells import heads, pairs

_ORDER = [("_received", "descending"), ("_partition", "ascending"), ("_offset", "descending")]
_SHOWN = 10


def count_dead(history: History, topic: str) -> int | None:
    """How many dead letters wait, whichever run or worker gave them up; None where there never was one."""
    try:
        return history.backend.river.dead_letters.describe(topic).waiting
    except NotFound:
        return None


def read_newest(topic: Topic, count: int) -> list[dict[str, Any]]:
    """The newest rows of a topic, the newest first."""
    end, first = topic.ends(), topic.begins()
    start = {p: max(first[p], offset - count) for p, offset in end.items()}
    try:
        rows = topic.read({topic.name: start}, {topic.name: dict(end)})
    except OutOfRange:
        return []  # removed while they were being read; the next look will do
    return list(rows.sort_by(_ORDER).slice(0, count).to_pylist())


def dead_link(topic: str, count: int | None) -> Html:
    """The number of dead letters, as a link to their topic where there are some."""
    if not count:
        return tag("span", "0", class_="quiet")
    return tag("a", number(count), href=address("topics", topic), title=f"topic {topic}")


def list_dead(history: History, topic: str, asked: Asked) -> Html:
    """The newest dead letters: when, why, and the row; and a button that sends them again."""
    rows = [
        tag(
            "tr",
            tag("td", clock(row["dead_at"])),
            tag("td", row["dead_reason"], class_="wide"),
            tag("td", number(row["dead_attempts"] or 0), class_="n"),
            tag("td", tag("code", row["dead_position"])),
            pairs({name: value for name, value in row.items() if not name.startswith(("_", "dead_"))}),
            id=f"dead-{topic}-{row['_offset']}",
        )
        for row in read_newest(history.backend.topic(topic), _SHOWN)
    ]
    names = ["Given up", "Why", "Attempts", "Position", "Row"]
    found = table(f"The newest of topic {topic}", heads(names, ["Attempts"]), rows)
    if not asked.may_change:
        return found
    action = f"{ROOT}/dead/{quote(topic, safe='')}?{urlencode({'back': asked.link()})}"
    return join(found, tag("form", tag("button", "Send again", type="submit"), method="post", action=action))
