"""stdin, stdout and stderr that were closed before the command was started (`riverrun … >&-`)."""

from __future__ import annotations

import os
import sys

# As gnulib's stdopen has it: reading such a stdin and writing to such a stdout fails as it does in other commands, and
# what is said on such a stderr is lost.
_STREAMS = (("stdin", "r", os.O_WRONLY), ("stdout", "w", os.O_RDONLY), ("stderr", "w", os.O_WRONLY))


def fill_closed_streams() -> None:
    """Give each of the three something to be. Else the next file that is opened, a topic's, would have its number."""
    for name, mode, flags in _STREAMS:
        if getattr(sys, name) is None:
            number = os.open(os.devnull, flags)
            os.set_inheritable(number, True)
            setattr(sys, name, open(number, mode, encoding="utf-8"))  # noqa: SIM115


def silence_stdout() -> None:
    """Nothing more can be written there; Python would complain once more when it flushes at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
