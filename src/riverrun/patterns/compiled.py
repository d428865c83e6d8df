"""Loops over rows, compiled when they are first called and kept on disk."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from numba import njit

Function = TypeVar("Function", bound=Callable[..., Any])

# What is kept on disk is found by the function's name and file, and knows nothing of other files that it was compiled from.
_VERSION = hashlib.sha256(
    b"".join(path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py")))
).hexdigest()


def compiled(function: Function) -> Function:
    """The function in machine code. Other threads may run meanwhile."""
    function.__qualname__ += f"_{_VERSION[:12]}"
    return njit(cache=True, nogil=True)(function)  # type: ignore[no-any-return,unused-ignore]
