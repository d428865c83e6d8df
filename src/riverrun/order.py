"""Whether rows are in order already: cheaper to see than to sort them again."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt


def ascends(columns: Iterable[npt.NDArray[Any]], rows: int) -> bool:
    """Whether rows ascend by these columns of numbers, the first one first.

    >>> ascends([np.array([1, 1, 2]), np.array([5, 7, 0])], rows=3), ascends([np.array([2, 1])], rows=2)
    (True, False)
    """
    steps = np.zeros(max(rows - 1, 0), np.int8)
    for values in columns:
        steps = np.where(steps == 0, np.sign(values[1:] - values[:-1]).astype(np.int8), steps)
    return not bool((steps < 0).any())
