"""For how long a source has had something that is not captured. Pure.

Nobody knows the age of what was not read. But it was committed after the last transaction that was captured, and after any
look at the source that found its log to end where everything is captured by now.
"""

from __future__ import annotations

_LOOKS = 512


class LagClock:
    """Looks at the source, and where its log ended then. Nothing that is missing at first is older than `begun`.

    >>> clock = LagClock(begun=1)
    >>> clock.note(position=10, at=5), clock.note(position=20, at=7), clock.note(position=30, at=9)
    (None, None, None)
    >>> clock.since(captured=9), clock.since(captured=25)  # what comes after 25 was written after 7
    (1, 7)
    """

    def __init__(self, begun: int) -> None:
        self._looks: list[tuple[int, int]] = []  # ends that are not captured, and one that is
        self._since = begun

    def note(self, position: int, at: int) -> None:
        """The source's log ended at `position` when it was looked at, not before `at`."""
        if self._looks and self._looks[-1][0] == position:
            self._looks.pop()
        self._looks.append((position, at))
        if len(self._looks) > _LOOKS:
            del self._looks[::2]  # of a capture that is stuck for long, rougher

    def since(self, captured: int) -> int:
        """When everything that is not captured was not there yet."""
        while self._looks and self._looks[0][0] <= captured:
            self._since = max(self._since, self._looks.pop(0)[1])
        return self._since
