"""What every command takes: `--river DIR` and `--json`; and opening the river it names."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from riverrun.errors import NotFound
from riverrun.settings import places

if TYPE_CHECKING:
    from riverrun.river import River

DEFAULT_RIVER = "./river"
CONFIG = "riverrun.toml"


def _river_here(context: typer.Context, option: typer.CallbackParam, value: str) -> str:
    """Where neither the option nor the environment names a river, the one of the settings file in this directory."""
    source = context.get_parameter_source(option.name or "")
    if context.resilient_parsing or source is None or source.name != "DEFAULT":
        return value
    return _file_places().get("river", value)


RiverOption = Annotated[
    str,
    typer.Option(
        "--river",
        envvar="RIVERRUN_RIVER",
        metavar="DIR",
        help="The river's directory.",
        show_envvar=True,
        callback=_river_here,
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Machine-readable output, exact figures.")]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
TopicArgument = Annotated[str, typer.Argument(metavar="NAME", help="The topic.", show_default=False)]


@contextmanager
def open_river(path: str, create: bool = False) -> Iterator[River]:
    """The river of a command. Only commands that make something make a river where there is none."""
    if not create and not has_river(path):
        if os.path.isdir(path) and os.listdir(path):
            raise NotFound(f"{path} is not a river", hint="Give its directory with --river DIR, or RIVERRUN_RIVER")
        make = f"riverrun topic create NAME --schema DDL --river {shlex.quote(path)}"
        raise NotFound(f"there is no river in {path}", hint=f"Give --river DIR, or make one: {make}")
    from riverrun.river import River

    with River(path, **places_of(path)) as river:
        yield river


def has_river(path: str) -> bool:
    """Whether there is one to open: in the directory, or in a log elsewhere."""
    return os.path.exists(f"{path}/river.json") or "log" in places_of(path)


def places_of(river: str) -> dict[str, Any]:
    """Where the environment, or a settings file in this directory, says that the parts of a river are. A file that names
    another river says nothing of this one."""
    said = _file_places()
    own = said.get("river")
    if own is not None and os.path.realpath(own) != os.path.realpath(river):
        said = {}
    return {name: place for name, place in {**said, **places()}.items() if name != "river"}


def _file_places() -> dict[str, str]:
    return places(CONFIG, environ={}) if os.path.exists(CONFIG) else {}
