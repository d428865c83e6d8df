"""Errors on their way from a task or the planner to the driver: as what they are, not as text that something else could
look like."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import msgspec
import pyarrow as pa

from riverrun import durable, errors
from riverrun.errors import RiverrunError, Transient, from_system
from riverrun.runtime.exchange import InlineExchange
from riverrun.runtime.packing import ERROR, Packer


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


def report_errors(batches: Iterator[pa.RecordBatch], shards: int) -> Iterator[pa.RecordBatch]:
    """Packed batches of a task, and as the last one the error that ended it, for every shard of the next stage."""
    try:
        yield from batches
    except Exception as error:
        travelling = ErrorInTransit.of(error)
        if travelling is None:
            raise
        packer = Packer(shards, InlineExchange())
        for shard in range(shards):
            packer.message(shard, ERROR, travelling.encode())
        yield packer.batch()


@contextmanager
def leave_error(path: str) -> Iterator[None]:
    """An error that is raised inside is also left in a file, for a process that learns of it in another way."""
    try:
        yield
    except Exception as error:
        travelling = ErrorInTransit.of(error)
        if travelling is not None:
            with suppress(OSError):
                durable.write_file(path, travelling.encode())
        raise


def pick_up_error(path: str) -> RiverrunError | None:
    """The error that was left, which is removed; None where there is none."""
    try:
        with open(path, "rb") as file:
            data = file.read()
        os.unlink(path)
        return ErrorInTransit.decode(data).arrive()
    except (OSError, msgspec.DecodeError, AttributeError):
        return None
