"""What was shown and checked, at the end of the tour."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from riverrun.cli.tour.stage import Finding


def summary(findings: Sequence[Finding], river: str | None) -> list[Any]:
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
    lines: list[Any] = [table, Text(verdict, style="bold red" if failed else "bold green")]
    if river:
        lines.append(Text(f"The river is in {river}. Try: riverrun topic tail orders --river {shlex.quote(river)}"))
    else:
        lines.append(Text("The river was removed. Keep one with: riverrun demo --river DIR"))
    return lines


def report(findings: Sequence[Finding]) -> dict[str, Any]:
    """The same for programs."""
    return {
        "ok": all(finding.held for finding in findings),
        "checks": [{"scene": f.scene, "claim": f.claim, "held": f.held, "found": f.detail} for f in findings],
    }
