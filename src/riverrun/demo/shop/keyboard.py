"""Single keys of a terminal, without Return."""

from __future__ import annotations

import select
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class Keyboard:
    """Gives the keys that were pressed. Where there is no terminal, none ever are."""

    def __init__(self, is_there: bool) -> None:
        self.is_there = is_there

    def read_key(self) -> str:
        """The next key that was pressed, in lower case; "" if none was."""
        if self.is_there and select.select([sys.stdin], [], [], 0)[0]:
            return sys.stdin.read(1).lower()
        return ""


@contextmanager
def keyboard(wanted: bool = True) -> Iterator[Keyboard]:
    """Keys come at once and are not shown; afterwards the terminal is as it was."""
    if not wanted or not sys.stdin.isatty():
        yield Keyboard(False)
        return
    import termios
    import tty

    before = termios.tcgetattr(sys.stdin)
    tty.setcbreak(sys.stdin)
    try:
        yield Keyboard(True)
    finally:
        with suppress(termios.error):  # it is closed
            termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
