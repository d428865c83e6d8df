"""Loops over rows, compiled when they are first called and kept on disk."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from numba import njit

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """The function in machine code. Other threads may run meanwhile."""
    return njit(cache=True, nogil=True)(function)  # type: ignore[no-any-return,unused-ignore]
