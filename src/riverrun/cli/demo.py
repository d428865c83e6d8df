"""`riverrun demo`: the guided tour."""

from __future__ import annotations

import os
import tempfile
from contextlib import ExitStack
from typing import Annotated

import typer

from riverrun.cli.options import JsonOption
from riverrun.cli.output import console, print_json
from riverrun.durations import micros
from riverrun.errors import Invalid

_OTHER_SCENES = 12.0  # seconds that everything but the producers takes
_SHORTEST = 3.0


def demo(
    for_: Annotated[str, typer.Option("--for", metavar="DURATION", help="About how long it takes.")] = "25 seconds",
    river: Annotated[
        str | None,
        typer.Option(
            "--river", metavar="DIR", help="Keep the river there (a new directory); else it is removed at the end."
        ),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Show the log at work, in this terminal: producers, a group losing a member, a queue, replay, compaction.

    Every claim is checked; the exit code is 1 if one does not hold.
    """
    from riverrun.cli.tour.scenes import SCENES
    from riverrun.cli.tour.screen import Screen
    from riverrun.cli.tour.stage import Stage
    from riverrun.cli.tour.summary import report, summary
    from riverrun.river import River

    if river and os.path.exists(river) and os.listdir(river):
        raise Invalid(f"{river} is not empty", hint="The tour wants a new directory")
    seconds = max(_SHORTEST, micros(for_) / 1e6 - _OTHER_SCENES)
    with ExitStack() as stack:
        scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="riverrun-demo-"))
        opened = stack.enter_context(River(river or os.path.join(scratch, "river")))
        screen = stack.enter_context(Screen(console(stderr=json)))
        stage = Stage(opened, scratch, screen, seconds)
        stack.callback(stage.close)
        for scene in SCENES:
            scene(stage)
        if json:
            print_json(report(stage.findings))
        else:
            screen.end(*summary(stage.findings, river))
    if not all(finding.held for finding in stage.findings):
        raise typer.Exit(1)
