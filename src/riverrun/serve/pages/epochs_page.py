"""Epochs: how long each took and on what, and what happened between them."""

from __future__ import annotations

from datetime import timedelta

from riverrun.durations import from_micros
from riverrun.runtime.status import EpochTimes, TimeSplit
from riverrun.serve.pages.flow_health import STOPPED, WAITING, badge
from riverrun.serve.pages.history import FlowHistory, History, Mark
from riverrun.serve.pages.markup import Content, Html, join, tag
from riverrun.serve.pages.quantities import UNKNOWN, clock, number, short, span, span_text
from riverrun.serve.pages.shell import Asked, Drawn, choose_flow, empty, figure, figures, summary, swatch, table
from riverrun.serve.pages.table_cells import heads

_Timed = tuple[EpochTimes, TimeSplit]
_PARTS = TimeSplit.__struct_fields__
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
    past = choose_flow(history, asked)
    epochs = [past.epochs[number] for number in sorted(past.epochs)] if past else []
    if not past or not epochs:
        regions["epochs"] = empty(
            "No epoch has been committed yet. One begins when rows arrive", "riverrun topic append TOPIC ROWS.ndjson"
        )
        return Drawn("Epochs", regions)
    timed = [(one, one.times) for one in epochs if one.times is not None]
    regions["figures"] = _numbers(past, epochs[-1], [times for _, times in timed])
    if timed:
        regions["bars"] = _bars(timed[-_BARS:], list(past.marks))
    else:
        regions["bars"] = tag("p", "How long an epoch took, only the process that runs the flow knows.", class_="note")
    regions["marks"] = _marks(list(past.marks))
    regions["list"] = _list(epochs[-_LISTED:])
    return Drawn("Epochs", regions)


def _seconds(times: TimeSplit, part: str) -> float:
    return float(getattr(times, part))


def _numbers(past: FlowHistory, newest: EpochTimes, timed: list[TimeSplit]) -> Html:
    took = sorted(times.total for times in timed)
    slow = max(_PARTS, key=lambda part: sum(_seconds(times, part) for times in timed)) if timed else None
    return figures(
        figure("Epoch", number(newest.epoch), join("committed at ", clock(newest.at))),
        figure("An epoch takes", span(took[len(took) // 2]) if took else UNKNOWN, "the middle one"),
        figure(
            "The slowest took",
            span(took[-1]) if took else UNKNOWN,
            join("of the last ", number(len(took), "epochs")) if took else None,
        ),
        figure("Most of it goes to", slow or UNKNOWN, _ABOUT[slow] if slow else None),
        figure("Run", join("fence ", past.status.fence or "–"), f"changes noticed: {len(past.marks)}"),
    )


def _bars(timed: list[_Timed], marks: list[Mark]) -> Html:
    most = max(times.total for _, times in timed) or 0.001
    step = _WIDTH / max(len(timed), 20)
    parts: list[Content] = []
    for share in (0.5, 1.0):
        y = _TOP + _HEIGHT * (1 - share)
        parts.append(tag("line", x1=_LEFT, x2=_LEFT + _WIDTH, y1=y, y2=y, class_="grid"))
        parts.append(tag("text", span_text(most * share), x=_LEFT - 8, y=y + 4, text_anchor="end", class_="tick"))
    for place, (one, times) in enumerate(timed):
        x, y = _LEFT + place * step, float(_TOP + _HEIGHT)
        split = ", ".join(f"{part} {span_text(_seconds(times, part))}" for part in _PARTS)
        title = tag("title", f"epoch {one.epoch}, {short(one.rows or 0)} rows: {split}")
        rects = []
        for part in _PARTS:
            height = _HEIGHT * _seconds(times, part) / most
            y -= height
            rects.append(
                tag(
                    "rect",
                    x=round(x + 1, 1),
                    y=round(y, 1),
                    width=round(max(step - 2, 1), 1),
                    height=round(height, 1),
                    class_=f"part {part}",
                )
            )
        parts.append(tag("g", title, *rects))
        if place % max(len(timed) // 8, 1) == 0:
            parts.append(tag("text", f"{one.epoch}", x=round(x + 1, 1), y=_TOP + _HEIGHT + 16, class_="tick"))
    parts += [_flag(mark, [one for one, _ in timed], step) for mark in marks]
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
        *(tag("li", swatch(name), f" {name}: {_ABOUT[name]}") for name in _PARTS),
        tag("li", tag("b", "▼"), " restart, fence, or change of state"),
        class_="legend",
    )
    return join(
        tag("div", svg, class_="scroll picture", data_end=0, tabindex="0", role="region", aria_label="Epochs"),
        legend,
    )


def _flag(mark: Mark, epochs: list[EpochTimes], step: float) -> Html | None:
    """A mark stands before the first epoch that was committed after it."""
    at = from_micros(mark.at)
    first = epochs[0].at
    if first is None or at < first - timedelta(seconds=1):
        return None
    place = next((i for i, one in enumerate(epochs) if (one.at or at) >= at), len(epochs))
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


def _list(epochs: list[EpochTimes]) -> Html:
    rows = []
    for one in reversed(epochs):
        times = one.times
        rows.append(
            tag(
                "tr",
                tag("th", one.epoch, scope="row"),
                tag("td", clock(one.at)),
                tag("td", "–" if one.rows is None else number(one.rows), class_="n"),
                tag("td", "–" if times is None else span(times.total), class_="n"),
                *(tag("td", "–" if times is None else span(_seconds(times, part)), class_="n") for part in _PARTS),
                id=f"epoch-{one.epoch}",
            )
        )
    names = ["Epoch", "Committed", "Rows", "Took", *_PARTS]
    return join(tag("h2", "The last epochs"), table("Newest first", heads(names, ["Rows", "Took", *_PARTS]), rows))
