"""Signals of a command that goes on until it is stopped: the first ends it in order, the second where it stands."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Interrupted(BaseException):
    """Raised in the main thread by the first SIGINT or SIGTERM; its text is the signal's name."""


@contextmanager
def interruptible() -> Iterator[None]:
    """Inside, the first signal raises `Interrupted`, at whatever is being done; the second ends the process at once."""

    def first(number: int, frame: FrameType | None) -> None:
        for each in before:
            signal.signal(each, lambda number, _: os._exit(128 + number))
        raise Interrupted(signal.Signals(number).name)

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        for number in before:
            signal.signal(number, first)
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
