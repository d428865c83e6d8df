"""Functions that users write into their flows: what they are called, and whether they are still the same."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable
from functools import partial
from typing import Any


def name_of(function: Callable[..., Any]) -> str:
    """What people call a function."""
    if isinstance(function, partial):
        return name_of(function.func)
    return str(getattr(function, "__qualname__", type(function).__qualname__))


def hash_of(function: Callable[..., Any]) -> str:
    """A hash of the function's text, or of its bytecode where there is no text, and of the plain values and functions
    that it encloses. What it calls by name is not looked at."""
    return hashlib.sha256(_described(function).encode()).hexdigest()


def _described(function: Callable[..., Any]) -> str:
    if isinstance(function, partial):
        return "|".join(map(_value, (function.func, *function.args, *sorted(function.keywords.items()))))
    try:
        text = inspect.getsource(function)
    except (OSError, TypeError):
        compiled = getattr(function, "__code__", None)
        text = f"{compiled.co_code!r}{compiled.co_names!r}{compiled.co_consts!r}" if compiled else repr(type(function))
    enclosed = [cell.cell_contents for cell in getattr(function, "__closure__", None) or ()]
    return "|".join([text, *map(_value, enclosed)])


def _value(value: Any) -> str:
    if inspect.isfunction(value) or isinstance(value, partial):
        return _described(value)
    return repr(value) if isinstance(value, str | int | float | bool | tuple | None) else ""
