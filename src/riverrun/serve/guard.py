"""Who may ask: checked before anything else is looked at.

A page on another site can make a browser send requests here. It cannot choose their `Host` (so a name that was bent to
this address gets 421), and cannot hide the `Origin` of what it posts or reads (403). What it only fetches, as an image
or without looking at the answer, the browser marks (`Sec-Fetch-Site`); all it can do is lead somebody to a page by a
link, and pages run nothing that was not posted. There are no cookies. Tokens, where there are any, decide what may be
done.
"""

from __future__ import annotations

import ipaddress
import logging
import socket
from collections.abc import Iterable
from time import monotonic
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from riverrun.serve.caller import Caller, note_caller
from riverrun.serve.problems import Refused, answer_error, problem
from riverrun.serve.rate_limit import RateLimit
from riverrun.serve.tokens import ADMIN, READ, ROLES, WRITE, Token, Tokens, extract_token

log = logging.getLogger("riverrun.serve")

_LOCAL = frozenset(("localhost", "127.0.0.1", "::1"))
_PUBLIC = frozenset(("/healthz", "/readyz"))
_SAFE = frozenset(("GET", "HEAD", "OPTIONS"))
_ELSEWHERE = frozenset(("cross-site", "same-site"))
QUERIES = "/ui/views"  # where read-only SQL is posted
HEADERS = {
    "content-security-policy": "default-src 'self'; base-uri 'none'; object-src 'none'; frame-ancestors 'none';"
    " form-action 'self'",
    "x-content-type-options": "nosniff",
    # Without a referrer a browser would not say either that a form is ours.
    "referrer-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}
# A browser asks the person for it; programs send Bearer. In headers of their own: Chromium reads one of each.
_ASK = ('Basic realm="riverrun", charset="UTF-8"', 'Bearer realm="riverrun"')


class Withdrawn(Exception):
    """The token of a stream that is being sent was removed."""


class Guard:
    """The outermost layer. It answers in place of the app where a request is refused, or where the app fails."""

    def __init__(self, app: ASGIApp, host: str, hosts: Iterable[str], tokens: Tokens, rate: int) -> None:
        self._app = app
        self._hosts = _LOCAL | {name.strip().lower() for name in (host, *hosts) if name.strip()}
        self._everywhere = host in ("0.0.0.0", "::", "")
        if self._everywhere:
            self._hosts |= {socket.gethostname().lower()}
        self._tokens = tokens
        self._rates = RateLimit(rate)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun = False
        token: Token | None = None

        async def guarded(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                if message["status"] == 401:
                    for challenge in _ASK:
                        headers.append("www-authenticate", challenge)
            elif token is not None and message.get("more_body") and not self._tokens.still_has(token):
                raise Withdrawn
            await send(message)

        try:
            token = self._admit(scope)
        except Refused as error:
            await answer_error(error)(scope, receive, guarded)
            return
        try:
            await self._app(scope, receive, guarded)
        except Withdrawn:
            log.info("a stream ends: the token %s was removed", token.name if token else "")
        except Exception as error:
            log.error("%s %r failed: %s: %s", scope["method"], scope["path"], type(error).__name__, error)
            log.debug("", exc_info=True)
            if not begun:
                failed = problem(500, "the server failed at this", "Its log says why; this is a defect")
                await failed(scope, receive, guarded)

    def _admit(self, scope: Scope) -> Token | None:
        """Let the app know who asks; `Refused` when they may not. Gives their token."""
        headers = Headers(scope=scope)
        given = headers.getlist("host")
        name = host_name(given[0]) if len(given) == 1 else None
        if name is None or not self._is_ours(name):
            raise Refused(
                421,
                "this server does not go by that name",
                hint="Ask for it by its address, or add the name to the setting http_hosts",
            )
        if _is_foreign(headers, given[0], scope["method"]):
            raise Refused(403, "requests from pages of another site are refused")
        peer = (scope.get("client") or ("", 0))[0]
        if not self._tokens:
            note_caller(scope, Caller("", ROLES, peer))
            return None
        token = self._recognise(headers.get("authorization"), scope)
        note_caller(scope, Caller(token.name, token.roles, peer) if token else Caller("", (), peer))
        return token

    def _recognise(self, authorization: str | None, scope: Scope) -> Token | None:
        """The token, if it allows what is asked; None where everybody may ask and none was sent that is known."""
        secret = extract_token(authorization) if authorization else None
        token = self._tokens.find(secret) if secret else None
        if scope["path"] in _PUBLIC:
            return token
        if token is None:
            said = "a token is needed" if secret is None else "this token is not known"
            raise Refused(401, said, hint="Send it as Authorization: Bearer TOKEN")
        role = needed_role(scope["method"], scope["path"])
        if role not in token.roles:
            raise Refused(403, f"this token does not have the role {role}")
        self._rates.take(token.name, monotonic())
        return token

    def _is_ours(self, name: str) -> bool:
        if name in self._hosts:
            return True
        # An address that is written as one cannot have been bent.
        return self._everywhere and _is_address(name)


def needed_role(method: str, path: str) -> str:
    """The role that a request needs."""
    if method in _SAFE or (method == "POST" and path == QUERIES):
        return READ
    return WRITE if method == "POST" and path.startswith("/topics/") else ADMIN


def host_name(header: str) -> str | None:
    """The name in a Host header, without the port."""
    try:
        name = urlsplit(f"//{header}").hostname
    except ValueError:
        return None
    return name.rstrip(".") if name and "@" not in header and "/" not in header else None


def _is_foreign(headers: Headers, host: str, method: str) -> bool:
    """Whether a page of another site asks. A link that was clicked may: it shows a page, and nothing else comes of it."""
    origin = headers.get("origin")
    if origin is not None and not _same(origin, host):
        return True
    if headers.get("sec-fetch-site") not in _ELSEWHERE:
        return False
    went = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
    return method not in _SAFE or not went


def _same(origin: str, host: str) -> bool:
    scheme, found, rest = origin.partition("://")
    return bool(found) and scheme in ("http", "https") and rest.lower() == host.lower()


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
