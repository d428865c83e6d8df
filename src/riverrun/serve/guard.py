"""Who may ask: checked before anything else is looked at.

A page on another site can make a browser send requests here. It cannot choose their `Host` (so a name that was bent to
this address gets 421) and cannot hide their `Origin` (403). There are no cookies. Tokens, where there are any, decide
what may be done.
"""

from __future__ import annotations

import ipaddress
import logging
import socket
from collections.abc import Iterable
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from riverrun.serve.problems import Refused, answer_error, problem
from riverrun.serve.tokens import ADMIN, READ, WRITE, Tokens, extract_token

log = logging.getLogger("riverrun.serve")

_LOCAL = frozenset(("localhost", "127.0.0.1", "::1"))
_PUBLIC = frozenset(("/healthz", "/readyz"))
_SAFE = frozenset(("GET", "HEAD", "OPTIONS"))
HEADERS = {
    "content-security-policy": "default-src 'self'; base-uri 'none'; object-src 'none'; frame-ancestors 'none';"
    " form-action 'self'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
# A browser asks the person for it; programs send Bearer. In headers of their own: Chromium reads one of each.
_ASK = ('Basic realm="riverrun", charset="UTF-8"', 'Bearer realm="riverrun"')


class Guard:
    """The outermost layer. It answers in place of the app where a request is refused, or where the app fails."""

    def __init__(self, app: ASGIApp, host: str, hosts: Iterable[str], tokens: Tokens) -> None:
        self._app = app
        self._hosts = _LOCAL | {name.strip().lower() for name in (host, *hosts) if name.strip()}
        self._everywhere = host in ("0.0.0.0", "::", "")
        if self._everywhere:
            self._hosts |= {socket.gethostname().lower()}
        self._tokens = tokens

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun = False

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
            await send(message)

        try:
            self._check(scope)
        except Refused as error:
            await answer_error(error)(scope, receive, guarded)
            return
        try:
            await self._app(scope, receive, guarded)
        except Exception as error:
            log.error("%s %r failed: %s: %s", scope["method"], scope["path"], type(error).__name__, error)
            log.debug("", exc_info=True)
            if not begun:
                failed = problem(500, "the server failed at this", "Its log says why; this is a defect")
                await failed(scope, receive, guarded)

    def _check(self, scope: Scope) -> None:
        headers = Headers(scope=scope)
        method = scope["method"]
        given = headers.getlist("host")
        name = host_name(given[0]) if len(given) == 1 else None
        if name is None or not self._is_ours(name):
            raise Refused(
                421,
                "this server does not go by that name",
                hint="Ask for it by its address, or add the name to the setting http_hosts",
            )
        origin = headers.get("origin")
        foreign = origin is not None and not _same(origin, given[0])
        if foreign or (method not in _SAFE and headers.get("sec-fetch-site") in ("cross-site", "same-site")):
            raise Refused(403, "requests from pages of another site are refused")
        if self._tokens and scope["path"] not in _PUBLIC:
            roles = self._check_token(headers.get("authorization"), needed_role(method, scope["path"]))
            scope.setdefault("state", {})["roles"] = roles

    def _check_token(self, authorization: str | None, role: str) -> frozenset[str]:
        """The roles of the token, which has this one."""
        secret = extract_token(authorization) if authorization else None
        roles = self._tokens.roles(secret) if secret else None
        if roles is None:
            said = "a token is needed" if secret is None else "this token is not known"
            raise Refused(401, said, hint="Send it as Authorization: Bearer TOKEN")
        if role not in roles:
            raise Refused(403, f"this token does not have the role {role}")
        return roles

    def _is_ours(self, name: str) -> bool:
        if name in self._hosts:
            return True
        # An address that is written as one cannot have been bent.
        return self._everywhere and _is_address(name)


def needed_role(method: str, path: str) -> str:
    """The role that a request needs."""
    if method in _SAFE:
        return READ
    return WRITE if method == "POST" and path.startswith("/topics/") else ADMIN


def host_name(header: str) -> str | None:
    """The name in a Host header, without the port."""
    try:
        name = urlsplit(f"//{header}").hostname
    except ValueError:
        return None
    return name.rstrip(".") if name and "@" not in header and "/" not in header else None


def _same(origin: str, host: str) -> bool:
    scheme, found, rest = origin.partition("://")
    return bool(found) and scheme in ("http", "https") and rest.lower() == host.lower()


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
