"""What people may do to a group from its page. Each is a form that works without scripts and is posted to the page.

Who may post is decided where all requests are looked at (`serve.guard`): the role admin, from a page of this server.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from riverrun.errors import Invalid, NotFound
from riverrun.log.topic import Start
from riverrun.river import River
from riverrun.serve.pages.group_state import GroupState
from riverrun.serve.pages.markup import Html, tag

_EARLIEST, _LATEST, _TIME = "earliest", "latest", "time"
_PLACES = {_EARLIEST: "the earliest row there is", _LATEST: "what comes from now on", _TIME: "the time beside, UTC"}


@dataclass(frozen=True)
class GroupAction:
    """`draw` gives the form, which posts to the address it is given; `press` does it to a group, with what the form says,
    and raises where it cannot; `done` is what the page says then."""

    name: str
    draw: Callable[[GroupState, str], Html]
    press: Callable[[River, str, Mapping[str, str]], None]
    done: str


def find_action(name: str) -> GroupAction:
    """The action of that name."""
    found = next((action for action in ACTIONS if action.name == name), None)
    if found is None:
        raise NotFound(f"there is nothing called {name!r} that can be done to a group")
    return found


def _draw_reset(group: GroupState, address: str) -> Html:
    topics = [tag("option", topic, value=topic) for topic in group.topics]
    places = [tag("option", said, value=place) for place, said in _PLACES.items()]
    warning = "messages that were handed out are given out again" if group.is_queue else "rows may be read again"
    return tag(
        "section",
        tag("h2", "Let it go on from elsewhere"),
        tag("p", f"It is refused while somebody works for the group, unless forced; {warning}.", class_="note"),
        tag(
            "form",
            tag("label", "Topic", tag("select", *topics, name="topic")),
            tag("label", "Go on from", tag("select", *places, name="to")),
            tag("label", "Time (UTC)", tag("input", type="datetime-local", name="time", step=1)),
            tag("label", "Although it is in use", tag("input", type="checkbox", name="force", value="yes")),
            tag("button", "Move", type="submit"),
            method="post",
            action=address,
        ),
        class_="card",
    )


def _reset(river: River, group: str, form: Mapping[str, str]) -> None:
    topic = form.get("topic", "")
    if topic not in river.lag(group)["topics"]:
        raise Invalid(f"group {group} does not read topic {topic!r}")
    river.groups.reset(group, topic, _place(form), force=form.get("force") == "yes")


def _place(form: Mapping[str, str]) -> Start:
    to = form.get("to")
    if to in (_EARLIEST, _LATEST):
        return to
    if to != _TIME:
        raise Invalid("it is not said where the group should go on", hint=f"Choose one of: {', '.join(_PLACES)}")
    try:
        moment = datetime.fromisoformat(form.get("time", ""))
    except ValueError:
        raise Invalid("the time is missing, or is none", hint="Give one such as 2026-01-31T12:00, in UTC") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


ACTIONS = (GroupAction("reset", _draw_reset, _reset, "The group was moved: it goes on from the offsets below."),)
