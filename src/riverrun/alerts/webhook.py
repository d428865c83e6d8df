"""json:// and jsons://: one POST of a message as JSON, to a public machine, without redirects.

In the address, `+Name=value` is a header, `-name=value` a parameter of the request, `method=` another method than POST;
user and password become basic authentication.
"""

from __future__ import annotations

import base64
import http.client
import re
import socket
import ssl
import threading
from dataclasses import dataclass
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from riverrun.alerts.address import Address
from riverrun.alerts.message import AlertMessage
from riverrun.alerts.network_guard import connect
from riverrun.alerts.retry import Undelivered
from riverrun.errors import Invalid

SCHEMES = ("json", "jsons")
_METHODS = ("POST", "PUT", "PATCH")
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+:[\t\x20-\x7e\xa0-\xff]*")


@dataclass(frozen=True)
class Hook:
    """What an address says about the request."""

    secure: bool
    host: str
    port: int
    target: str
    method: str
    headers: dict[str, str]


def parse(address: Address) -> Hook:
    """The request that an address describes."""
    try:
        # A plus sign is part of an option's name here, not a blank.
        url = urlsplit(address.url)
        options = parse_qsl(url.query.replace("+", "%2B"), keep_blank_values=True)
        host, port = url.hostname, url.port
    except ValueError:
        host, port, options = None, None, []
    if not host:
        raise Invalid(f"{address} is not the address of a webhook", hint='Write "jsons://host/path"')
    secure = address.scheme == "jsons"
    headers, parameters, method = {}, [], "POST"
    for name, value in options:
        if name.startswith("+") and not _HEADER.fullmatch(f"{name[1:]}:{value}"):
            raise Invalid(f"{address} has a header with characters that HTTP does not allow")
        if name.startswith("+"):
            headers[name[1:]] = value
        elif name.startswith("-"):
            parameters.append((name[1:], value))
        elif name == "method" and value.upper() in _METHODS:
            method = value.upper()
        else:
            raise Invalid(
                f"{address} has an option {name!r} that webhooks do not have",
                hint=f"There are +Header=…, -parameter=… and method={'|'.join(_METHODS)}",
            )
    if url.username is not None:
        who = f"{unquote(url.username)}:{unquote(url.password or '')}".encode()
        headers["Authorization"] = f"Basic {base64.b64encode(who).decode()}"
    target = quote(unquote(url.path) or "/", safe="/:@!$&'()*+,;=~-._") + (
        f"?{urlencode(parameters)}" if parameters else ""
    )
    return Hook(secure, host, port or (443 if secure else 80), target, method, headers)


def post(address: Address, message: AlertMessage, timeout: float, private: bool) -> None:
    """Hand a message over. Raises Undelivered unless the answer is 2xx and comes within the time."""
    hook = parse(address)
    call = _Call(connect(hook.host, hook.port, timeout, private))
    deadline = threading.Timer(timeout, call.cut)
    deadline.daemon = True
    deadline.start()
    try:
        status = call.exchange(hook, message)
    except (OSError, http.client.HTTPException) as error:
        if call.is_cut or isinstance(error, TimeoutError):
            raise Undelivered(f"no answer within {timeout:g} s") from None
        raise Undelivered(f"no answer ({type(error).__name__}: {error})") from None
    except ValueError as error:  # its text would be a part of the request
        raise Undelivered(f"the request cannot be written ({type(error).__name__})", final=True) from None
    finally:
        deadline.cancel()
        call.sock.close()
    if 300 <= status < 400:
        raise Undelivered(f"the answer was {status}, and redirects are not followed")
    if not 200 <= status < 300:
        raise Undelivered(f"the answer was {status}")


class _Call:
    """A request that can be cut off: the timeout of a socket begins anew with every byte, a deadline does not."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.is_cut = False

    def cut(self) -> None:
        self.is_cut = True
        try:
            socket.socket.shutdown(self.sock, socket.SHUT_RDWR)
        except OSError:
            pass  # it is closed already

    def exchange(self, hook: Hook, message: AlertMessage) -> int:
        """Send the request; the status of the answer, of which nothing else is read."""
        if hook.secure:
            # The name is what the certificate must have, whatever address it was found at.
            context = ssl.create_default_context()
            secure = context.wrap_socket(self.sock, server_hostname=hook.host, do_handshake_on_connect=False)
            self.sock = secure
            secure.do_handshake()
        kind = http.client.HTTPSConnection if hook.secure else http.client.HTTPConnection
        connection = kind(hook.host, hook.port)
        connection.sock = self.sock
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "riverrun",
            "Connection": "close",
            **hook.headers,
            "Idempotency-Key": message.key,
        }
        try:
            connection.request(hook.method, hook.target, message.body(), headers)
            return connection.getresponse().status
        finally:
            connection.close()
