"""The body of a request, up to a limit, unpacked where it was sent compressed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.requests import ClientDisconnect, Request

from riverrun.errors import Invalid
from riverrun.serve.caller import caller_of
from riverrun.serve.memory_budget import MemoryBudget
from riverrun.serve.problems import Refused
from riverrun.serve.unpacking import PACKINGS, Unpacking

_PATIENCE = 30.0  # seconds for a small body, and for the beginning of a large one
_STEP, _PACE = 1 << 16, 5.0  # and for so many bytes more, once it takes memory that others may want
_DISCARDED = 5.0  # seconds to take in what is refused: many clients listen only after they have sent everything


@asynccontextmanager
async def receive_body(request: Request, limit: int, memory: MemoryBudget) -> AsyncIterator[bytes]:
    """The body; the memory it takes is accounted for until this is left."""
    said = request.headers.get("content-length", "")
    packing = request.headers.get("content-encoding", "identity").strip().lower()
    if packing != "identity" and packing not in PACKINGS:
        await _discard(request)
        raise Refused(415, f"bodies in {packing!r} are not accepted", hint="Send it plain, or in gzip")
    if said.isdigit() and int(said) > limit:
        await _discard(request)
        raise _too_large(limit)
    account = caller_of(request).account
    held = 0
    try:
        parts: list[bytes] = []
        unpacking = Unpacking(packing) if packing in PACKINGS else None
        sent, paced = 0, _STEP
        try:
            async with asyncio.timeout(_PATIENCE) as patience:
                async for part in request.stream():
                    sent += len(part)
                    plain = unpacking.unpack(part, limit - held) if unpacking else part
                    if sent > limit or held + len(plain) > limit:
                        raise _too_large(limit)
                    memory.take(account, len(plain))
                    held += len(plain)
                    parts.append(plain)
                    if held >= paced:
                        paced = held + _STEP
                        patience.reschedule(asyncio.get_running_loop().time() + _PACE)
        except TimeoutError:
            raise Refused(408, "the body did not come in time", hint="Send it faster, or in smaller parts") from None
        except ClientDisconnect:
            raise Refused(400, "the body ended too early") from None
        except (Refused, Invalid):
            parts.clear()
            memory.give_back(account, held)
            held = 0
            await _discard(request)
            raise
        if unpacking and not unpacking.is_complete:
            raise Invalid(f"the body is not complete {packing}")
        yield b"".join(parts)
    finally:
        memory.give_back(account, held)


async def _discard(request: Request) -> None:
    try:
        async with asyncio.timeout(_DISCARDED):
            async for _ in request.stream():
                pass
    except (TimeoutError, ClientDisconnect, RuntimeError):
        pass


def _too_large(limit: int) -> Refused:
    return Refused(
        413, f"the body is larger than {limit} bytes", hint="Send it in parts, or raise the setting http_body_bytes"
    )
