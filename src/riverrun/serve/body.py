"""The body of a request, up to a limit, unpacked where it was sent compressed."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.requests import ClientDisconnect, Request

from riverrun.errors import Invalid
from riverrun.serve.memory_budget import MemoryBudget
from riverrun.serve.problems import Refused

_PATIENCE = 30.0  # seconds for a whole body
_DISCARDED = 5.0  # seconds to take in what is refused: many clients listen only after they have sent everything
_PACKINGS = {"gzip": 31, "x-gzip": 31, "deflate": 15}


@asynccontextmanager
async def receive_body(request: Request, limit: int, memory: MemoryBudget) -> AsyncIterator[bytes]:
    """The body; the memory it takes is accounted for until this is left."""
    said = request.headers.get("content-length", "")
    packing = request.headers.get("content-encoding", "identity").strip().lower()
    if packing != "identity" and packing not in _PACKINGS:
        await _discard(request)
        raise Refused(415, f"bodies in {packing!r} are not accepted", hint="Send it plain, or in gzip")
    if said.isdigit() and int(said) > limit:
        await _discard(request)
        raise _too_large(limit)
    held = 0
    try:
        parts: list[bytes] = []
        unpacker = zlib.decompressobj(_PACKINGS[packing]) if packing in _PACKINGS else None
        sent = size = 0
        try:
            async with asyncio.timeout(_PATIENCE):
                async for part in request.stream():
                    sent += len(part)
                    plain = _unpack(unpacker, part, limit - size) if unpacker else part
                    size += len(plain)
                    if sent > limit or size > limit or (unpacker and unpacker.unconsumed_tail):
                        raise _too_large(limit)
                    memory.take(len(plain))
                    held += len(plain)
                    parts.append(plain)
        except TimeoutError:
            raise Refused(408, f"the body did not come within {_PATIENCE:g} s") from None
        except ClientDisconnect:
            raise Refused(400, "the body ended too early") from None
        except Refused:
            parts.clear()
            await _discard(request)
            raise
        if unpacker and not unpacker.eof:
            raise Invalid(f"the body is not complete {packing}")
        yield b"".join(parts)
    finally:
        memory.give_back(held)


def _unpack(unpacker: zlib._Decompress, part: bytes, room: int) -> bytes:
    try:
        return unpacker.decompress(part, room + 1)
    except zlib.error:
        raise Invalid("the body is not what Content-Encoding says") from None


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
