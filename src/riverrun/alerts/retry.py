"""Retries: when a message that an address did not take is tried again, and when that is given up.

The pauses grow from a second to a minute. A message is given up after as many attempts as the setting `alert_attempts`
says, and at once where the address will never take it; its rows are dead letters then.
"""

from __future__ import annotations

from riverrun.errors import RiverrunError

LONGEST_PAUSE = 60_000_000
_FIRST_PAUSE = 1_000_000


class Undelivered(RiverrunError):
    """An address did not take a message. `final`: it never will, so it is not tried again."""

    def __init__(self, message: str, *, final: bool = False) -> None:
        super().__init__(message)
        self.final = final


def pause_after(attempts: int) -> int:
    """Microseconds until the next attempt, after so many that failed.

    >>> [pause_after(attempts) // 1_000_000 for attempts in range(1, 9)]
    [1, 2, 4, 8, 16, 32, 60, 60]
    """
    return min(_FIRST_PAUSE << min(attempts - 1, 10), LONGEST_PAUSE)


def is_given_up(error: Undelivered, attempts: int, limit: int) -> bool:
    """Whether there is no further attempt, after so many of which the last failed like this."""
    return error.final or attempts >= limit
