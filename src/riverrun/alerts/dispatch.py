"""Who carries a message: webhooks by our own hand, everything else through apprise."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence

from riverrun.alerts import courier, webhook
from riverrun.alerts.address import Address
from riverrun.alerts.message import AlertMessage
from riverrun.errors import Invalid, Unavailable


def deliver(address: Address, message: AlertMessage, timeout: float, private: bool) -> None:
    """Hand a message over, or raise Undelivered."""
    carry = webhook.post if address.scheme in webhook.SCHEMES else courier.send
    carry(address, message, timeout, private)


def check(addresses: Sequence[Address]) -> None:
    """Raises when one of the addresses can never be reached: it cannot be read, or a package is missing."""
    for address in addresses:
        if address.scheme in webhook.SCHEMES:
            webhook.parse(address)
    others = [address for address in addresses if address.scheme not in webhook.SCHEMES]
    if others and importlib.util.find_spec("apprise") is None:
        raise Unavailable(
            f"alerts to {others[0]} need a package that is not installed (apprise)",
            hint="Install it: pip install 'riverrun[alerts]'",
        )
    wrong = courier.unknown(others)
    if wrong:
        raise Invalid(
            f"apprise cannot read the address {wrong[0]}",
            hint="Its pages say how each service is written; a webhook is jsons://host/path",
        )
