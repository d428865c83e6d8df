"""Calls that cannot be: a method that something does not have, arguments that a method does not take.

Both are answered with what is meant: the nearest name, or what does here what a name of another library does there.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from riverrun.errors import Invalid, did_you_mean
from riverrun.habits import ARGUMENTS, NAMED

Answered = TypeVar("Answered", bound=type)


class Misplaced(Invalid, AttributeError):
    """A method that something does not have: another kind has it, or another library."""


class Miscalled(Invalid, TypeError):
    """Arguments that a method does not take. Nothing was done."""


def public_names(kind: type) -> list[str]:
    """What people may use of a class."""
    return [name for name in dir(kind) if not name.startswith("_")]


def miscalled(function: Callable[..., Any], arguments: Sequence[Any], named: Mapping[str, Any]) -> Miscalled | None:
    """What is wrong with the arguments of a call; None where they fit, and something else is wrong.

    >>> def stream(topic, *, lateness=0): ...
    >>> print(miscalled(stream, ["orders"], {"latness": "10 s"}))
    stream() has no argument 'latness'. Did you mean 'lateness'?
    """
    signature = inspect.signature(function)
    try:
        signature.bind(*arguments, **named)
    except TypeError as error:
        said = str(error)
    else:
        return None
    kinds = {name: parameter.kind for name, parameter in signature.parameters.items() if name not in ("self", "cls")}
    name = _shown(function)
    known = [one for one, kind in kinds.items() if kind not in (_REST, _NAMED_REST)]
    unknown = [one for one in named if one not in kinds]
    if unknown and _NAMED_REST not in kinds.values():
        meant = next((ours for ours in ARGUMENTS.get(unknown[0], ()) if ours in known), None)
        nearest = did_you_mean(unknown[0], known) if known else "It takes none"
        return Miscalled(f"{name}() has no argument {unknown[0]!r}", hint=f"Use {meant}=" if meant else nearest)
    if said.startswith("too many"):
        if _NAMED_REST in kinds.values():
            return Miscalled(f"{name}() takes what it makes by name", hint=NAMED.get(name, f"Write {name}(name=…)"))
        by_name = [one for one, kind in kinds.items() if kind is _BY_NAME]
        hint = f"These are given by name: {', '.join(f'{one}=' for one in by_name)}" if by_name else None
        given = len(arguments) - (len(signature.parameters) - len(kinds))
        most = len(known) - len(by_name)
        return Miscalled(f"{name}() takes at most {most} without a name, and {given} are given", hint=hint)
    return Miscalled(f"{name}(): {said}", hint=f"Its arguments are: {', '.join(known)}")


def answering(what: str, habits: Mapping[str, str]) -> Callable[[Answered], Answered]:
    """A class that people use: what it lacks and what its methods do not take is answered. `habits` has what other libraries
    call what it does. (Flows and what they are made of also name the line; see `riverrun.flow.place`.)"""

    def __getattr__(self: object, name: str) -> Any:
        if name in dir(type(self)):
            return object.__getattribute__(self, name)  # a property that failed: it says why
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        raise Misplaced(
            f"a {what} has no {name!r}", hint=habits.get(name) or did_you_mean(name, public_names(type(self)))
        )

    def decorated(kind: Answered) -> Answered:
        for name, function in list(vars(kind).items()):
            if inspect.isfunction(function) and (name == "__init__" or not name.startswith("_")):
                setattr(kind, name, _answered(function))
        kind.__getattr__ = __getattr__  # type: ignore[attr-defined]
        return kind

    return decorated


def _answered(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def called(*arguments: Any, **named: Any) -> Any:
        try:
            return function(*arguments, **named)
        except TypeError:
            if wrong := miscalled(function, arguments, named):
                raise wrong from None
            raise

    return called


def _shown(function: Callable[..., Any]) -> str:
    """As it is written in a call: a class for what makes one."""
    path = function.__qualname__.split(".")
    return path[-2] if path[-1] == "__init__" else path[-1]


_REST = inspect.Parameter.VAR_POSITIONAL
_NAMED_REST = inspect.Parameter.VAR_KEYWORD
_BY_NAME = inspect.Parameter.KEYWORD_ONLY
