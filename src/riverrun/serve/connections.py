"""Connections: how many there may be, and how long one may say nothing, or take nothing.

They cost a file each before anybody knows who it is, and a process without files left can neither serve nor run a flow.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from riverrun.open_files import raise_limit
from riverrun.serve.share import Share

log = logging.getLogger("riverrun.serve")

_HEAD = 10.0  # seconds from the first byte of a request, or from the connection, to the end of its headers
_TAKEN = 30.0  # seconds for what was given to it at once, 64 KiB at most, to be taken
_QUIET = 60.0  # seconds between two complaints about the same thing
_FULL = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nretry-after: 2\r\nconnection: close\r\n\r\n"
    b'{"error":"there are too many connections","hint":"Use one for several requests; see the setting http_connections"}'
)


def connection_share(limit: int) -> Share:
    """The setting, unless that leaves too few files for everything else."""
    return Share(max(min(limit, raise_limit() // 2), 2))


class CountedConnection(H11Protocol):
    """One that is counted, and closed when a request does not come to the end of its headers, or an answer is not taken."""

    def __init__(self, share: Share, **given: Any) -> None:
        super().__init__(**given)
        self._share = share
        self._peer: str | None = None
        self._patience: asyncio.TimerHandle | None = None
        self._untaken: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        transport.set_write_buffer_limits(0)  # nothing is added to what has not been taken
        peer = self.client[0] if self.client else ""
        if not self._share.fits(peer):
            transport.write(_FULL)
            transport.close()
            return
        self._share.take(peer)
        self._peer = peer
        self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._stop_watching()
        self.resume_writing()
        if self._peer is not None:
            self._share.give_back(self._peer)
            self._peer = None

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._untaken is None:
            self._untaken = self.loop.call_later(_TAKEN, self.transport.abort)

    def resume_writing(self) -> None:
        if self._untaken is not None:
            self._untaken.cancel()
            self._untaken = None
        super().resume_writing()

    def _watch(self) -> None:
        """Between two requests the server's own patience counts, from the first byte of the next one this."""
        if self.conn.their_state is not h11.IDLE:
            self._stop_watching()
        elif self._patience is None:
            self._patience = self.loop.call_later(_HEAD, self.transport.close)

    def _stop_watching(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None


class Complaints:
    """What goes wrong in the event loop itself, such as connections that cannot be accepted: told once a minute."""

    def __init__(self) -> None:
        self._told: dict[str, float] = {}

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        what, now = str(context.get("message")), time.monotonic()
        if now < self._told.get(what, now) + _QUIET and what in self._told:
            return
        self._told[what] = now
        error = context.get("exception")
        log.error("the server: %s%s", what, f" ({type(error).__name__}: {error})" if error else "")
