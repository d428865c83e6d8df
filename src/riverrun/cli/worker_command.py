"""`riverrun worker MODULE:FUNCTION`: a queue worked off by a function, until it is stopped."""

from __future__ import annotations

import importlib
import logging
import os
import sys
import time
from collections.abc import Callable
from typing import Annotated, Any

import typer

from riverrun import figures
from riverrun.cli.interruption import Interrupted, interruptible
from riverrun.cli.options import DEFAULT_RIVER, JsonOption, RiverOption, open_river
from riverrun.cli.output import note, print_json, print_line
from riverrun.errors import Invalid, NotFound, did_you_mean

_EVERY = 5.0  # seconds between two lines


def worker(
    function: Annotated[
        str,
        typer.Argument(
            metavar="MODULE:FUNCTION",
            help="Called with each message (.row, .key, .attempt, .extend()).",
            show_default=False,
        ),
    ],
    topic: Annotated[str, typer.Option("--topic", metavar="NAME", help="The topic.", show_default=False)],
    group: Annotated[
        str,
        typer.Option("--group", metavar="NAME", help="The queue's group; workers of one share it.", show_default=False),
    ],
    threads: Annotated[int, typer.Option(min=1, help="Messages worked on at once.")] = 1,
    attempts: Annotated[int, typer.Option(min=1, help="After so many a message is a dead letter.")] = 5,
    backoff: Annotated[
        str, typer.Option(metavar="DURATION", help="Pause after the first failure; it doubles each time …")
    ] = "1 second",
    longest: Annotated[str, typer.Option(metavar="DURATION", help="… up to this.")] = "5 minutes",
    rate: Annotated[float | None, typer.Option(metavar="N", help="At most so many messages in a second.")] = None,
    lease: Annotated[
        str, typer.Option(metavar="DURATION", help="How soon a message comes again whose worker is lost.")
    ] = "30 seconds",
    patience: Annotated[
        float, typer.Option(metavar="SECONDS", min=0, help="For messages being worked on when it is stopped.")
    ] = 7.0,
    once: Annotated[bool, typer.Option("--once", help="Work off what is there, then stop.")] = False,
    json: JsonOption = False,
    river: RiverOption = DEFAULT_RIVER,
) -> None:
    """Give each message of a topic to a function, until Ctrl-C or SIGTERM. What returns is done; what raises comes again.

    Delivery is at least once. A message that failed --attempts times goes to the topic "TOPIC.dead.GROUP" with the
    reason; `riverrun dead resend` sends those again. Start it as often as you like: workers of a group share its
    messages. When it is stopped, it takes nothing new, and messages being worked on are finished; those that take longer
    than --patience are given back. A second signal ends it at once.
    """
    from riverrun.log.worker import QueueWorker

    with interruptible(), open_river(river) as opened:
        counts, failure = None, None
        try:
            handle = load_function(function)
            _show_warnings()
            with opened.topic(topic).queue(group, lease=lease, attempts=attempts) as queue:
                work = QueueWorker(
                    queue,
                    handle,
                    threads=threads,
                    backoff=backoff,
                    longest=longest,
                    rate=rate,
                    until_empty=once,
                )
                counts = work.counts
                try:
                    if not json:
                        print_line(f"{function} works off {topic} for group {group} (Ctrl-C ends it)")
                        sys.stdout.flush()
                    _follow(work, quiet=json)
                except Interrupted as stopped:
                    note(f"{stopped}: finishing what is being worked on")
                    if not work.stop(patience):
                        note("what took too long is given back")
                    if once:
                        raise typer.Exit(1) from None
                failure = work.failure
        except Interrupted as stopped:
            note(f"{stopped}: stopped before it started")
    if json and counts is not None:
        print_json({"done": counts.done, "failed": counts.failed, "dead": counts.dead})
    elif counts is not None:
        print_line(_line(counts))
    if failure is not None:  # it was told when it happened
        raise typer.Exit(1)


def load_function(text: str) -> Callable[..., Any]:
    """What MODULE:FUNCTION names; modules are looked for in this directory, too."""
    module, found, name = text.partition(":")
    if not found or not module or not name:
        raise Invalid(
            f"not a function: {text!r}", hint="Write MODULE:FUNCTION, as in mails:send for send() in mails.py"
        )
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        loaded = importlib.import_module(module.removesuffix(".py"))
    except ModuleNotFoundError as error:
        raise NotFound(f"{text}: {error}", hint=f"It is looked for in {os.getcwd()} and in {sys.executable}") from None
    except Exception as error:
        raise Invalid(f"{text}: {module} cannot be loaded: {type(error).__name__}: {error}") from error
    function = getattr(loaded, name, None)
    if not callable(function):
        functions = [known for known, value in vars(loaded).items() if callable(value) and not known.startswith("_")]
        raise NotFound(f"{module} has no function {name!r}", hint=did_you_mean(name, functions))
    return function  # type: ignore[no-any-return]


def _follow(work: Any, quiet: bool) -> None:
    last, due = _line(work.counts), time.monotonic() + _EVERY
    while not work.wait(0.2):  # in steps: some libraries have the system restart a wait that a signal interrupts
        now = _line(work.counts)
        if now != last and not quiet and time.monotonic() >= due:
            last, due = now, time.monotonic() + _EVERY
            print_line(now)
            sys.stdout.flush()


def _line(counts: Any) -> str:
    failed = f", {figures.count(counts.failed)} failed" if counts.failed else ""
    dead = f", {figures.count(counts.dead)} became dead letters" if counts.dead else ""
    return f"{figures.plural(counts.done, 'message')} done{failed}{dead}"


class _Warnings(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        note(record.getMessage())


def _show_warnings() -> None:
    logger = logging.getLogger("riverrun")
    logger.addHandler(_Warnings(logging.WARNING))
    logger.propagate = False
