"""What a person sees of the demo: lines that stay, and below them a picture that moves. Without a terminal, lines."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any, Self

from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from riverrun import figures
from riverrun.demo.shop.scene import Scene
from riverrun.durations import show

_WIDE = 100  # columns that two views beside each other need
_MOVING = 0.5  # seconds between two pictures …
_EVERY = 5.0  # … and between two lines where there is no terminal


class Display:
    """Says things, and shows the scene."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, auto_refresh=False, transient=True) if console.is_terminal else None
        self._next = 0.0

    def __enter__(self) -> Self:
        if self._live:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:
            self._live.stop()
            self._live = None

    def say(self, text: str, style: str = "") -> None:
        """A line that stays."""
        self._console.print(Text(figures.safe(text), style))

    def mark(self, held: bool, text: str) -> None:
        """A claim, and whether it held."""
        self._console.print(Text.assemble(("✓ ", "green") if held else ("✗ ", "bold red"), figures.safe(text)))

    def show(self, look: Callable[[], Scene]) -> None:
        """What is going on now; looked at only when it is time to."""
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + (_MOVING if self._live else _EVERY)
        if self._live:
            self._live.update(_picture(look(), self._console.width), refresh=True)
        else:
            self.say(_line(look()))


def _line(scene: Scene) -> str:
    return " · ".join([f"{scene.seconds:.0f} s", f"{figures.count(scene.rate)} events/s sent", *_processing(scene)])


def _processing(scene: Scene) -> list[str]:
    """Where the flow is, in short."""
    status = scene.status
    if status.state == "starting":
        return [scene.doing]
    lags: dict[str, float] = {}  # of watermarks, by topic; where clocks are corrected, only the corrected time counts
    for source in status.sources:
        if source.behind is not None:
            lags[source.topic] = min(source.behind, lags.get(source.topic, math.inf))
    return [
        *([] if status.state == "running" else [f"{status.state}: {status.reason}"]),
        f"epoch {status.epoch}",
        f"{figures.rate(status.rows_per_second or 0.0, 1)} processed",
        figures.behind(status.lag.rows, status.lag.seconds),
        f"watermark {_span(max(lags.values()))} behind" if lags else "no watermark yet",
    ]


def _picture(scene: Scene, width: int) -> RenderableType:
    state = scene.status.state
    style = "green" if state == "running" else "yellow" if state == "starting" else "bold red"
    head = Text.assemble(("● ", style), " · ".join(_processing(scene)))
    tables = Table.grid(padding=(0, 2))
    views = scene.views if width >= _WIDE else scene.views[:1]
    tables.add_row(_topics(scene), *(_view(title, rows) for title, rows in views if rows))
    keys = Text.assemble(*(part for key, does in scene.keys for part in ((f" {key} ", "reverse"), f" {does}   ")))
    address = Text.assemble("open ", (scene.url or "", "bold underline"))
    alert = Text(_alert(scene), style="dim", no_wrap=True, overflow="ellipsis")
    return Group(Text(), head, Text(), tables, Text(_ledger(scene), style="dim"), alert, Text(), address, keys)


def _topics(scene: Scene) -> Table:
    table = _table("sent", ("topic", "rows", "rows/s"), right=("rows", "rows/s"))
    for name, (rows, rate) in scene.topics.items():
        table.add_row(name, figures.count(rows), figures.count(rate))
    return table


def _view(title: str, rows: list[dict[str, Any]]) -> Table:
    table = _table(
        f"view {title}", tuple(rows[0]), right=[name for name, v in rows[0].items() if not isinstance(v, str)]
    )
    for row in rows:
        table.add_row(*(figures.safe(str(value)) for value in row.values()))
    return table


def _table(title: str, columns: tuple[str, ...], right: Any) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    for name in columns:
        table.add_column(name, justify="right" if name in right else "left", no_wrap=True)
    return table


def _ledger(scene: Scene) -> str:
    counted = ", ".join(f"{figures.count(value)} {name}" for name, value in scene.ledger.items())
    return f"ledger: {counted}" if counted else ""


def _alert(scene: Scene) -> str:
    return f"alert: {figures.safe(' '.join(scene.alert.split()))}" if scene.alert else ""


def _span(seconds: float) -> str:
    return show(round(seconds) * 1_000_000) if seconds >= 1 else "0 s"
