"""The tour from the first scene to the summary."""

from __future__ import annotations

import os
import tempfile
from contextlib import ExitStack

import typer

from riverrun.cli.output import console, print_json
from riverrun.cli.tour import scenes
from riverrun.cli.tour.screen import Screen
from riverrun.cli.tour.stage import Stage
from riverrun.cli.tour.summary import report, summary
from riverrun.durations import micros
from riverrun.river import River

_OTHER_SCENES = 12.0  # seconds that everything but the producers takes
_SHORTEST = 3.0


def tour(for_: str, river: str | None, json: bool) -> None:
    """Show the log at work: producers, a group losing a member, a queue, replay, compaction. It takes about `for_`.

    Every claim is checked; the exit code is 1 if one does not hold.
    """
    seconds = max(_SHORTEST, micros(for_) / 1e6 - _OTHER_SCENES)
    with ExitStack() as stack:
        scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="riverrun-tour-"))
        opened = stack.enter_context(River(river or os.path.join(scratch, "river")))
        screen = stack.enter_context(Screen(console(stderr=json)))
        stage = Stage(opened, scratch, screen, seconds)
        stack.callback(stage.close)
        for scene in scenes.SCENES:
            scene(stage)
        if json:
            print_json(report(stage.findings))
        else:
            screen.end(*summary(stage.findings, river))
    if not all(finding.held for finding in stage.findings):
        raise typer.Exit(1)
