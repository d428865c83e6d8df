"""Alerts as they fire: the rows they are about, and whether people were told."""

from __future__ import annotations

from typing import Any

from riverrun.alerts.message import format_row
from riverrun.alerts.watch import MESSAGE
from riverrun.runtime.status import AlertStatus
from riverrun.serve.pages.dead_letters import count_dead, dead_link, list_dead, read_newest
from riverrun.serve.pages.flow_health import BUSY, OK, STOPPED, badge
from riverrun.serve.pages.history import History
from riverrun.serve.pages.markup import Html, join, tag
from riverrun.serve.pages.quantities import ago, clock, number
from riverrun.serve.pages.shell import Asked, Drawn, address, choose_flow, empty, summary, table
from riverrun.serve.pages.table_cells import heads, pairs

_EACH, _SHOWN = 20, 40
_OPERATOR = "operator"
_COLUMNS = ["When", "Alert", "Message", "Row"]


def draw(history: History, asked: Asked) -> Drawn:
    past = choose_flow(history, asked)
    regions = {"summary": summary(history, asked)}
    names = [name for name in history.backend.river.topics() if past and _is_alert(name, past.name)]
    if not past or not names:
        regions["alerts"] = empty(
            'No alert is declared. A flow does so with flow.alert("large", node, to=[…])', "riverrun run FLOW.py"
        )
        return Drawn("Alerts", regions)
    dead = {name: count_dead(history, f"{name}.dead") or 0 for name in names}
    regions["told"] = _told(history, past.name, dead, {one.alert: one for one in past.status.alerts})
    regions["fired"] = _fired(history, past.name, names)
    letters = [list_dead(history, f"{name}.dead", asked) for name, count in dead.items() if count]
    if letters:
        regions["dead"] = join(tag("h2", "Dead letters"), *letters)
    return Drawn("Alerts", regions)


def _is_alert(topic: str, flow: str) -> bool:
    """The flow's alerts, and what operators are told; dead letters have their own page among the topics."""
    return (topic == f"{flow}.alerts" or topic.startswith(f"{flow}.alerts.")) and not topic.endswith(".dead")


def _title(topic: str, flow: str) -> str:
    return topic.removeprefix(f"{flow}.alerts").removeprefix(".") or _OPERATOR


def _told(history: History, flow: str, dead: dict[str, int], alerts: dict[str, AlertStatus]) -> Html:
    rows = []
    for topic, letters in dead.items():
        title = _title(topic, flow)
        alert = alerts.get(title)
        fired = sum(history.backend.topic(topic).ends().values())
        rows.append(
            tag(
                "tr",
                tag("th", title, scope="row"),
                tag("td", tag("a", number(fired, "rows"), href=address("topics", topic)), class_="n", data_flash=True),
                tag("td", _state(alert, letters)),
                tag("td", number(alert.sent) if alert else "–", class_="n"),
                tag("td", number(alert.waiting) if alert else "–", class_="n"),
                tag("td", dead_link(f"{topic}.dead", letters), class_="n"),
                tag("td", ago(alert.last_sent) if alert and alert.last_sent else "–"),
                tag("td", (alert and alert.last_error) or "–", class_="wide"),
                id=f"alert-{topic}",
            )
        )
    columns = ["Alert", "Fired", "State", "Messages sent", "Rows waiting", "Dead letters", "Last sent", "Last error"]
    return table(
        "Alerts of this flow; messages are counted since the run began, rows and dead letters since there are any",
        heads(columns, ["Fired", "Messages sent", "Rows waiting", "Dead letters"]),
        rows,
    )


def _state(alert: AlertStatus | None, dead: int) -> Html:
    if dead:
        return badge(STOPPED, "some were never delivered")
    if alert is None:
        return tag("span", "sent by another process, or not at all", class_="quiet")
    if alert.last_error and alert.waiting:
        return badge(BUSY, "trying again")
    return badge(OK, "delivered" if alert.sent else "quiet")


def _fired(history: History, flow: str, names: list[str]) -> Html:
    rows = [(row, name) for name in names for row in read_newest(history.backend.topic(name), _EACH)]
    rows.sort(key=lambda pair: pair[0]["_received"], reverse=True)
    head = tag("h2", "Fired")
    if not rows:
        return join(head, empty("No alert has fired yet"))
    templates = _templates(history, flow)
    body = [_row(row, _title(name, flow), templates) for row, name in rows[:_SHOWN]]
    return join(head, table("Newest first; a message may be about several rows", heads(_COLUMNS), body))


def _row(row: dict[str, Any], title: str, templates: dict[str, str | None]) -> Html:
    values = {name: value for name, value in row.items() if not name.startswith("_")}
    message = format_row(templates[title], values) if title in templates else "–"
    return tag(
        "tr",
        tag("td", clock(row["_received"])),
        tag("td", tag("b", title)),
        tag("td", message, class_="wide"),
        pairs(values),
        id=f"fired-{title}-{row['_partition']}-{row['_offset']}",
        data_fresh=True,
    )


def _templates(history: History, flow: str) -> dict[str, str | None]:
    """How each alert words its rows; what the flow declares is known where it runs."""
    graph = history.graph(flow)
    declared = {end.name: end.message for end in graph.alerts.values()} if graph else {}
    return {**declared, _OPERATOR: MESSAGE}
