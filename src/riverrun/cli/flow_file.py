"""A flow from a file: `flow` at the top of a Python module. Whatever is wrong with the file is one line with its place."""

from __future__ import annotations

import importlib.util
import os
import re
import sys
import traceback
from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated, Any

import typer

from riverrun.errors import Invalid, NotFound, RiverrunError, not_installed

if TYPE_CHECKING:
    from types import ModuleType

    from riverrun.flow import Flow

FlowArgument = Annotated[
    str, typer.Argument(metavar="FLOW.py", help="A Python file with `flow = rr.Flow(…)`.", show_default=False)
]
_PLACED = re.compile(r"\S+:\d+: ")


def load_flow(path: str) -> Flow:
    """The module's `flow`."""
    if not os.path.exists(path):
        raise NotFound(f"there is no file {path}")
    if os.path.isdir(path) or not path.endswith(".py"):
        raise Invalid(f"{path} is not a Python file", hint="Give a file such as shop.py with `flow = rr.Flow(…)` in it")
    try:
        from riverrun.flow import Flow
    except ImportError as error:
        raise not_installed("a flow", error, "spark") from None
    module = _execute(path)
    flow = getattr(module, "flow", None)
    if isinstance(flow, Flow):
        return flow
    if flow is not None:
        raise Invalid(f"{path}: `flow` is {_describe(flow)}, not a flow", hint="Write: flow = rr.Flow(…)")
    others = [name for name, value in vars(module).items() if isinstance(value, Flow)]
    if len(others) > 1:
        hint = f"A run takes one. Say which: flow = {others[0]}; the others go into files of their own"
        raise Invalid(f"{path} has {len(others)} flows ({', '.join(others)}), and none is called `flow`", hint=hint)
    hint = f"Call it so: flow = {others[0]}" if others else 'Write: flow = rr.Flow("name")'
    raise Invalid(f"{path} has no `flow`", hint=hint)


def _execute(path: str) -> ModuleType:
    """The module, with its own folder first among the places imports are looked for."""
    whole = os.path.abspath(path)
    name = os.path.basename(whole).removesuffix(".py")
    spec = importlib.util.spec_from_file_location(name if name.isidentifier() else "flow_file", whole)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    if os.path.dirname(whole) not in sys.path:
        sys.path.insert(0, os.path.dirname(whole))
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except SyntaxError as error:
        raise Invalid(f"{_near(error.filename or path)}:{error.lineno}: {error.msg}") from error
    except RiverrunError as error:
        if _PLACED.match(error.message):
            raise
        raise type(error)(f"{_line(error, whole)}: {error.message}", hint=error.hint) from error
    except ModuleNotFoundError as error:
        meant = get_close_matches(error.name or "", ["riverrun"])
        hint = f"Did you mean {meant[0]}?" if meant else f"Install it for {sys.executable}"
        raise Invalid(f"{_line(error, whole)}: {error}", hint=hint) from error
    except SystemExit as error:
        raise Invalid(f"{_line(error, whole)}: the file ends the program when it is loaded") from error
    except Exception as error:
        raise Invalid(f"{_line(error, whole)}: {type(error).__name__}: {error}") from error
    return module


def _line(error: BaseException, file: str) -> str:
    """The last line of the user's own files that led to the error."""
    folder = os.path.dirname(file) + os.sep
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if f.filename == file] or [f for f in frames if f.filename.startswith(folder)]
    return f"{_near(own[-1].filename)}:{own[-1].lineno}" if own else _near(file)


def _near(path: str) -> str:
    return path.removeprefix(os.path.join(os.getcwd(), ""))


def _describe(value: Any) -> str:
    kind = type(value).__name__
    return f"a {kind}" if kind[0] not in "aeiou" else f"an {kind}"
