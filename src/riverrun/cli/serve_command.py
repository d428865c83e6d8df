"""`riverrun serve`: a river over HTTP, until it is stopped; and the same beside `riverrun run`."""

from __future__ import annotations

import os
import signal
import sys
import tomllib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from riverrun.cli.options import CONFIG, DEFAULT_RIVER, JsonOption, RiverOption, open_river
from riverrun.cli.output import note, print_json, print_line
from riverrun.ending import EndingSignals
from riverrun.errors import PortInUse, not_installed

if TYPE_CHECKING:
    from riverrun.river import River
    from riverrun.serve.backend import Running
    from riverrun.serve.server import Server

DEFAULT_HOST, DEFAULT_PORT = "127.0.0.1", 8400

HostOption = Annotated[
    str, typer.Option(metavar="ADDRESS", help="Listen there. Other machines are let in only with tokens.")
]


def serve(
    host: HostOption = DEFAULT_HOST,
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any that is free.")] = DEFAULT_PORT,
    json: JsonOption = False,
    river: RiverOption = DEFAULT_RIVER,
) -> None:
    """Serve the river over HTTP until Ctrl-C or SIGTERM: events in, views and their changes out, metrics.

    With --json the address is printed as a document when it listens.
    """
    with open_river(river) as opened:
        try:
            from riverrun.serve.server import Server
        except ImportError as error:
            raise not_installed("HTTP", error, "serve") from None
        _note_unread_tokens()
        server = Server(opened, host=host, port=port)
        if json:
            print_json({"url": server.url, "river": opened.path})
        else:
            print_line(f"{opened.path} is served at {server.url} (Ctrl-C ends it)")
        sys.stdout.flush()
        with _stopped_by_signals(server):
            server.serve_until_stopped()


def serve_beside(
    stack: ExitStack, river: River, run: Running, host: str, port: int | None, say: Callable[[str], None]
) -> None:
    """Serve the river in the background until the stack is left: on the usual port, or where that is taken on another
    one. A run goes on without, where a package is missing and nobody asked for a port."""
    try:
        from riverrun.serve.server import serve_in_background
    except ImportError as error:
        if port is not None:
            raise not_installed("HTTP", error, "serve") from None
        note(f"not served: {not_installed('HTTP', error, 'serve')}")
        return
    _note_unread_tokens()
    try:
        served = serve_in_background(river, run, host, DEFAULT_PORT if port is None else port)
    except PortInUse as error:
        if port is not None:
            raise
        say(f"{error.message}; another one is used (--port chooses one)")
        served = serve_in_background(river, run, host, 0)
    stack.enter_context(served)
    say(f"served at {served.url}")


def _note_unread_tokens() -> None:
    """Settings in a file are for programs; who wrote tokens into one may think that they protect this server."""
    try:
        with open(CONFIG, "rb") as file:
            said = tomllib.load(file)
    except (OSError, tomllib.TOMLDecodeError):
        return
    for name in ("tokens_file", "tokens"):
        variable = f"RIVERRUN_{name.upper()}"
        if name in said and not os.environ.get(variable):
            note(f"{CONFIG} has {name}, but commands take only places and captures from that file: set {variable}")


@contextmanager
def _stopped_by_signals(server: Server) -> Iterator[None]:
    """The first signal stops the server in order, the second ends the process where it stands."""

    def first(number: int, frame: FrameType | None) -> None:
        server.stop()
        for each in before:
            signal.signal(each, lambda number, _: os._exit(128 + number))
        asking.came(number)

    asking = EndingSignals()
    before = {number: signal.signal(number, first) for number in asking.numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
