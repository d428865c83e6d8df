"""Loops over rows, compiled when they are first called and kept on disk."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from numba import njit
from numba.core.options import DefaultOptions

Function = TypeVar("Function", bound=Callable[..., Any])

# What is kept on disk is found by the function's name and file, and knows nothing of other files that it was compiled from.
_VERSION = hashlib.sha256(
    b"".join(path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py")))
).hexdigest()
# Numba counts who holds an array, also at every call that hands one on: four fifths of the time of a search.
_UNCOUNTED = {"_nrt": False} if hasattr(DefaultOptions, "_nrt") else {}


def compiled(function: Function) -> Function:
    """The function in machine code; it makes no arrays. Other threads may run meanwhile."""
    return _compiled(function, **_UNCOUNTED)


def compiled_allocating(function: Function) -> Function:
    """The same for a function that makes arrays."""
    return _compiled(function)


def _compiled(function: Function, **options: bool) -> Function:
    function.__qualname__ += f"_{_VERSION[:12]}"
    return njit(cache=True, nogil=True, **options)(function)  # type: ignore[no-any-return,unused-ignore]
