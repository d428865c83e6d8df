"""`riverrun pack`: this Python environment as an archive, for the executors of a Spark cluster."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from riverrun.cli.options import JsonOption
from riverrun.cli.output import print_json, print_line


def pack(
    archive: Annotated[str, typer.Argument(metavar="FILE", help="The archive to write.")] = "environment.tar.gz",
    more: Annotated[
        list[str] | None,
        typer.Option(
            "--with", metavar="PACKAGE", help="Another installed package, and what it needs. May be repeated."
        ),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Put this Python, Riverrun and what tasks of flows need into an archive, for executors that have no Python of their own.

    Name it in riverrun.toml: environment = "environment.tar.gz"; Spark carries it to every executor.
    """
    from riverrun.environment_archive import pack_environment

    packed = pack_environment(archive, more or ())
    if json:
        print_json(asdict(packed))
    else:
        print_line(f"{packed.path}: {packed.size / 1e6:.0f} MB, Python and {len(packed.distributions)} packages")
