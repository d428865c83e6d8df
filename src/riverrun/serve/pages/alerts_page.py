"""Alerts as they fire: the rows they are about, and whether people were told."""

from __future__ import annotations

from typing import Any

from riverrun.errors import OutOfRange
from riverrun.log.json_rows import plain_rows
from riverrun.log.topic import Topic
from riverrun.runtime.status import AlertStatus
from riverrun.serve.pages.flow_health import BUSY, OK, STOPPED, badge
from riverrun.serve.pages.history import History
from riverrun.serve.pages.markup import Html, join, tag
from riverrun.serve.pages.quantities import ago, clock, number, parse
from riverrun.serve.pages.shell import Asked, Drawn, address, choose_flow, empty, summary, table
from riverrun.serve.pages.table_cells import heads, pairs

_EACH, _SHOWN = 20, 40
_ORDER = [("_received", "descending"), ("_partition", "ascending"), ("_offset", "descending")]


def draw(history: History, asked: Asked) -> Drawn:
    past = choose_flow(history, asked)
    regions = {"summary": summary(history, asked)}
    names = [name for name in history.backend.river.topics() if past and _is_alert(name, past.name)]
    if not past or not names:
        regions["alerts"] = empty(
            'No alert is declared. A flow does so with flow.alert("large", node, to=[…])', "riverrun run FLOW.py"
        )
        return Drawn("Alerts", regions)
    regions["told"] = _told(history, past.name, names, {one.alert: one for one in past.status.alerts})
    regions["fired"] = _fired(history, past.name, names)
    return Drawn("Alerts", regions)


def _is_alert(topic: str, flow: str) -> bool:
    """The flow's alerts, and what operators are told; dead letters have their own page among the topics."""
    return (topic == f"{flow}.alerts" or topic.startswith(f"{flow}.alerts.")) and not topic.endswith(".dead")


def _title(topic: str, flow: str) -> str:
    return topic.removeprefix(f"{flow}.alerts").removeprefix(".") or "operator"


def _told(history: History, flow: str, names: list[str], alerts: dict[str, AlertStatus]) -> Html:
    rows = []
    for topic in names:
        title = _title(topic, flow)
        alert = alerts.get(title)
        fired = sum(history.backend.topic(topic).ends().values())
        rows.append(
            tag(
                "tr",
                tag("th", title, scope="row"),
                tag("td", tag("a", number(fired, "rows"), href=address("topics", topic)), class_="n", data_flash=True),
                tag("td", _state(alert)),
                tag("td", number(alert.sent) if alert else "–", class_="n"),
                tag("td", number(alert.waiting) if alert else "–", class_="n"),
                tag("td", _dead(history, topic, alert), class_="n"),
                tag("td", ago(alert.last_sent) if alert and alert.last_sent else "–"),
                tag("td", (alert and alert.last_error) or "–", class_="wide"),
                id=f"alert-{topic}",
            )
        )
    columns = ["Alert", "Fired", "State", "Messages sent", "Rows waiting", "Dead letters", "Last sent", "Last error"]
    return table(
        "Alerts of this flow; messages are counted since the run began",
        heads(columns, ["Fired", "Messages sent", "Rows waiting", "Dead letters"]),
        rows,
    )


def _dead(history: History, topic: str, alert: AlertStatus | None) -> Html:
    dead = f"{topic}.dead"
    if alert is None:
        return tag("span", "–")
    count = number(alert.dead)
    return tag("a", count, href=address("topics", dead)) if dead in history.backend.river.topics() else count


def _state(alert: AlertStatus | None) -> Html:
    if alert is None:
        return tag("span", "sent by another process, or not at all", class_="quiet")
    if alert.dead:
        return badge(STOPPED, "some were never delivered")
    if alert.last_error and alert.waiting:
        return badge(BUSY, "trying again")
    return badge(OK, "delivered" if alert.sent else "quiet")


def _fired(history: History, flow: str, names: list[str]) -> Html:
    rows = [(row, _title(name, flow)) for name in names for row in _read_newest(history.backend.topic(name))]
    rows.sort(key=lambda pair: pair[0]["_received"], reverse=True)
    head = tag("h2", "Fired")
    if not rows:
        return join(head, empty("No alert has fired yet"))
    body = [
        tag(
            "tr",
            tag("td", clock(parse(row["_received"]))),
            tag("td", tag("b", title)),
            pairs({name: value for name, value in row.items() if not name.startswith("_")}),
            id=f"fired-{title}-{row['_partition']}-{row['_offset']}",
            data_fresh=True,
        )
        for row, title in rows[:_SHOWN]
    ]
    return join(head, table("Newest first", heads(["When", "Alert", "Row"]), body))


def _read_newest(topic: Topic) -> list[dict[str, Any]]:
    end, first = topic.ends(), topic.begins()
    start = {p: max(first[p], offset - _EACH) for p, offset in end.items()}
    try:
        rows = topic.read({topic.name: start}, {topic.name: dict(end)})
    except OutOfRange:
        return []
    return plain_rows(rows.sort_by(_ORDER).slice(0, _EACH).combine_chunks())
