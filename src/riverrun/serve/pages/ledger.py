"""The ledger: every row that was read, and where it went. Each line adds up, or says that it does not."""

from __future__ import annotations

from typing import Any

from riverrun.serve.pages.cells import heads
from riverrun.serve.pages.figures import exact, number, share
from riverrun.serve.pages.health import OK, STOPPED, badge
from riverrun.serve.pages.history import History, declared_sources
from riverrun.serve.pages.markup import Content, Html, join, tag
from riverrun.serve.pages.picture import picture
from riverrun.serve.pages.shell import Asked, Drawn, address, chosen, empty, figure, figures, summary, swatch, table

PARTS = ("accepted", "late_dropped", "late_aside", "duplicates", "quarantined")
_SAID = {
    "accepted": "accepted",
    "late_dropped": "late, dropped",
    "late_aside": "late, put aside",
    "duplicates": "duplicates",
    "quarantined": "quarantined",
}
_WIDTH, _HEIGHT, _THINNEST = 240, 16, 3


def draw(history: History, asked: Asked) -> Drawn:
    regions = {"summary": summary(history, asked)}
    found = chosen(history, asked)
    entries: list[dict[str, Any]] = found[1].status.get("ledger", []) if found else []
    if not found or not entries:
        regions["ledger"] = empty("No row has been read yet. Append some", "riverrun topic append TOPIC ROWS.ndjson")
        return Drawn("Ledger", regions)
    name, known = found
    titles = {box.id: box for box in picture(history, name, known).boxes}
    aside = _asides(history, name)
    sources = [entry for entry in entries if entry["input"] == "topic"]
    regions["figures"] = _numbers(entries, sources)
    order = {id: place for place, id in enumerate(titles)}
    rows = []
    for entry in sorted(entries, key=lambda entry: (order.get(entry["node"], len(order)), entry["input"] != "topic")):
        box = titles.get(entry["node"])
        title = box.title if box else entry["node"]
        about = ("topic" if entry["input"] == "topic" else box.label) if box else ""
        rows.append(_row(entry, title, about, aside.get(entry["node"], {})))
    names = ["Node", "Input", "Rows read", "Where they went", *(_SAID[part] for part in PARTS), "Adds up"]
    regions["ledger"] = table(
        "Every input, since the flow began", heads(names, ["Rows read", *(_SAID[part] for part in PARTS)]), rows
    )
    regions["legend"] = tag(
        "ul",
        *(tag("li", swatch(part), f" {_SAID[part]}") for part in PARTS),
        class_="legend",
        aria_label="What colours mean",
    )
    return Drawn("Ledger", regions)


def _numbers(entries: list[dict[str, Any]], sources: list[dict[str, Any]]) -> Html:
    read = sum(entry["read"] for entry in sources)
    late = sum(entry["late_dropped"] + entry["late_aside"] for entry in entries)
    dropped = sum(entry["late_dropped"] for entry in entries)
    balanced = all(_balance(entry) == 0 for entry in entries)
    return figures(
        figure("Rows read from topics", number(read), f"{exact(read)} rows"),
        figure(
            "Adds up",
            badge(OK, "yes") if balanced else badge(STOPPED, "no"),
            "no row is missing" if balanced else "rows are missing",
        ),
        figure("Late", number(late, "rows"), join(number(dropped), " of them dropped")),
        figure("Duplicates", number(sum(entry["duplicates"] for entry in entries), "rows")),
        figure("Quarantined", number(sum(entry["quarantined"] for entry in entries), "rows")),
    )


def _balance(entry: dict[str, Any]) -> int:
    return int(entry["read"]) - sum(int(entry[part]) for part in PARTS)


def _asides(history: History, flow: str) -> dict[str, dict[str, str]]:
    """For each node, the topics that rows were put into: those that are there."""
    there = set(history.backend.river.topics())
    graph = history.graph(flow)
    found: dict[str, dict[str, str]] = {}
    if graph is None:
        return found
    suffix = flow.removeprefix(graph.name)
    for id, source in declared_sources(graph).items():
        found[id] = {"quarantined": f"{source.topic}.quarantine{suffix}"}
    for node in graph.nodes:
        topic = getattr(getattr(node, "late", None), "topic", None)
        if topic:
            found.setdefault(node.id, {})["late_aside"] = topic + suffix
    return {id: {part: topic for part, topic in parts.items() if topic in there} for id, parts in found.items()}


def _row(entry: dict[str, Any], title: str, about: str, aside: dict[str, str]) -> Html:
    cells = []
    for part in PARTS:
        value: Content = number(entry[part]) if entry[part] else tag("span", "0", class_="quiet")
        if part in aside:
            value = tag("a", value, href=address("topics", aside[part]), title=f"topic {aside[part]}")
        cells.append(tag("td", value, class_="n"))
    missing = _balance(entry)
    return tag(
        "tr",
        tag("th", title, tag("div", about, class_="quiet") if about else None, scope="row", class_="wide"),
        tag("td", entry["input"]),
        tag("td", number(entry["read"]), class_="n"),
        tag("td", _bar(entry)),
        *cells,
        tag("td", badge(OK, "yes") if not missing else badge(STOPPED, f"{missing} missing")),
        id=f"entry-{entry['node']}-{entry['input']}",
    )


def _bar(entry: dict[str, Any]) -> Html:
    """As long as what was read; a part that is there is never too thin to see."""
    read = entry["read"]
    if not read:
        return tag("span", "nothing yet", class_="quiet")
    counts = {part: entry[part] for part in PARTS if entry[part]}
    least = {part: max(_WIDTH * count / read, _THINNEST) for part, count in counts.items()}
    scale = _WIDTH / sum(least.values())
    x, parts = 0.0, []
    for part, width in least.items():
        title = tag("title", f"{_SAID[part]}: {exact(counts[part])} rows, {share(counts[part], read)}")
        parts.append(
            tag("rect", title, x=round(x, 1), y=0, width=round(width * scale, 1), height=_HEIGHT, class_=f"part {part}")
        )
        x += width * scale
    said = ", ".join(f"{_SAID[part]} {share(count, read)}" for part, count in counts.items())
    return tag(
        "svg",
        *parts,
        viewBox=f"0 0 {_WIDTH} {_HEIGHT}",
        width=_WIDTH,
        height=_HEIGHT,
        role="img",
        aria_label=said,
        class_="bar",
    )
