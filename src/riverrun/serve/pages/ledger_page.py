"""The ledger: every row that was read, and where it went. Each line adds up, or says that it does not."""

from __future__ import annotations

from collections.abc import Sequence

from riverrun.runtime.ledger import LedgerEntry
from riverrun.serve.pages.flow_health import OK, STOPPED, badge
from riverrun.serve.pages.flow_picture import picture_flow
from riverrun.serve.pages.history import History, declared_sources
from riverrun.serve.pages.markup import Content, Html, join, tag
from riverrun.serve.pages.quantities import exact, number, share
from riverrun.serve.pages.shell import (
    Asked,
    Drawn,
    address,
    choose_flow,
    empty,
    figure,
    figures,
    summary,
    swatch,
    table,
)
from riverrun.serve.pages.table_cells import heads

_SAID = {
    "accepted": "accepted",
    "late_dropped": "late, dropped",
    "late_aside": "late, put aside",
    "duplicates": "duplicates",
    "quarantined": "quarantined",
}
_OF_ACCEPTED = {"corrected": "corrected", "deleted": "tombstones"}
_GIVEN_UP = "attempts given up"
_MEANING = (
    "Late is a row that came when nothing could count it any more: all it could have changed had closed, and the time for"
    " corrections was over. One that came before that, to a window that had closed, is accepted and corrects it. An input"
    " counts by itself, so a row that two windows read is in the ledger twice. Corrected and tombstones are some of the"
    " accepted ones."
)
_WIDTH, _HEIGHT, _THINNEST = 110, 16, 3


def draw(history: History, asked: Asked) -> Drawn:
    regions = {"summary": summary(history, asked)}
    past = choose_flow(history, asked)
    entries = past.status.ledger if past else ()
    if not past or not entries:
        regions["ledger"] = empty("No row has been read yet. Append some", "riverrun topic append TOPIC ROWS.ndjson")
        return Drawn("Ledger", regions)
    titles = {box.id: box for box in picture_flow(history, past).boxes}
    aside = _find_asides(history, past.name)
    regions["figures"] = _numbers(entries, past.status.rows_read)
    order = {id: place for place, id in enumerate(titles)}
    gave_up = any(entry.given_up for entry in entries)
    rows = []
    for entry in sorted(entries, key=lambda entry: (order.get(entry.node, len(order)), entry.input != "topic")):
        box = titles.get(entry.node)
        title = box.title if box else entry.called
        about = ("topic" if entry.input == "topic" else box.label) if box else ""
        rows.append(_row(entry, title, about, aside.get(entry.node, {}), gave_up))
    accepted, *others = _SAID.values()
    counts = ["Rows read", accepted, *_OF_ACCEPTED.values(), *others]
    if gave_up:
        counts.append(_GIVEN_UP)
    names = ["Node", "Input", "Rows read", "Where they went", *counts[1:], "Adds up"]
    regions["ledger"] = table("Every input, since the flow began", heads(names, counts), rows)
    regions["legend"] = tag(
        "ul",
        *(tag("li", swatch(part), f" {said}") for part, said in _SAID.items()),
        class_="legend",
        aria_label="What colours mean",
    )
    regions["meaning"] = tag("p", _MEANING, class_="note")
    return Drawn("Ledger", regions)


def _numbers(entries: Sequence[LedgerEntry], read: int) -> Html:
    dropped = sum(entry.late_dropped for entry in entries)
    late = sum(entry.late for entry in entries)
    balanced = not any(entry.missing for entry in entries)
    given_up = sum(entry.given_up for entry in entries)
    patterns = [figure("Attempts given up", number(given_up), "of patterns, open for more rows than may be")]
    return figures(
        figure("Rows read from topics", number(read), f"{exact(read)} rows"),
        figure(
            "Adds up",
            badge(OK, "yes") if balanced else badge(STOPPED, "no"),
            "no row is missing" if balanced else "rows are missing",
        ),
        figure("Late rows", number(late, "rows"), join("came too late to count, ", number(dropped), " were dropped")),
        figure(
            "Corrections",
            number(sum(entry.corrected for entry in entries), "rows"),
            "came to a window that had closed, and issued it again",
        ),
        figure("Duplicates", number(sum(entry.duplicates for entry in entries), "rows")),
        figure("Quarantined", number(sum(entry.quarantined for entry in entries), "rows")),
        *(patterns if given_up else []),
    )


def _find_asides(history: History, flow: str) -> dict[str, dict[str, str]]:
    """For each node, the topics that rows were put into: those that are there."""
    there = set(history.backend.river.topics())
    graph = history.graph(flow)
    if graph is None:
        return {}
    suffix = flow.removeprefix(graph.name)
    asides: dict[str, dict[str, str]] = {}
    for id, source in declared_sources(graph).items():
        asides[id] = {"quarantined": f"{source.topic}.quarantine{suffix}"}
    for node in graph.nodes:
        for topic in node.late_topics.values():
            asides.setdefault(node.id, {})["late_aside"] = topic + suffix
        for topic in node.quarantines.values():
            from_node = f"{graph.name}.{node.id}"
            asides.setdefault(node.id, {})["quarantined"] = f"{topic or from_node}.quarantine{suffix}"
    return {id: {part: topic for part, topic in parts.items() if topic in there} for id, parts in asides.items()}


def _counted(count: int) -> Content:
    return number(count) if count else tag("span", "0", class_="quiet")


def _row(entry: LedgerEntry, title: str, about: str, aside: dict[str, str], gave_up: bool) -> Html:
    cells = []
    for part in _SAID:
        count = entry.count(part)
        value = _counted(count)
        if part in aside:
            value = tag("a", value, href=address("topics", aside[part]), title=f"topic {aside[part]}")
        cells.append(tag("td", value, class_="n"))
    cells[1:1] = [tag("td", _counted(entry.count(part)), class_="n") for part in _OF_ACCEPTED]
    if gave_up:
        cells.append(tag("td", _counted(entry.given_up), class_="n"))
    missing = entry.missing
    return tag(
        "tr",
        tag("th", title, tag("div", about, class_="quiet") if about else None, scope="row", class_="wide"),
        tag("td", entry.input),
        tag("td", number(entry.read), class_="n"),
        tag("td", _bar(entry)),
        *cells,
        tag("td", badge(OK, "yes") if not missing else badge(STOPPED, f"{missing} missing")),
        id=f"entry-{entry.node}-{entry.input}",
    )


def _bar(entry: LedgerEntry) -> Html:
    """As long as what was read; a part that is there is never too thin to see."""
    read = entry.read
    if not read:
        return tag("span", "nothing yet", class_="quiet")
    counts = {part: entry.count(part) for part in _SAID if entry.count(part)}
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
