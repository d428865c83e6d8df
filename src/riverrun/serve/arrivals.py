"""Waiting until a view has come as far as a position; however many wait, the store is asked once."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from riverrun.errors import TimedOut
from riverrun.position import Position
from riverrun.serve.backend import Backend
from riverrun.views import View
from riverrun.views.epoch import ViewProgress

_FRESH = 0.02  # seconds for which what the store said holds
_SHORTEST, _LONGEST = 0.005, 0.1


class Arrivals:
    """Those who wait, in the event loop."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._looks: dict[str, tuple[float, asyncio.Future[Any]]] = {}

    async def wait(self, view: View, wanted: Position, seconds: float) -> None:
        """Return when the view has processed this much; `TimedOut` after so many seconds."""
        deadline = time.monotonic() + seconds
        pause = _SHORTEST
        while not view.reached(wanted, await self._progress(view)):
            left = deadline - time.monotonic()
            if left <= 0:
                positions = (await self._progress(view)).positions
                raise TimedOut(
                    f"view {view.name!r} has processed {positions or 'nothing'} and not yet {wanted}",
                    hint="Ask again, wait longer (timeout=), or see whether the flow is running (GET /flows)",
                )
            await asyncio.sleep(min(pause, left))
            pause = min(pause * 1.5, _LONGEST)

    async def _progress(self, view: View) -> ViewProgress:
        at, look = self._looks.get(view.name, (0.0, None))
        if look is None or time.monotonic() > at + _FRESH:
            look = asyncio.ensure_future(self._backend.read(lambda: view.progress))
            self._looks[view.name] = (time.monotonic(), look)
        progress: ViewProgress = await asyncio.shield(look)
        return progress
