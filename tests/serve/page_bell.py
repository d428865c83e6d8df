"""A button for pages, to be pressed by tests."""

from __future__ import annotations

from functools import partial

from riverrun.errors import RiverrunError
from riverrun.serve.pages.control import PageControl
from riverrun.serve.pages.markup import Html, tag
from riverrun.serve.pages.routes import dashboard


class PageBell:
    """Counts how often it was rung."""

    def __init__(self) -> None:
        self.rung = 0
        self.fails: RiverrunError | None = None

    def press(self) -> None:
        if self.fails:
            raise self.fails
        self.rung += 1

    @property
    def pages(self) -> partial[None]:
        def draw(history: object, action: str) -> Html:
            said = f"rung {self.rung} times"
            return tag("form", tag("button", "Ring", type="submit"), said, method="post", action=action)

        return partial(dashboard, control=PageControl("/ui/ring", draw, self.press))
