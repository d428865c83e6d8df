"""The captures of databases: how far each is, what its source keeps for it, and tables that stopped, with what helps."""

from __future__ import annotations

from typing import Any

from riverrun.serve.pages.flow_health import BUSY, OK, STOPPED, UNKNOWN, WAITING, badge
from riverrun.serve.pages.history import History
from riverrun.serve.pages.markup import Content, Html, join, tag
from riverrun.serve.pages.quantities import number, rate, size, span
from riverrun.serve.pages.shell import Asked, Drawn, address, empty, figure, figures, notice, summary, table
from riverrun.serve.pages.table_cells import heads

_EXAMPLE = "riverrun capture postgresql://login@host/shop --tables public.orders --name shop"
_KINDS = {
    "streaming": OK,
    "snapshot": BUSY,
    "starting": WAITING,
    "waiting": WAITING,
    "stopped": STOPPED,
    "failed": STOPPED,
}
_NUMBERS = ["Snapshot", "Rows", "Rate"]


def draw(history: History, asked: Asked) -> Drawn:
    regions = {"summary": summary(history, asked)}
    captures = history.backend.river.captures()
    if not captures:
        regions["captures"] = empty("No database is captured yet. This begins one", _EXAMPLE)
    limit = history.backend.river.settings.capture_held_bytes
    for one in captures:
        regions[f"capture-{one['name']}"] = _capture(one, limit)
    return Drawn("Captures", regions)


def _capture(one: dict[str, Any], limit: int) -> Html:
    parts: list[Content] = [
        tag("h2", one["name"], " ", badge(_KINDS.get(one["state"], UNKNOWN), one["state"])),
        tag("p", one["source"], class_="quiet"),
    ]
    if one.get("reason"):
        parts.append(notice("stopped", one["state"], one["reason"]))
    if "tables" not in one:
        return join(*parts)
    held = one["held_bytes"]
    if limit and held and held > limit:
        parts.append(
            notice(
                "stopped",
                "The source keeps its log for this capture.",
                f"Let it run, or, if it is not needed any more, {_letting_go(one['source'])}",
            )
        )
    parts.append(
        figures(
            figure("Position", one["position"] or "–", "of the source's log"),
            figure("Lag", _lag(one), _age(one)),
            figure("Kept for it", "–" if held is None else size(held), "on the source's disk"),
        )
    )
    rows = [_table(name, told) for name, told in one["tables"].items()]
    parts.append(table(f"Tables of {one['name']}", heads(["Table", "State", *_NUMBERS, "Why"], _NUMBERS), rows))
    return join(*parts)


def _letting_go(source: str) -> str:
    if source.startswith("sqlite:"):
        return "remove its triggers: riverrun capture … --uninstall"
    return "drop its slot: select pg_drop_replication_slot('…')"


def _lag(one: dict[str, Any]) -> Content:
    return "–" if one["lag_bytes"] is None else size(one["lag_bytes"])


def _age(one: dict[str, Any]) -> Content:
    if one["lag_bytes"] is None:
        return None
    return join(span(one["lag_seconds"] or 0.0), " behind") if one["lag_bytes"] else "up to date"


def _table(name: str, told: dict[str, Any]) -> Html:
    topic = told["topic"]
    read = number(told["snapshot_rows"])
    if told["state"] == "snapshot" and told["snapshot_of"]:
        read = join(read, " of about ", number(told["snapshot_of"]))
    return tag(
        "tr",
        tag("th", tag("a", name, href=address("topics", topic)) if topic else name, scope="row"),
        tag("td", badge(_KINDS.get(told["state"], UNKNOWN), told["state"])),
        tag("td", read, class_="n"),
        tag("td", number(told["rows"]), class_="n", data_flash=True),
        tag("td", rate(told["rows_per_second"]), class_="n"),
        tag("td", told["reason"] or "", class_="wide"),
        id=f"table-{name}",
    )
