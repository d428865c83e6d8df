"""Where in the user's file something was declared, and errors that say so."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import ParamSpec, TypeVar

from riverrun.calls import Miscalled, miscalled
from riverrun.errors import Invalid, NotFound

_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep

Args = ParamSpec("Args")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Place:
    """A line of a file; prints as "shop.py:12"."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


def caller() -> Place:
    """The line outside this package that is being executed: the user's declaration."""
    frame = sys._getframe(1)
    while frame.f_back and os.path.abspath(frame.f_code.co_filename).startswith(_HERE):
        frame = frame.f_back
    file = frame.f_code.co_filename
    inside = os.path.join(os.getcwd(), "")
    return Place(file.removeprefix(inside), frame.f_lineno)


def declaration(function: Callable[Args, Result]) -> Callable[Args, Result]:
    """A public method of a flow: what it refuses, arguments that it does not have too, names the file and line of the call."""

    @functools.wraps(function)
    def declared(*args: Args.args, **kwargs: Args.kwargs) -> Result:
        try:
            return function(*args, **kwargs)
        except (Invalid, NotFound) as error:
            place = f"{caller()}: "
            if error.message.startswith(place):
                raise
            raise type(error)(place + error.message, hint=error.hint) from None
        except TypeError:
            if wrong := miscalled(function, args, kwargs):
                raise Miscalled(f"{caller()}: {wrong.message}", hint=wrong.hint) from None
            raise

    return declared
