"""A connection to Redis, whose errors are those of Riverrun."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from riverrun.errors import Busy, DiskFull, RiverrunError, Transient, Unavailable
from riverrun.store_address import StoreAddress

_CONNECT, _ANSWER = 5.0, 60.0  # seconds
_WAITING = ("LOADING", "BUSY", "MASTERDOWN", "READONLY", "TRYAGAIN", "CLUSTERDOWN")


def connect(address: StoreAddress) -> Any:
    """A client; it connects when it is used, and again after the server was away."""
    url = address.connectable().partition("?")[0]
    try:
        return redis.Redis.from_url(
            url,
            socket_connect_timeout=_CONNECT,
            socket_timeout=_ANSWER,
            retry=Retry(NoBackoff(), 1),  # of a connection that was closed while it was not used
            health_check_interval=30,
        )
    except ValueError as error:
        raise Unavailable(f"{address.place}: {address.scrub(str(error))}") from None


@contextmanager
def noticing(address: StoreAddress) -> Iterator[None]:
    """What goes wrong inside, as an error of Riverrun that names the store."""
    try:
        yield
    except redis.RedisError as error:
        raise _as_riverrun(error, address) from None


def _as_riverrun(error: redis.RedisError, address: StoreAddress) -> RiverrunError:
    said = address.scrub(str(error))
    if isinstance(error, redis.AuthenticationError | redis.exceptions.NoPermissionError):
        return Unavailable(f"{address.place} refuses this login: {said}", hint="Check user and password in its address")
    if isinstance(error, redis.ConnectionError | redis.TimeoutError):
        return Transient(f"{address.place} does not answer: {said}")
    if said.startswith("OOM") or "OOM command not allowed" in said:
        hint = "Give it more memory, or let it evict rows: maxmemory-policy volatile-lru with ttl= in the address"
        return DiskFull(f"{address.place} has no room: {said}", hint=hint)
    if said.startswith(_WAITING):
        return Busy(f"{address.place} cannot take writes now: {said}")
    return Unavailable(f"{address.place}: {said}")
