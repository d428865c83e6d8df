"""Arrays that grow at the end, and ranges of them written out."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]


class Grown:
    """An array that grows; what is added costs in proportion to itself."""

    def __init__(self, kind: npt.DTypeLike) -> None:
        self._held = np.empty(64, kind)
        self._size = 0

    def __len__(self) -> int:
        return self._size

    @property
    def values(self) -> npt.NDArray[Any]:
        """All of it, to be read and changed in place until it grows."""
        return self._held[: self._size]

    def extend(self, values: npt.ArrayLike) -> None:
        """More at the end."""
        added = np.asarray(values, self._held.dtype)
        size = self._size + len(added)
        if size > len(self._held):
            held = np.empty(max(size, len(self._held) * 3 // 2), self._held.dtype)
            held[: self._size] = self.values
            self._held = held
        self._held[self._size : size] = added
        self._size = size


def spread(starts: Numbers, lengths: Numbers) -> tuple[Numbers, Numbers]:
    """Ranges written out: for each place in one of them, which range it is, and the place."""
    which = np.repeat(np.arange(len(starts)), lengths)
    before = np.cumsum(lengths) - lengths
    return which, np.arange(len(which)) + np.repeat(starts - before, lengths)
