"""Topics that flows may read without saying their schema: those of the rivers that are open in this process.

Flows know nothing of the log; a river that is opened makes itself known here.
"""

from __future__ import annotations

import weakref
from typing import Any, Protocol


class KnowsTopics(Protocol):
    """A river, as far as flows ask it."""

    def topic_spec(self, name: str) -> Any: ...


_open: list[weakref.ref[KnowsTopics]] = []


def opened(river: KnowsTopics) -> None:
    """A river was opened; the newest one is asked first."""
    _open[:] = [weakref.ref(river), *(known for known in _open if known() is not None)]


def find_spec(name: str) -> Any:
    """What the first of the open rivers that has the topic says of it; None where nobody has."""
    for known in list(_open):
        river = known()
        found = river.topic_spec(name) if river is not None else None
        if found is not None:
            return found
    return None
