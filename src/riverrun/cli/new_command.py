"""`riverrun new DIR`: a starter project."""

from __future__ import annotations

import os
import shlex
from importlib.resources import files
from typing import Annotated

import typer

from riverrun.cli.options import JsonOption
from riverrun.cli.output import print_json, print_line
from riverrun.errors import Invalid

FILES = ("flow.py", "test_flow.py", "riverrun.toml", "README.md")


def new(
    directory: Annotated[
        str, typer.Argument(metavar="DIR", help="A directory that is new or empty.", show_default=False)
    ],
    json: JsonOption = False,
) -> None:
    """Make a starter project: a flow, a test of it that needs no Spark, settings, and what to do next."""
    if os.path.exists(directory) and (not os.path.isdir(directory) or os.listdir(directory)):
        raise Invalid(f"{directory} is there already", hint="Give the name of a new directory")
    os.makedirs(directory, exist_ok=True)
    name = os.path.basename(os.path.abspath(directory))
    for file in FILES:
        with open(os.path.join(directory, file), "x", encoding="utf-8") as made:
            made.write(template(file).replace("{name}", name) if file == "README.md" else template(file))
    if json:
        print_json({"directory": os.path.abspath(directory), "files": list(FILES)})
        return
    for file in FILES:
        print_line(os.path.join(directory, file))
    print_line(f"Next: cd {shlex.quote(directory)} && riverrun run flow.py")


def template(file: str) -> str:
    """A file as it is written."""
    return files("riverrun.cli.starter").joinpath(f"{file}.template").read_text(encoding="utf-8")
