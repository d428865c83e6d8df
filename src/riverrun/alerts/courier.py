"""Who carries a message: webhooks are posted from here, everything else goes through apprise.

That runs in a process of its own, `python -m riverrun.alerts.courier`, where it can be ended when a service does not
answer, its network can be watched, and what it logs is seen by nobody. The order comes through stdin, so that no address
is in the list of processes; the outcome goes to stdout.
"""

from __future__ import annotations

import importlib.util
import json
import logging
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from riverrun.alerts import webhook
from riverrun.alerts.address import Address
from riverrun.alerts.message import AlertMessage
from riverrun.alerts.network_guard import find_private, is_public, refusal, refuse_private
from riverrun.alerts.retry import Undelivered
from riverrun.errors import Invalid, not_installed

_STARTING = 20  # seconds that apprise may take before it sends anything; it is large
_MAIL = ("mailto", "mailtos")  # a mail server is no webhook, and is often in the same network
_WITH_HEADERS = ("xml", "xmls", "form", "forms")
_PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


def deliver(address: Address, message: AlertMessage, timeout: float, private: bool) -> None:
    """Hand a message over, or raise Undelivered."""
    carry = webhook.post if address.scheme in webhook.SCHEMES else send
    carry(address, message, timeout, private)


def check_addresses(addresses: Sequence[Address], private: bool) -> None:
    """Raises when one of the addresses can never be reached: it cannot be read, a package is missing, or it leads to a
    machine that is not public and `private` does not allow that."""
    for address in addresses:
        if address.scheme in webhook.SCHEMES:
            webhook.parse(address)
    others = [address for address in addresses if address.scheme not in webhook.SCHEMES]
    if others and importlib.util.find_spec("apprise") is None:
        raise not_installed(f"an alert to {others[0]}", "apprise", "alerts")
    unreadable = _find_unreadable(others)
    if unreadable:
        raise Invalid(
            f"apprise cannot read the address {unreadable[0]}",
            hint="Its pages say how each service is written; a webhook is jsons://host/path",
        )
    if not private:
        hosts = {address: address.host for address in addresses if address.host and address.scheme not in _MAIL}
        leads_to = find_private(set(hosts.values()))
        for address, host in hosts.items():
            if host in leads_to:
                raise refuse_private(address, leads_to[host])


def send(address: Address, message: AlertMessage, timeout: float, private: bool) -> None:
    """Hand a message over through apprise. Raises Undelivered unless it says that the service took it."""
    order = {
        "do": "send",
        "url": address.url,
        "title": message.title,
        "body": message.text,
        "key": message.key,
        "private": private,
        "timeout": timeout,
    }
    answer = _ask(order, timeout, private)
    if answer["error"] is not None:
        raise Undelivered(address.scrub(answer["error"]), final=answer["final"])


def _find_unreadable(addresses: Sequence[Address]) -> list[Address]:
    if not addresses:
        return []
    answer = _ask({"do": "check", "urls": [address.url for address in addresses]}, 60, private=False)
    return [address for address, readable in zip(addresses, answer["readable"], strict=True) if not readable]


def _ask(order: dict[str, Any], timeout: float, private: bool) -> dict[str, Any]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)}
    if not private:  # what goes through a proxy cannot be checked
        environment = {name: value for name, value in environment.items() if name.lower() not in _PROXIES}
    try:
        done = subprocess.run(
            [sys.executable, "-m", "riverrun.alerts.courier"],
            input=json.dumps(order).encode(),
            capture_output=True,
            timeout=timeout + _STARTING,
            env=environment,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise Undelivered(f"no answer within {timeout:g} s") from None
    try:
        return dict(json.loads(done.stdout.splitlines()[-1]))
    except (ValueError, IndexError):
        raise Undelivered(f"the process that sends ended without a word (exit code {done.returncode})") from None


class _Fence:
    """Refuses connections to machines that are not public. An audit hook: it sees what is really connected to."""

    def __init__(self) -> None:
        self.refused: Undelivered | None = None

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event not in ("socket.connect", "socket.sendto"):
            return
        where = arguments[1]
        if not isinstance(where, tuple):  # a socket of the file system: no network
            return
        try:
            public = is_public(str(where[0]))
        except ValueError:
            public = False  # a name, which would be resolved where nobody looks
        if not public:
            self.refused = refusal(str(where[0]))
            raise OSError(self.refused.message)


class _Ear(logging.Handler):
    """Keeps the last complaint; apprise has no other way to say why."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.heard: str | None = None

    def emit(self, record: logging.LogRecord) -> None:
        self.heard = record.getMessage()


def _carry_out(order: dict[str, Any]) -> dict[str, Any]:
    apprise, sessions = _libraries()
    asset = apprise.AppriseAsset(http_redirects=False, async_mode=False)
    if order["do"] == "check":
        logging.getLogger("apprise").addHandler(logging.NullHandler())
        return {"readable": [apprise.Apprise.instantiate(url, asset=asset) is not None for url in order["urls"]]}
    sessions.SessionRedirectMixin.get_redirect_target = lambda *_: None  # whatever an address asks for
    address = Address(order["url"])
    fence, ear = _Fence(), _Ear()
    if not order["private"] and address.scheme not in _MAIL:
        sys.addaudithook(fence)
    logging.getLogger("apprise").addHandler(ear)
    url, body = address.url, order["body"]
    if address.scheme in _WITH_HEADERS:
        url += f"{'&' if '?' in url else '?'}+Idempotency-Key={quote(order['key'])}"
    else:
        body += f"\n\n({order['key']})"
    service = apprise.Apprise.instantiate(url, asset=asset)
    if service is None:
        return {"error": "apprise cannot read the address", "final": True}
    service.socket_connect_timeout = service.socket_read_timeout = order["timeout"]
    everybody = apprise.Apprise(asset=asset)
    everybody.add(service)
    if everybody.notify(body=body, title=order["title"], notify_type="warning", body_format="text"):
        return {"error": None, "final": False}
    if fence.refused is not None:
        return {"error": fence.refused.message, "final": True}
    return {"error": ear.heard or "the service did not take it", "final": False}


def _libraries() -> tuple[Any, Any]:
    return importlib.import_module("apprise"), importlib.import_module("requests.sessions")


if __name__ == "__main__":
    print(json.dumps(_carry_out(json.loads(sys.stdin.buffer.read()))))  # noqa: T201
