"""Signals of a command that goes on until it is stopped: the first ends it in order, the second where it stands."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from riverrun.ending import EndingSignals


class Interrupted(BaseException):
    """Raised in the main thread by the first signal that asks for the end; its text is the signal's name."""


@contextmanager
def interruptible() -> Iterator[None]:
    """Inside, the first signal raises `Interrupted`, at whatever is being done; the second ends the process at once."""

    def first(number: int, frame: FrameType | None) -> None:
        for each in before:
            signal.signal(each, lambda number, _: os._exit(128 + number))
        asking.came(number)
        raise Interrupted(signal.Signals(number).name)

    asking = EndingSignals()
    before = {number: signal.getsignal(number) for number in asking.numbers}
    try:
        for number in before:
            signal.signal(number, first)
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
