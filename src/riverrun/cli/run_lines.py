"""What a person sees of a run: on a terminal one line that changes, else a line now and then."""

from __future__ import annotations

import logging
import os
import sys
import time
from typing import TYPE_CHECKING

from riverrun import figures
from riverrun.cli.output import note, print_line
from riverrun.durations import show

if TYPE_CHECKING:
    from riverrun.runtime.status import FlowStatus

_EVERY = 5.0  # seconds between two lines where there is no terminal


class RunLines(logging.Handler):
    """The lines of one run. Warnings of the engine get their own."""

    def __init__(self, quiet: bool) -> None:
        super().__init__(logging.WARNING)
        self._quiet = quiet
        self._live = sys.stderr.isatty() and not quiet
        self._last: tuple[int, str | None] = (0, "")
        self._next = 0.0
        self._shown = False

    def take_logging(self) -> None:
        """Warnings of the engine come through here, so that they do not land in the middle of the live line."""
        logger = logging.getLogger("riverrun")
        logger.addHandler(self)
        logger.propagate = False

    def emit(self, record: logging.LogRecord) -> None:
        self.clear()
        note(record.getMessage())

    def show(self, status: FlowStatus) -> None:
        """Where the run is."""
        if self._live:
            width = os.get_terminal_size(sys.stderr.fileno()).columns
            sys.stderr.write(f"\r{describe(status)[: max(width - 1, 20)]}\033[K")
            sys.stderr.flush()
            self._shown = True
            return
        now = (status.epoch, status.state)
        if now != self._last and (time.monotonic() >= self._next or now[1] != self._last[1]):
            self._last, self._next = now, time.monotonic() + _EVERY
            self.say(describe(status))

    def say(self, text: str) -> None:
        """A line that stays."""
        if not self._quiet:
            self.clear()
            print_line(text)
            sys.stdout.flush()

    def hint(self) -> None:
        """What a person at a terminal could do about the time that starting takes."""
        from riverrun.spark import archive

        if self._live and not archive.is_made():
            note("Flows start faster after: riverrun doctor --spark")

    def clear(self) -> None:
        """Take the live line away."""
        if self._shown:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()
            self._shown = False


def describe(status: FlowStatus) -> str:
    """Where a run is, in one line."""
    rate = figures.rate(status.rows_per_second or 0.0, 1)
    if status.state == "rebuilding" and status.rebuild:
        done, whole = figures.rows(status.rebuild.rows), figures.rows(status.rebuild.of)
        return figures.safe(f"rebuilding: {done} of {whole} · {rate}")
    lag = status.watermark_lag
    parts = [
        f"epoch {status.epoch}" if status.epoch else "no epoch yet",
        *([rate] if status.epoch else []),
        figures.behind(status.lag.rows, status.lag.seconds),
        "no watermark yet" if lag is None else f"watermark {_span(lag)} behind",
        f"{figures.rows(status.late)} late",
        *(f"waits for {source.waits_for}" for source in status.sources if source.waits_for),
    ]
    if status.state != "running":
        parts.insert(0, f"{status.state}: {status.reason}" if status.reason else f"{status.state}")
    return figures.safe(" · ".join(parts))


def summarize(status: FlowStatus) -> str:
    """What a run has come to, in one line."""
    end = "drained" if status.finished else "stopped"
    late = f", {figures.rows(status.late)} late" if status.late else ""
    read = f"{figures.rows(status.rows_read)} read in all{late}"
    return f"{end} at epoch {status.epoch}: {read}, {status.positions or 'nothing'}"


def _span(seconds: float) -> str:
    return show(round(seconds) * 1_000_000) if seconds >= 1 else "0 s"
