"""Server-sent events: how they are written, and a response that sends them until one side goes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from riverrun.errors import RiverrunError
from riverrun.serve.answers import encode
from riverrun.serve.problems import document
from riverrun.serve.share import Ticket

HEARTBEAT = b":\n\n"
_RETRY = b"retry: 1000\n\n"


def event(id: str, data: bytes) -> bytes:
    """An event with a place to resume from. JSON has no line ends, so one line is enough."""
    return b"id: %b\ndata: %b\n\n" % (id.encode(), data)


def trouble(error: RiverrunError) -> bytes:
    """The last event of a stream that cannot go on."""
    return b"event: problem\ndata: %b\n\n" % encode(document(error.message, error.hint))


class EventStream(Response):
    """Sends what an iterator gives; the iterator is closed when the client goes, and the ticket is given back."""

    media_type = "text/event-stream"

    def __init__(self, parts: Callable[[], AsyncGenerator[bytes]], ticket: Ticket) -> None:
        super().__init__(headers={"x-accel-buffering": "no"})
        del self.headers["content-length"]
        self._parts = parts
        self._ticket = ticket

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            await self._send_until_gone(receive, send)
        finally:
            self._ticket.give_back()

    async def _send_until_gone(self, receive: Receive, send: Send) -> None:
        tasks = [asyncio.ensure_future(self._send(send)), asyncio.ensure_future(_gone(receive))]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        for task in done:
            task.result()

    async def _send(self, send: Send) -> None:
        await send({"type": "http.response.body", "body": _RETRY, "more_body": True})
        async with aclosing(self._parts()) as parts:
            async for part in parts:
                await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
