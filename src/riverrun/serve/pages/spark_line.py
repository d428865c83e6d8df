"""A line of rates, as small as a word."""

from __future__ import annotations

from collections.abc import Sequence

from riverrun.serve.pages.markup import Html, tag
from riverrun.serve.pages.quantities import short

_WIDTH, _HEIGHT = 120, 24


def spark_line(rates: Sequence[float], label: str) -> Html:
    """The newest on the right; the height is the largest of them."""
    if len(rates) < 2:
        return tag("span", "measuring", class_="quiet")
    most = max(rates)
    step = _WIDTH / (len(rates) - 1)
    points = [(i * step, _HEIGHT - 2 - (rate / most * (_HEIGHT - 4) if most else 0)) for i, rate in enumerate(rates)]
    path = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    return tag(
        "svg",
        tag("title", f"{label}: now {short(rates[-1])}/s, at most {short(most)}/s"),
        tag("path", d=f"M0 {_HEIGHT - 2}L{path}L{_WIDTH} {_HEIGHT - 2}z", class_="area"),
        tag("path", d=f"M{path}", class_="curve"),
        viewBox=f"0 0 {_WIDTH} {_HEIGHT}",
        width=_WIDTH,
        height=_HEIGHT,
        class_="spark",
        role="img",
    )
