"""What the tour shows: lines that stay, and one that moves. Without a terminal, plain lines."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

_QUIET = 2.0  # seconds between two moving lines where there is no terminal


class Screen:
    """Say things, and show how far something is."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._spinner = Spinner("dots")
        self._live = Live(console=console, refresh_per_second=8, transient=True) if console.is_terminal else None
        self._shown_at = 0.0

    def __enter__(self) -> Self:
        if self._live:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def heading(self, title: str, about: str) -> None:
        self._console.print()
        self._console.print(Text(title, style="bold"))
        self._console.print(Text(about, style="dim"))

    def say(self, text: str) -> None:
        self._console.print(Text(f"  {text}"))

    def mark(self, ok: bool, text: str) -> None:
        self._console.print(Text.assemble(("  ✓ ", "green") if ok else ("  ✗ ", "bold red"), text))

    def moving(self, text: str) -> None:
        """The line that changes; elsewhere one every two seconds."""
        if self._live:
            self._spinner.update(text=Text(text))
            self._live.update(self._spinner)
        elif time.monotonic() - self._shown_at > _QUIET:
            self._shown_at = time.monotonic()
            self.say(f"… {text}")

    def close(self) -> None:
        """No line moves any more. A second close does nothing."""
        if self._live:
            self._live.update(Text(""))
            self._live.stop()
