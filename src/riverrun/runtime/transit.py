"""How errors of tasks and of the planner reach the driver."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import msgspec
import pyarrow as pa

from riverrun import durable
from riverrun.error_transit import ErrorInTransit
from riverrun.errors import RiverrunError
from riverrun.runtime.exchange import InlineExchange
from riverrun.runtime.packing import ERROR, Packer


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
