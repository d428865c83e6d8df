"""A day, or two hours, of one number: a small picture, drawn as steps; a time that nobody looked at is left blank."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from riverrun.serve.pages.day import HOUR, MINUTE, DayPart
from riverrun.serve.pages.markup import Content, Html, tag

_LEFT, _TOP, _WIDTH, _HEIGHT, _FOOT = 72, 8, 1144, 96, 24

Measure = Callable[[DayPart], float | None]


def draw_chart(
    title: str, parts: Sequence[DayPart], measure: Measure, show: Callable[[float], str], end: int, span: int
) -> Html:
    """`end` is the Unix second on the right, `span` how many there are; `show` writes a value."""
    known = [(part, value) for part in parts if (value := measure(part)) is not None and part.at >= end - span]
    most = max((value for _, value in known), default=0.0)
    steps = [_step(part, value, end, span, most) for part, value in known]
    now = f"now {show(known[-1][1])}, at most {show(most)}" if known else "not known"
    content: list[Content] = [tag("title", f"{title}: {now}"), *_axes(end, span, most, show)]
    if steps:
        content.append(tag("path", d="".join(steps), class_="area"))
    svg = tag(
        "svg",
        *content,
        viewBox=f"0 0 {_LEFT + _WIDTH + 8} {_TOP + _HEIGHT + _FOOT}",
        width=_LEFT + _WIDTH + 8,
        height=_TOP + _HEIGHT + _FOOT,
        class_="day fitted",
        role="img",
        aria_label=f"{title}: {now}; the table below says it by the hour",
    )
    head = tag("h3", title, " ", tag("small", now, class_="quiet"))
    picture = tag("div", svg, class_="scroll", data_end=0, tabindex="0", role="region", aria_label=title)
    return tag("section", head, picture)


def _step(part: DayPart, value: float, end: int, span: int, most: float) -> str:
    left = max(_x(part.at, end, span), _LEFT)
    right = min(_x(part.at + part.width, end, span), _LEFT + _WIDTH)
    height = max(_HEIGHT * value / most, 1.0) if most and value else 0.5
    return f"M{left:.1f} {_TOP + _HEIGHT}v-{height:.1f}H{right:.1f}V{_TOP + _HEIGHT}z"


def _x(at: float, end: int, span: int) -> float:
    return _LEFT + _WIDTH * (at - end + span) / span


def _axes(end: int, span: int, most: float, show: Callable[[float], str]) -> list[Html]:
    parts = []
    for share in (0.0, 0.5, 1.0):
        y = _TOP + _HEIGHT * (1 - share)
        parts.append(tag("line", x1=_LEFT, x2=_LEFT + _WIDTH, y1=y, y2=y, class_="grid"))
        if share and most:
            parts.append(tag("text", show(most * share), x=_LEFT - 8, y=y + 4, text_anchor="end", class_="tick"))
    every = 3 * HOUR if span > 6 * HOUR else 15 * MINUTE
    for moment in range(-(-(end - span) // every) * every, end + 1, every):
        x = round(_x(moment, end, span), 1)
        parts.append(tag("line", x1=x, x2=x, y1=_TOP, y2=_TOP + _HEIGHT, class_="grid"))
        if _LEFT + 16 < x < _LEFT + _WIDTH - 16:
            said = f"{datetime.fromtimestamp(moment, UTC):%H:%M}"
            parts.append(tag("text", said, x=x, y=_TOP + _HEIGHT + 16, text_anchor="middle", class_="tick"))
    return parts
