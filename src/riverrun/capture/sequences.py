"""The numbers under which a capture appends: that of a commit, and of the parts of a transaction before it."""

from __future__ import annotations

from riverrun.errors import Unavailable

_PARTS = 10  # bits of a sequence that number the parts of a transaction
LAST_PART = (1 << _PARTS) - 1
_LARGEST = 1 << (62 - _PARTS)


def sequence_of(position: int, part: int = LAST_PART) -> int:
    """The sequence of a commit, or of a part of a transaction before it.

    >>> sequence_of(5, 0) < sequence_of(5) < sequence_of(6, 0)
    True
    """
    if position >= _LARGEST:
        raise Unavailable(f"position {position} of the source is beyond what a capture can number")
    return position << _PARTS | part
