"""Epochs: how long each took and on what, and what happened between them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from riverrun.durations import from_micros
from riverrun.serve.pages.cells import heads
from riverrun.serve.pages.figures import UNKNOWN, clock, number, parse, short, span, span_text
from riverrun.serve.pages.health import STOPPED, WAITING, badge
from riverrun.serve.pages.history import FlowHistory, History, Mark
from riverrun.serve.pages.markup import Content, Html, join, tag
from riverrun.serve.pages.shell import Asked, Drawn, chosen, empty, figure, figures, summary, swatch, table

TIMES = ("plan", "read", "compute", "commit")
_ABOUT = {
    "plan": "Spark plans the epoch",
    "read": "rows are read from the log",
    "compute": "operators work",
    "commit": "views and topics are written",
}
_LEFT, _TOP, _WIDTH, _HEIGHT = 64, 24, 1088, 200
_BARS, _LISTED = 60, 30


def draw(history: History, asked: Asked) -> Drawn:
    regions = {"summary": summary(history, asked)}
    found = chosen(history, asked)
    epochs = sorted(found[1].epochs.values(), key=lambda one: one["epoch"]) if found else []
    if not found or not epochs:
        regions["epochs"] = empty(
            "No epoch has been committed yet. One begins when rows arrive", "riverrun topic append TOPIC ROWS.ndjson"
        )
        return Drawn("Epochs", regions)
    timed = [one for one in epochs if _took(one) is not None]
    regions["figures"] = _numbers(found[1], epochs, timed)
    if timed:
        regions["bars"] = _bars(timed[-_BARS:], list(found[1].marks))
    else:
        regions["bars"] = tag("p", "How long an epoch took, only the process that runs the flow knows.", class_="note")
    regions["marks"] = _marks(list(found[1].marks))
    regions["list"] = _list(epochs[-_LISTED:])
    return Drawn("Epochs", regions)


def _took(epoch: dict[str, Any]) -> float | None:
    return sum(epoch[name] for name in TIMES) if all(name in epoch for name in TIMES) else None


def _numbers(known: FlowHistory, epochs: list[dict[str, Any]], timed: list[dict[str, Any]]) -> Html:
    took = sorted(_took(one) or 0.0 for one in timed)
    slow = max(TIMES, key=lambda name: sum(one[name] for one in timed)) if timed else None
    return figures(
        figure("Epoch", number(epochs[-1]["epoch"]), join("committed at ", clock(parse(epochs[-1]["at"])))),
        figure("An epoch takes", span(took[len(took) // 2]) if took else UNKNOWN, "the middle one"),
        figure(
            "The slowest took",
            span(took[-1]) if took else UNKNOWN,
            join("of the last ", number(len(took), "epochs")) if took else None,
        ),
        figure("Most of it goes to", slow or UNKNOWN, _ABOUT[slow] if slow else None),
        figure("Run", join("fence ", known.status.get("fence", "–")), f"changes noticed: {len(known.marks)}"),
    )


def _bars(epochs: list[dict[str, Any]], marks: list[Mark]) -> Html:
    most = max(_took(one) or 0.0 for one in epochs) or 0.001
    step = _WIDTH / max(len(epochs), 20)
    parts: list[Content] = []
    for share in (0.5, 1.0):
        y = _TOP + _HEIGHT * (1 - share)
        parts.append(tag("line", x1=_LEFT, x2=_LEFT + _WIDTH, y1=y, y2=y, class_="grid"))
        parts.append(tag("text", span_text(most * share), x=_LEFT - 8, y=y + 4, text_anchor="end", class_="tick"))
    for place, one in enumerate(epochs):
        x, y = _LEFT + place * step, float(_TOP + _HEIGHT)
        title = tag(
            "title",
            f"epoch {one['epoch']}, {short(one.get('rows', 0))} rows: "
            + ", ".join(f"{n} {span_text(one[n])}" for n in TIMES),
        )
        rects = []
        for name in TIMES:
            height = _HEIGHT * one[name] / most
            y -= height
            rects.append(
                tag(
                    "rect",
                    x=round(x + 1, 1),
                    y=round(y, 1),
                    width=round(max(step - 2, 1), 1),
                    height=round(height, 1),
                    class_=f"part {name}",
                )
            )
        parts.append(tag("g", title, *rects))
        if place % max(len(epochs) // 8, 1) == 0:
            parts.append(tag("text", f"{one['epoch']}", x=round(x + 1, 1), y=_TOP + _HEIGHT + 16, class_="tick"))
    parts += [_flag(mark, epochs, step) for mark in marks]
    svg = tag(
        "svg",
        tag("title", "One bar for each epoch, the newest on the right"),
        *parts,
        viewBox=f"0 0 {_LEFT + _WIDTH} {_TOP + _HEIGHT + 24}",
        width=_LEFT + _WIDTH,
        height=_TOP + _HEIGHT + 24,
        class_="epochs",
        role="img",
        aria_label="Seconds by epoch; the table below says the same",
    )
    legend = tag(
        "ul",
        *(tag("li", swatch(name), f" {name}: {_ABOUT[name]}") for name in TIMES),
        tag("li", tag("b", "▼"), " restart, fence, or change of state"),
        class_="legend",
    )
    return join(
        tag("div", svg, class_="scroll picture", data_end=0, tabindex="0", role="region", aria_label="Epochs"),
        legend,
    )


def _flag(mark: Mark, epochs: list[dict[str, Any]], step: float) -> Html | None:
    """A mark stands before the first epoch that was committed after it."""
    at = from_micros(mark.at)
    first = parse(epochs[0]["at"])
    if first is None or at < first - timedelta(seconds=1):
        return None
    place = next((i for i, one in enumerate(epochs) if (parse(one["at"]) or at) >= at), len(epochs))
    x = round(_LEFT + place * step, 1)
    return tag(
        "g",
        tag("title", f"{at:%H:%M:%S} {mark.text}"),
        tag("line", x1=x, x2=x, y1=_TOP - 8, y2=_TOP + _HEIGHT, class_="mark"),
        tag("text", "▼", x=x, y=_TOP - 8, text_anchor="middle", class_="flag"),
    )


def _marks(marks: list[Mark]) -> Html:
    head = tag("h2", "Restarts, fences and changes of state")
    if not marks:
        return join(head, empty("Nothing of that kind since this server began to look"))
    rows = [
        tag(
            "tr",
            tag("td", clock(mark.at)),
            tag("td", badge(STOPPED if mark.kind == "fence" else WAITING, mark.kind)),
            tag("td", mark.text, class_="wide"),
        )
        for mark in reversed(marks)
    ]
    return join(
        head, table("As this server noticed them, newest first", heads(["Noticed", "Kind", "What happened"]), rows)
    )


def _list(epochs: list[dict[str, Any]]) -> Html:
    rows = []
    for one in reversed(epochs):
        took = _took(one)
        rows.append(
            tag(
                "tr",
                tag("th", one["epoch"], scope="row"),
                tag("td", clock(parse(one["at"]))),
                tag("td", number(one["rows"]) if "rows" in one else "–", class_="n"),
                tag("td", "–" if took is None else span(took), class_="n"),
                *(tag("td", span(one[name]) if name in one else "–", class_="n") for name in TIMES),
                id=f"epoch-{one['epoch']}",
            )
        )
    names = ["Epoch", "Committed", "Rows", "Took", *TIMES]
    return join(tag("h2", "The last epochs"), table("Newest first", heads(names, ["Rows", "Took", *TIMES]), rows))
