"""A button on every page, for something that the process which serves lets people do to it.

It is a form that works without scripts: it is posted, and the browser is sent back to the page it was on. Who may post is
decided where all requests are looked at (`serve.guard`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from urllib.parse import urlencode

from riverrun.serve.pages.history import History
from riverrun.serve.pages.markup import Html
from riverrun.serve.pages.shell import Asked, Draw, Drawn


@dataclass(frozen=True)
class PageControl:
    """`draw` gives the part of a page with the form, which posts to the address it is given; `press` does what the
    button says, and raises where it cannot."""

    path: str
    draw: Callable[[History, str], Html]
    press: Callable[[], None]

    def on(self, draw: Draw) -> Draw:
        """A page with the button, right below its summary."""

        def drawn(history: History, asked: Asked) -> Drawn:
            page = draw(history, asked)
            action = f"{self.path}?{urlencode({'back': asked.link()})}"
            (first, summary), *others = page.regions.items()
            regions = {first: summary, "control": self.draw(history, action), **dict(others)}
            return replace(page, regions=regions)

        return drawn


def keep_local(back: str) -> str:
    """An address of this server to go back to; the first page, where somebody means another one."""
    is_ours = back.startswith("/") and not back.startswith(("//", "/\\")) and back.isprintable()
    return back if is_ours else "/"
