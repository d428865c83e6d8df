"""What the demo's processes tell each other: small JSON files, replaced whole, so that a kill never leaves half of one."""

from __future__ import annotations

import os
from typing import Any, TypeVar

import msgspec

from riverrun.runtime.status import EpochTimes, FlowStatus

T = TypeVar("T")

SENT, PROCESSING, DEMO, BREAK = "demo.sent.json", "demo.processing.json", "demo.json", "demo.break"


class StartStep(msgspec.Struct, frozen=True):
    """Something that a process began to do while it started; seconds since 1970."""

    doing: str
    at: float


class ProcessingNews(msgspec.Struct, frozen=True):
    """What the process that runs the flow says of itself."""

    process: int
    steps: tuple[StartStep, ...] = ()
    status: FlowStatus | None = None
    epochs: tuple[EpochTimes, ...] = ()
    error: str | None = None


def tell(path: str, document: Any) -> None:
    """Write a document in the place of the one before."""
    partial = f"{path}.{os.getpid()}"
    with open(partial, "wb") as file:
        file.write(msgspec.json.encode(document))
    os.rename(partial, path)


def hear(path: str, kind: type[T]) -> T | None:
    """The newest document; None before the first."""
    try:
        with open(path, "rb") as file:
            return msgspec.json.decode(file.read(), type=kind)
    except FileNotFoundError:
        return None
