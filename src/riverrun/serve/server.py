"""Sockets and threads around the app: in the foreground, or beside a run in the same process."""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import logging
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import uvicorn

from riverrun.errors import Invalid, PortInUse, Unavailable
from riverrun.river import River
from riverrun.serve.app import Pages, create_app
from riverrun.serve.backend import Running
from riverrun.serve.connections import Complaints, CountedConnection, connection_share
from riverrun.serve.pages.routes import dashboard
from riverrun.serve.tokens import Tokens

log = logging.getLogger("riverrun.serve")

DEFAULT_HOST, DEFAULT_PORT = "127.0.0.1", 8400
_PATIENCE = 2  # seconds for requests that are being answered when the server is stopped
_BACKLOG = 128  # connections that are accepted at once, before anybody can refuse them; each takes a file


class Server(uvicorn.Server):
    """Serves a river on one socket until `stop`. Streams end first, so that nobody waits for them."""

    def __init__(
        self,
        river: River,
        runs: Sequence[Running] = (),
        host: str = DEFAULT_HOST,
        port: int = DEFAULT_PORT,
        pages: Pages | None = dashboard,
    ) -> None:
        tokens = Tokens.load(river.settings)
        self._socket = bind(host, port, tokens)
        if not tokens and river.settings.http_hosts:
            log.warning(
                "the server goes by %s, and there are no tokens: everybody whom a proxy lets through may do everything",
                river.settings.http_hosts,
            )
        self._app = create_app(river, runs, host=host, tokens=tokens, pages=pages)
        config = uvicorn.Config(
            self._app,
            http=partial(CountedConnection, connection_share(river.settings.http_connections)),  # type: ignore[arg-type]
            log_config=None,
            log_level="critical",
            access_log=False,
            backlog=_BACKLOG,
            lifespan="on",
            ws="none",
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=_PATIENCE,
            timeout_keep_alive=30,
        )
        super().__init__(config)

    @property
    def url(self) -> str:
        """Where it is, for people and browsers."""
        host, port = self._socket.getsockname()[:2]
        if ipaddress.ip_address(host).is_unspecified:
            host = socket.gethostname()
        return f"http://{f'[{host}]' if ':' in host else host}:{port}"

    def serve_until_stopped(self) -> None:
        """Serve in this thread."""
        with self._socket:
            asyncio.run(self._serve_on_loop())
        if not self.started:
            raise Unavailable("the HTTP server could not be started")

    async def _serve_on_loop(self) -> None:
        asyncio.get_running_loop().set_exception_handler(Complaints())
        await self.serve(sockets=[self._socket])

    def stop(self) -> None:
        """Finish what is being answered, and return from `serve_until_stopped`; from any thread or signal handler."""
        self.should_exit = True

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals belong to the command that serves."""
        yield

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await self._app.state.backend.feeds.close()
        await super().shutdown(sockets)


class Background:
    """A server in a thread of its own."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.url = server.url
        self._thread = threading.Thread(target=server.serve_until_stopped, name="riverrun-serve", daemon=True)
        self._thread.start()

    def __enter__(self) -> Background:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop within seconds; before the river is closed."""
        self._server.stop()
        self._thread.join(_PATIENCE + 1)


def serve_in_background(
    river: River,
    run: Running | None = None,
    host: str = DEFAULT_HOST,
    port: int = DEFAULT_PORT,
    pages: Pages | None = dashboard,
) -> Background:
    """Serve a river, and a run of this process, beside what the caller does. Listens when this returns."""
    return Background(Server(river, [run] if run is not None else [], host, port, pages))


def bind(host: str, port: int, tokens: Tokens) -> socket.socket:
    """The socket to listen on. Beyond this machine only with tokens."""
    if not 0 <= port < 1 << 16:
        raise Invalid(f"not a port: {port}")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (socket.gaierror, UnicodeError, OverflowError):
        raise Invalid(f"not an address to listen on: {host!r}, port {port}") from None
    if not tokens and not ipaddress.ip_address(str(address[0]).partition("%")[0]).is_loopback:
        raise Invalid(
            f"{host} can be reached from other machines, and there are no tokens",
            hint="Set RIVERRUN_TOKENS_FILE (see docs/http.md), or listen on 127.0.0.1",
        )
    listening = socket.socket(family, kind, protocol)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(_BACKLOG)
    except OSError as error:
        listening.close()
        if error.errno == errno.EADDRINUSE:
            raise PortInUse(f"port {port} of {host} is in use", hint="Give another one with --port") from None
        raise Invalid(f"cannot listen on {host}, port {port}: {error.strerror}") from None
    return listening
