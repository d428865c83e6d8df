"""`riverrun demo`: a web shop that happens in front of you; `riverrun demo break` kills its processing."""

from __future__ import annotations

import os
import shlex
import sys
import tempfile
import time
from contextlib import ExitStack
from typing import Annotated

import typer

from riverrun.cli.options import JsonOption
from riverrun.cli.output import console, print_json, print_line
from riverrun.durations import micros
from riverrun.errors import Invalid, not_installed

app = typer.Typer(rich_markup_mode=None)

_BACK = 180.0  # seconds that a new process may take until it runs, on a busy machine


@app.callback(invoke_without_command=True)
def demo(
    context: typer.Context,
    for_: Annotated[
        str | None,
        typer.Option("--for", metavar="DURATION", help="End by itself so long after the first numbers. Else: Ctrl-C."),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="Serve HTTP there: 8400, unless that is taken. 0: any that is free."),
    ] = None,
    rate: Annotated[float, typer.Option(min=1, max=100_000, help="About how many events in a second.")] = 300,
    seed: Annotated[int, typer.Option(min=0, help="Other events.")] = 1,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Do not open the page in a browser.")] = False,
    log: Annotated[bool, typer.Option("--log", help="The tour of the log instead: 25 seconds, no Spark.")] = False,
    river: Annotated[
        str | None,
        typer.Option(
            "--river", metavar="DIR", help="Keep the river there (a new directory); else it is removed at the end."
        ),
    ] = None,
    json: JsonOption = False,
) -> None:
    """A web shop at work: events, a flow on Spark with windows and joins, views, all of it served over HTTP.

    Press b, or the button of its page, to kill the processing, and see that nothing is lost; q or Ctrl-C to end. At the
    end it is checked that every event was counted once; the exit code is 1 if not. With --json a summary is printed
    then.
    """
    if context.invoked_subcommand is not None:
        return
    if river and os.path.exists(river) and os.listdir(river):
        raise Invalid(f"{river} is not empty", hint="The demo wants a new directory")
    if log:
        _tour("25 seconds" if for_ is None else for_, river, json)
        return
    try:
        _shop(for_, port, rate, seed, no_browser, river, json)
    except ImportError as error:
        raise not_installed("the demo", error, "spark,serve", "or see: riverrun demo --log") from None


@app.command("break")
def break_it(
    river: Annotated[
        str | None,
        typer.Option("--river", metavar="DIR", help="The demo's river. Else: the newest demo that keeps none."),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Kill the processing of a running demo (SIGKILL), and wait until it is back. The demo says what became of it."""
    from riverrun.demo.shop import notice

    where = notice.find_running(river)
    begun = time.monotonic()
    said = notice.ask_for_a_break(where)
    if not json:
        print_line("the processing was killed; events are accepted as before")
        sys.stdout.flush()
    notice.await_notice(where, lambda now: now.get("down") is False, _BACK)
    seconds = round(time.monotonic() - begun, 1)
    if json:
        print_json({"kills": said["kills"], "seconds": seconds, "river": where, "url": said["url"]})
    else:
        print_line(f"it is back after {seconds} s")


def _tour(for_: str, river: str | None, json: bool) -> None:
    from riverrun.demo.tour import show

    screen = console(stderr=json)
    findings = show.play(for_, river, screen)
    if json:
        print_json(show.summarize(findings))
    else:
        show.print_summary(screen, findings, river)
    if not all(finding.held for finding in findings):
        raise typer.Exit(1)


def _shop(
    for_: str | None, port: int | None, rate: float, seed: int, no_browser: bool, river: str | None, json: bool
) -> None:
    begun = time.time()
    from riverrun.demo.shop import notice
    from riverrun.demo.shop.display import Display
    from riverrun.demo.shop.keyboard import keyboard
    from riverrun.demo.shop.performance import Performance
    from riverrun.river import River

    seconds = None if for_ is None else micros(for_) / 1e6
    with ExitStack() as stack:
        where = river
        if where is None:
            passing = tempfile.TemporaryDirectory(prefix=notice.PREFIX, ignore_cleanup_errors=True)
            where = os.path.join(stack.enter_context(passing), "river")
        opened = stack.enter_context(River(where))
        display = stack.enter_context(Display(console(stderr=json)))
        keys = stack.enter_context(keyboard(wanted=not json))
        performance = Performance(opened, display, keys, begun)
        performance.play(stack, seconds, rate, seed, port, browser=not no_browser)
        summary = performance.summary()
        if river:
            display.say(f"The river is in {river}. Try: riverrun view list --river {shlex.quote(river)}")
    if json:
        print_json({**summary, "river": os.path.abspath(river) if river else None})
    if not summary["ok"]:
        raise typer.Exit(1)
