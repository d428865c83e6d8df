"""The tour from the first scene to the summary."""

from __future__ import annotations

import os
import shlex
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from riverrun.demo.tour import scenes
from riverrun.demo.tour.screen import Screen
from riverrun.demo.tour.stage import Finding, Stage
from riverrun.durations import Duration, micros
from riverrun.river import River

_OTHER_SCENES = 12.0  # seconds that everything but the producers takes
_SHORTEST = 3.0


def play(duration: Duration, river: str | None, console: Console) -> list[Finding]:
    """Show the log at work: producers, a group losing a member, a queue, replay, compaction. Every claim is checked."""
    seconds = max(_SHORTEST, micros(duration) / 1e6 - _OTHER_SCENES)
    with ExitStack() as stack:
        scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="riverrun-tour-"))
        opened = stack.enter_context(River(river or os.path.join(scratch, "river")))
        screen = stack.enter_context(Screen(console))
        stage = Stage(opened, scratch, screen, seconds)
        stack.callback(stage.close)
        for scene in scenes.SCENES:
            scene(stage)
    return stage.findings


def print_summary(console: Console, findings: Sequence[Finding], river: str | None) -> None:
    """A table of all claims, and what to try next."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title="What was checked", title_justify="left")
    for name in ("", "claim", "found"):
        table.add_column(name)
    scene = ""
    for finding in findings:
        if finding.scene != scene:
            scene = finding.scene
            table.add_row("", Text(scene, style="bold"), "")
        table.add_row(Text("✓", "green") if finding.held else Text("✗", "bold red"), finding.claim, finding.detail)
    failed = sum(not finding.held for finding in findings)
    verdict = f"{failed} of {len(findings)} claims did not hold" if failed else f"all {len(findings)} claims held"
    console.print()
    console.print(table)
    console.print(Text(verdict, style="bold red" if failed else "bold green"))
    if river:
        console.print(Text(f"The river is in {river}. Try: riverrun topic tail orders --river {shlex.quote(river)}"))
    else:
        console.print(Text("The river was removed. Keep one with: riverrun demo --river DIR"))


def summarize(findings: Sequence[Finding]) -> dict[str, Any]:
    """The same for programs."""
    return {
        "ok": all(finding.held for finding in findings),
        "checks": [{"scene": f.scene, "claim": f.claim, "held": f.held, "found": f.detail} for f in findings],
    }
