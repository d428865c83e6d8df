"""`riverrun run FLOW.py`: a flow in the foreground, until it is stopped."""

from __future__ import annotations

import logging
import os
import signal
import sys
import time
import warnings
from contextlib import ExitStack
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from riverrun import figures
from riverrun.cli.flow_file import FlowArgument, load_flow
from riverrun.cli.options import DEFAULT_RIVER, JsonOption, RiverOption, open_river
from riverrun.cli.output import note, print_json, print_line
from riverrun.cli.serve_command import DEFAULT_HOST, HostOption, check_address, serve_beside
from riverrun.durations import show
from riverrun.errors import Invalid

if TYPE_CHECKING:
    from riverrun.flow import Flow
    from riverrun.runtime.status import FlowStatus
    from riverrun.spark.run import Run

_PATIENCE = "7 seconds"  # for the epoch in progress: a stopped run ends within ten
_EVERY = 5.0  # seconds between two lines where there is no terminal


def run(
    flow_file: FlowArgument,
    once: Annotated[bool, typer.Option("--once", help="Process what is there, then stop.")] = False,
    drain: Annotated[bool, typer.Option("--drain", help="As --once, and end the input: every window closes.")] = False,
    rebuild: Annotated[bool, typer.Option("--rebuild", help="First compute its views from the log again.")] = False,
    host: HostOption = DEFAULT_HOST,
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="Serve HTTP there: 8400, unless that is taken. 0: any that is free."),
    ] = None,
    no_serve: Annotated[bool, typer.Option("--no-serve", help="No HTTP beside the run.")] = False,
    json: JsonOption = False,
    river: RiverOption = DEFAULT_RIVER,
) -> None:
    """Run a flow from where it stopped, until Ctrl-C or SIGTERM: the epoch is finished, then it ends.

    A second signal ends it at once; nothing is lost then either, the next run repeats the epoch. A run that another one
    of the same flow has taken over from ends by itself. With --json the status and the ledger are printed at the end.

    Of a flow that has changed since its last epoch, and with --rebuild of any, the views are computed from the log again
    first. The old ones answer until they are replaced, at once; no topic is written again. `riverrun plan` tells.

    Beside it the river is served over HTTP, as `riverrun serve` does; with --once and --drain only if --port is given.
    """
    if no_serve and port is not None:
        raise Invalid("--port and --no-serve exclude each other")
    if once and drain:
        raise Invalid("--once and --drain exclude each other", hint="--drain processes what is there, too")
    if os.environ.get("RIVERRUN_DEBUG") != "1":
        warnings.simplefilter("ignore")
    flow = load_flow(flow_file)
    lines = _RunLines(flow.name, quiet=json)
    lines.take_logging()
    with _signals(), open_river(river, create=True) as opened:
        serving = not no_serve and (port is not None or not (once or drain))
        if serving:
            check_address(opened, host, port)
        running: Run | None = None
        try:
            running = opened.run(flow, rebuild=rebuild)
            with ExitStack() as stack:
                if serving:
                    serve_beside(stack, opened, running, host, port, lines.say)
                _follow(running, lines, once, drain)
        except _Interrupted as stopped:
            if running is None:
                lines.say("stopped before it started")
                return
            lines.say(f"{stopped}: finishing the epoch")
            running.stop(_PATIENCE)
            if once or drain:
                raise typer.Exit(1) from None  # what was asked for has not been done
        finally:
            lines.clear()
        status = running.observe()
        if json:
            print_json(status.plain())
        else:
            lines.say(_summary(status))
            lines.hint()


def rebuild_views(flow: Flow, river: str) -> None:
    """Compute all views of a flow from the log again, showing how far that is."""
    if os.environ.get("RIVERRUN_DEBUG") != "1":
        warnings.simplefilter("ignore")
    lines = _RunLines(flow.name, quiet=False)
    lines.take_logging()
    with _signals(), open_river(river) as opened:
        try:
            running = opened.run(flow, rebuild=True)
            _follow_rebuild(running, lines)
            running.stop(_PATIENCE)
        except _Interrupted as stopped:
            lines.say(f"{stopped}: the views stay as they were, unless they were replaced already")
            raise typer.Exit(1) from None
        finally:
            lines.clear()
        lines.say(f"the views of flow {flow.name} were rebuilt: {', '.join(flow.views)}")


def _follow_rebuild(running: Run, lines: _RunLines) -> None:
    while (status := running.observe()).rebuild is not None and not running.wait(0.5):
        lines.show(status)


def _follow(running: Run, lines: _RunLines, once: bool, drain: bool) -> None:
    _follow_rebuild(running, lines)
    lines.say(f"flow {running.name} runs")
    if once:
        running.process()
        running.stop()
    elif drain:
        running.drain()
    while not running.wait(0.5):
        lines.show(running.observe())


class _Interrupted(BaseException):
    """Raised in the main thread by the first signal."""


class _signals:
    """The first signal raises `_Interrupted`, the second ends the process where it stands."""

    def __enter__(self) -> None:
        self._before = {number: signal.signal(number, self._first) for number in (signal.SIGINT, signal.SIGTERM)}

    def _first(self, number: int, frame: FrameType | None) -> None:
        for each in self._before:
            signal.signal(each, lambda number, _: os._exit(128 + number))
        raise _Interrupted(signal.Signals(number).name)

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)


class _RunLines(logging.Handler):
    """What a person sees: on a terminal one line that changes, else a line now and then. Warnings get their own."""

    def __init__(self, flow: str, quiet: bool) -> None:
        super().__init__(logging.WARNING)
        self._flow = flow
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
            sys.stderr.write(f"\r{_line(status)[: max(width - 1, 20)]}\033[K")
            sys.stderr.flush()
            self._shown = True
            return
        now = (status.epoch, status.state)
        if now != self._last and (time.monotonic() >= self._next or now[1] != self._last[1]):
            self._last, self._next = now, time.monotonic() + _EVERY
            self.say(_line(status))

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


def _line(status: FlowStatus) -> str:
    rate = figures.rate(status.rows_per_second or 0.0, 1)
    if status.state == "rebuilding" and status.rebuild:
        done, whole = figures.rows(status.rebuild.rows), figures.rows(status.rebuild.of)
        return figures.safe(f"rebuilding: {done} of {whole} · {rate}")
    lag = status.watermark_lag
    parts = [
        f"epoch {status.epoch}",
        rate,
        figures.behind(status.lag.rows, status.lag.seconds),
        "no watermark yet" if lag is None else f"watermark {_span(lag)} behind",
        f"{figures.rows(status.late)} late",
        *(f"waits for {source.waits_for}" for source in status.sources if source.waits_for),
    ]
    if status.state != "running":
        parts.insert(0, f"{status.state}: {status.reason}" if status.reason else f"{status.state}")
    return figures.safe(" · ".join(parts))


def _summary(status: FlowStatus) -> str:
    end = "drained" if status.finished else "stopped"
    late = f", {figures.rows(status.late)} late" if status.late else ""
    read = f"{figures.rows(status.rows_read)} read in all{late}"
    return f"{end} at epoch {status.epoch}: {read}, {status.positions or 'nothing'}"


def _span(seconds: float) -> str:
    return show(round(seconds) * 1_000_000) if seconds >= 1 else "0 s"
