"""Signals that ask a command to end in order: Ctrl-C, SIGTERM, and the closing of its terminal."""

from __future__ import annotations

import os
import signal
from types import FrameType


class EndingSignals:
    """Which signals they are here. A closed terminal is none for a command that was started to outlive it (nohup)."""

    def __init__(self) -> None:
        self.numbers = [signal.SIGINT, signal.SIGTERM]
        if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
            self.numbers.append(signal.SIGHUP)
        self._terminals = [descriptor for descriptor in (0, 1, 2) if os.isatty(descriptor)]

    def came(self, number: int) -> None:
        """To be called for the first one. A terminal that closes may say so twice, by itself and by its shell; and what is
        written to it afterwards must not fail, or nothing would be finished."""
        if signal.SIGHUP in self.numbers:
            signal.signal(signal.SIGHUP, _take_no_notice)
        if number == signal.SIGHUP and self._terminals:
            nowhere = os.open(os.devnull, os.O_RDWR)
            for descriptor in self._terminals:
                os.dup2(nowhere, descriptor)
            os.close(nowhere)


def _take_no_notice(number: int, frame: FrameType | None) -> None:
    """Unlike SIG_IGN, it is not handed down to processes that are started now."""
