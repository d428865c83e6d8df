"""A page as it changes: server-sent events with the parts whose HTML is no longer what was sent."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator

from riverrun.errors import RiverrunError
from riverrun.serve.answers import encode
from riverrun.serve.pages.history import History
from riverrun.serve.pages.shell import Asked, Draw, Drawn
from riverrun.serve.sse import HEARTBEAT, trouble

FASTEST = 0.5  # seconds: at most two updates per second
_QUIET = 5.0  # seconds without a change after which a sign of life is sent
_LOOK = 0.25  # seconds between two looks whether the server is being stopped


async def changes(history: History, draw: Draw, asked: Asked) -> AsyncGenerator[bytes]:
    """All parts first, then those that change, until one side goes."""
    backend = history.backend
    sent: dict[str, str] = {}
    last = time.monotonic()
    history.viewers += 1
    try:
        while not backend.feeds.is_closed:
            begun = time.monotonic()
            try:
                drawn = await backend.read(draw_shared, history, draw, asked)
            except RiverrunError as error:
                yield trouble(error)
                return
            changed = {name: str(html) for name, html in drawn.regions.items() if sent.get(name) != html}
            if changed or sent.keys() != drawn.regions.keys():
                sent = {name: str(html) for name, html in drawn.regions.items()}
                yield b"data: %b\n\n" % encode({"order": list(drawn.regions), "parts": changed})
                last = time.monotonic()
            elif time.monotonic() > last + _QUIET:
                yield HEARTBEAT
                last = time.monotonic()
            due = begun + max(drawn.every, FASTEST)
            while not backend.feeds.is_closed and (left := due - time.monotonic()) > 0:
                await asyncio.sleep(min(left, _LOOK))
    finally:
        history.viewers -= 1


def draw_shared(history: History, draw: Draw, asked: Asked) -> Drawn:
    """The page; those who look at the same one at the same time get the same drawing."""
    what = (draw, asked.path, tuple(sorted(asked.query.items())), asked.may_change, asked.host)
    return history.remember(what, FASTEST * 0.9, lambda: draw(history, asked))
