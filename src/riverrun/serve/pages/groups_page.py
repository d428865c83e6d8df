"""All consumer groups and queues: who works, what waits, what was given up."""

from __future__ import annotations

from riverrun.serve.pages.dead_letters import dead_link
from riverrun.serve.pages.group_state import GroupState, find_groups
from riverrun.serve.pages.history import History
from riverrun.serve.pages.markup import Html, join, tag
from riverrun.serve.pages.quantities import number
from riverrun.serve.pages.shell import Asked, Drawn, address, empty, summary, table
from riverrun.serve.pages.table_cells import heads

_EXAMPLE = 'for batch in river.topic("orders").consumer("billing"): …'
_NUMBERS = ["Working", "In flight", "Dead letters"]


def draw(history: History, asked: Asked) -> Drawn:
    regions = {"summary": summary(history, asked)}
    groups = find_groups(history)
    if not groups:
        regions["groups"] = empty("No group and no queue has read a topic yet. A program makes one", _EXAMPLE)
        return Drawn("Groups", regions)
    names = ["Group", "Kind", "Topics", *_NUMBERS, "Lag"]
    regions["groups"] = table(
        f"{len(groups)} groups and queues; flows are readers too, and have their own pages",
        heads(names, _NUMBERS),
        [_row(group) for group in groups],
    )
    return Drawn("Groups", regions)


def _row(group: GroupState) -> Html:
    return tag(
        "tr",
        tag("th", tag("a", group.name, href=address("groups", group.name)), scope="row"),
        tag("td", group.said["kind"]),
        tag("td", ", ".join(group.topics), class_="wide"),
        tag("td", number(group.members), class_="n"),
        tag("td", number(group.in_flight) if group.is_queue else "–", class_="n", data_flash=True),
        tag("td", link_dead(group) if group.is_queue else "–", class_="n"),
        tag("td", group.lag, class_="wide"),
        id=f"group-{group.name}",
    )


def link_dead(group: GroupState) -> Html:
    """How many messages of a queue were given up, with links to them; one number for each topic that it takes."""
    links = [dead_link(topic, count) for topic, count in group.dead.items() if count] or [dead_link("", 0)]
    return join(*(join(", " if place else "", link) for place, link in enumerate(links)))
