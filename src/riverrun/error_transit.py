"""Errors on their way from one process to another: as what they are, not as text that something else could look like."""

from __future__ import annotations

import msgspec

from riverrun import errors
from riverrun.errors import RiverrunError, Transient, from_system


class ErrorInTransit(msgspec.Struct, frozen=True):
    """An error of Riverrun's own: the nearest class that everybody knows, and what it says."""

    kind: str
    message: str
    hint: str | None = None

    @classmethod
    def of(cls, error: BaseException) -> ErrorInTransit | None:
        """The error, if it can travel so; None for those of others."""
        if isinstance(error, OSError) and isinstance(short := from_system(error, "a task cannot go on"), Transient):
            error = short
        if not isinstance(error, RiverrunError):
            return None
        kind = next(parent for parent in type(error).__mro__ if parent.__module__ == errors.__name__)
        return cls(kind.__name__, error.message, error.hint)

    def arrive(self) -> RiverrunError:
        """The error again."""
        kind = getattr(errors, self.kind)
        error: RiverrunError = kind(self.message, hint=self.hint)
        return error

    def encode(self) -> bytes:
        return msgspec.msgpack.encode(self)

    @classmethod
    def decode(cls, data: bytes) -> ErrorInTransit:
        return msgspec.msgpack.decode(data, type=cls)
