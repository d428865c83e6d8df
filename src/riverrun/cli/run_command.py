"""`riverrun run FLOW.py`: a flow in the foreground, until it is stopped."""

from __future__ import annotations

import os
import threading
import warnings
from concurrent import futures
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated

import typer

from riverrun.cli.capture_command import captures_of
from riverrun.cli.flow_file import FlowArgument, load_flow
from riverrun.cli.interruption import Interrupted, interruptible
from riverrun.cli.moments import Place, parse_place
from riverrun.cli.options import DEFAULT_RIVER, JsonOption, RiverOption, open_river
from riverrun.cli.output import print_json
from riverrun.cli.run_lines import RunLines, summarize
from riverrun.cli.serve_command import DEFAULT_HOST, HostOption, serve_beside
from riverrun.errors import Invalid, not_installed

if TYPE_CHECKING:
    from riverrun.cli.pending_run import PendingRun
    from riverrun.flow import Flow
    from riverrun.river import River
    from riverrun.spark.run import Run

_PATIENCE = "7 seconds"  # for the epoch in progress: a stopped run ends within ten


def run(
    flow_file: FlowArgument,
    once: Annotated[bool, typer.Option("--once", help="Process what is there, then stop.")] = False,
    drain: Annotated[bool, typer.Option("--drain", help="As --once, and end the input: every window closes.")] = False,
    rebuild: Annotated[bool, typer.Option("--rebuild", help="First compute its views from the log again.")] = False,
    alerts_from: Annotated[
        str | None,
        typer.Option(
            metavar="WHERE",
            help="For a flow without views: only what comes after this is written to topics and sent as alerts."
            ' now, earliest, "orders@0:17", a time, "1 hour ago".',
        ),
    ] = None,
    host: HostOption = DEFAULT_HOST,
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="Serve HTTP there: 8400, unless that is taken. 0: any that is free."),
    ] = None,
    no_serve: Annotated[bool, typer.Option("--no-serve", help="No HTTP beside the run.")] = False,
    capture: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Also run a capture of riverrun.toml, in the background. May be repeated."),
    ] = None,
    json: JsonOption = False,
    river: RiverOption = DEFAULT_RIVER,
) -> None:
    """Run a flow from where it stopped, until Ctrl-C or SIGTERM: the epoch is finished, then it ends.

    A second signal ends it at once; nothing is lost then either, the next run repeats the epoch. A run that another one
    of the same flow has taken over from ends by itself. With --json the status and the ledger are printed at the end.
    The exit code is 0 when it was stopped, before it had started, too; 1 when what --once or --drain asked for was not
    done.

    Of a flow that has changed since its last epoch, and with --rebuild of any, the views are computed from the log again
    first. The old ones answer until they are replaced, at once; no topic is written again. `riverrun plan` tells. The
    same happens where the views are gone, or are to be kept elsewhere now; --alerts-from decides otherwise.

    Beside it the river is served over HTTP, as `riverrun serve` does, from the first second on: events are accepted while
    Spark starts. With --once and --drain only if --port is given.
    """
    if no_serve and port is not None:
        raise Invalid("--port and --no-serve exclude each other")
    if once and drain:
        raise Invalid("--once and --drain exclude each other", hint="--drain processes what is there, too")
    start = None if alerts_from is None else parse_place("latest" if alerts_from == "now" else alerts_from)
    lines = _lines(quiet=json)
    running: Run | None = None
    with interruptible(), ExitStack() as stack:
        try:
            # A river that is there knows schemas that a flow leaves out; none is made for a flow that cannot be loaded.
            flow = None if capture or os.path.exists(f"{river}/river.json") else load_flow(flow_file)
            opened = stack.enter_context(open_river(river, create=True))
            for one in captures_of(opened, capture or []):
                stack.enter_context(one).wait_until_it_runs()
                lines.say(f"capture {one.name} runs")
            flow = flow or load_flow(flow_file)
            pending = _pending(opened, flow)
            if not no_serve and (port is not None or not (once or drain)):
                serve_beside(stack, opened, pending, host, port, lines.say)
            lines.say("starting Spark")
            running = pending.run = _begin(opened, flow, rebuild, start)
            _follow(running, lines, once, drain)
        except Interrupted as stopped:
            if running is None:
                _give_up_starting()
                lines.say(f"{stopped}: stopped before it started")
            else:
                lines.say(f"{stopped}: finishing the epoch")
                running.stop(_PATIENCE)
            if once or drain:
                raise typer.Exit(1) from None  # what was asked for has not been done
        finally:
            lines.clear()
        if running is None:
            return
        status = running.observe()
        if json:
            print_json(status.plain())
        else:
            lines.say(summarize(status))
            lines.hint()


def rebuild_views(flow: Flow, river: str) -> None:
    """Compute all views of a flow from the log again, showing how far that is."""
    lines = _lines(quiet=False)
    with interruptible(), ExitStack() as stack:
        try:
            opened = stack.enter_context(open_river(river))
            lines.say("starting Spark")
            running = _begin(opened, flow, rebuild=True)
            _follow_rebuild(running, lines)
            running.stop(_PATIENCE)
        except Interrupted as stopped:
            _give_up_starting()
            lines.say(f"{stopped}: the views stay as they were, unless they were replaced already")
            raise typer.Exit(1) from None
        finally:
            lines.clear()
        lines.say(f"the views of flow {flow.name} were rebuilt: {', '.join(flow.views)}")


def _lines(quiet: bool) -> RunLines:
    if os.environ.get("RIVERRUN_DEBUG") != "1":
        warnings.simplefilter("ignore")
    lines = RunLines(quiet)
    lines.take_logging()
    return lines


def _pending(river: River, flow: Flow) -> PendingRun:
    """The run before it is there. What it needs is imported here: the command line is there before Spark is."""
    try:
        from riverrun.cli.pending_run import PendingRun
    except ImportError as error:
        raise not_installed("a flow", error, "spark") from None
    return PendingRun(river, flow)


def _begin(river: River, flow: Flow, rebuild: bool, alerts_from: Place | None = None) -> Run:
    """The run. It is begun in a thread of its own, and only waited for here: that is where a signal arrives, and not inside
    some library that would take no notice of it."""
    begun: futures.Future[Run] = futures.Future()

    def begin() -> None:
        try:
            begun.set_result(river.run(flow, rebuild=rebuild, alerts_from=alerts_from))
        except BaseException as error:
            begun.set_exception(error)

    threading.Thread(target=begin, name="riverrun-begin", daemon=True).start()
    # In steps: polars has the system restart a wait that SIGINT interrupts.
    while not begun.done():
        futures.wait([begun], timeout=0.2)
    return begun.result()


def _give_up_starting() -> None:
    """No JVM outlives a command that was stopped before Spark was there."""
    from riverrun.spark import jvm

    jvm.give_up()


def _follow_rebuild(running: Run, lines: RunLines) -> None:
    while (status := running.observe()).rebuild is not None and not running.wait(0.5):
        lines.show(status)


def _follow(running: Run, lines: RunLines, once: bool, drain: bool) -> None:
    _follow_rebuild(running, lines)
    lines.say(f"flow {running.name} runs")
    if once:
        running.process()
        running.stop()
    elif drain:
        running.drain()
    while not running.wait(0.5):
        lines.show(running.observe())
