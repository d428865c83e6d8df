"""`riverrun doctor`"""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import Annotated

import typer

from riverrun import figures
from riverrun.cli.options import DEFAULT_RIVER, JsonOption, RiverOption, places_of
from riverrun.cli.output import console, print_json

_MARKS = {"ok": ("✓", "green"), "warning": ("!", "yellow"), "failed": ("✗", "red")}


def doctor(
    spark: Annotated[
        bool, typer.Option("--spark", help="Also run a flow on Spark; makes later starts faster.")
    ] = False,
    json: JsonOption = False,
    river: RiverOption = DEFAULT_RIVER,
) -> None:
    """Check this machine and the river, with a fix for each failure. Exit code 1 when something fails."""
    from rich.text import Text

    from riverrun.doctor import examine

    checks, screen = [], console()
    for check in examine(river, spark=spark, places=places_of(river)):
        checks.append(check)
        if not json:
            mark, colour = _MARKS[check.status]
            screen.print(Text.assemble((mark, colour), f" {figures.safe(check.name):<12} {figures.safe(check.found)}"))
            if check.fix:
                screen.print(Text(f"  {'':<12} → {figures.safe(check.fix)}"))
            sys.stdout.flush()
    failed = [check for check in checks if check.status == "failed"]
    if json:
        print_json({"ok": not failed, "checks": [asdict(check) for check in checks]})
    else:
        screen.print()
        screen.print(f"{len(failed)} of {len(checks)} checks failed" if failed else f"all {len(checks)} checks passed")
    if failed:
        raise typer.Exit(1)
