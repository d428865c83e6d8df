"""Answers on their way out: no faster than they are taken, and counted for as long as they wait."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from riverrun.serve.caller import Caller
from riverrun.serve.memory_budget import MemoryBudget
from riverrun.serve.problems import Refused, answer_error

PIECE = 1 << 16  # bytes that are given to a connection at once, which has to be rid of them first


class PacedAnswers:
    """A layer around the app. What is large goes out in pieces, each when the one before has been taken.

    Where too much waits already, a large answer is refused with 429. Streams are bounded by their number, and by what
    one of them has in memory.
    """

    def __init__(self, app: ASGIApp, memory: MemoryBudget) -> None:
        self._app = app
        self._memory = memory

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        caller: Caller = scope["state"]["caller"]
        start: Message = {}  # waits for the body, which decides whether it holds

        async def answer(message: Message) -> None:
            nonlocal start
            if message["type"] == "http.response.start":
                start = message
                return
            size = len(message.get("body", b""))
            if size <= PIECE or message.get("more_body"):
                await _send_all(start, message, send)
            else:
                try:
                    with self._memory.holding(caller.account, size):
                        await _send_all(start, message, send)
                except Refused as error:
                    await answer_error(error)(scope, receive, send)
            start = {}

        await self._app(scope, receive, answer)


async def _send_all(start: Message, message: Message, send: Send) -> None:
    if start:
        await send(start)
    body, more = message.get("body", b""), message.get("more_body", False)
    for at in range(0, max(len(body), 1), PIECE):
        is_last = at + PIECE >= len(body)
        await send({**message, "body": body[at : at + PIECE], "more_body": more or not is_last})
