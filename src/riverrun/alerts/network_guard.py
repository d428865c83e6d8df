"""Which machines a webhook may reach: public ones. Checked on the address that is connected to, so that a name which
resolves differently a moment later changes nothing.
"""

from __future__ import annotations

import ipaddress
import socket
import threading
import time
from collections.abc import Collection

from riverrun.alerts.address import Address
from riverrun.alerts.retry import Undelivered
from riverrun.errors import Invalid

_PRIVATE = "this machine, a private network or a cloud's metadata"
_LOOKUP = 2.0  # seconds for looking up names when a run starts

_NOT_PUBLIC = tuple(
    ipaddress.ip_network(network)
    for network in (
        "168.63.129.16/32",  # metadata of a cloud, at an address that looks public
        "192.0.0.0/24",  # metadata of another one
        "192.88.99.0/24",  # relays of 6to4
        "3fff::/20",  # for documentation
    )
)
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_LOCAL_NAT64 = ipaddress.ip_network("64:ff9b:1::/48")
_ISATAP = (0x0000_5EFE, 0x0200_5EFE)  # before the last 32 bits, which are an IPv4 address


def is_public(address: str) -> bool:
    """Whether an IP address belongs to the internet at large, and not to this machine or the network it is in."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address):
        inner = _inside(ip)
        if inner is not None:
            return is_public(str(inner))
        if int(ip) >> 32 & 0xFFFFFFFF in _ISATAP and not is_public(str(_last_four_bytes(ip))):
            return False
        if ip in _LOCAL_NAT64 or ip.is_site_local:
            return False
    if any(ip in network for network in _NOT_PUBLIC if network.version == ip.version):
        return False
    return ip.is_global and not ip.is_multicast and not ip.is_reserved


def refusal(address: str) -> Undelivered:
    """Why an address was not connected to."""
    return Undelivered(
        f"the address leads to {address}, which is {_PRIVATE}; the setting alert_private_addresses allows it",
        final=True,
    )


def find_private(hosts: Collection[str]) -> dict[str, str]:
    """Of the hosts, those that lead to an address which is not public, with that address. A host that nobody knows now is
    none of them: when something is sent there, it is looked at again."""
    found: dict[str, str] = {}

    def look(host: str) -> None:
        try:
            addresses = [
                str(where[0]) for *_, where in socket.getaddrinfo(host.strip("[]"), None, type=socket.SOCK_STREAM)
            ]
        except (OSError, UnicodeError):
            return
        for address in addresses:
            if not is_public(address):
                found[host] = address

    looking = [threading.Thread(target=look, args=(host,), daemon=True) for host in hosts]
    for thread in looking:
        thread.start()
    deadline = time.monotonic() + _LOOKUP
    for thread in looking:
        thread.join(max(0.0, deadline - time.monotonic()))
    return dict(found)


def refuse_private(address: Address, leads_to: str) -> Invalid:
    """Why an alert's address is refused before anything is sent."""
    return Invalid(
        f"alerts cannot be sent to {address}: it leads to {leads_to}, which is {_PRIVATE}",
        hint="Where that is intended, allow it with RIVERRUN_ALERT_PRIVATE_ADDRESSES=true (the setting"
        " alert_private_addresses)",
    )


def connect(host: str, port: int, timeout: float, private: bool) -> socket.socket:
    """A connection to a host, of whose addresses none may be private unless that is allowed."""
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise Undelivered(f"the host is not known ({error})") from None
    for *_, where in addresses:
        if not private and not is_public(str(where[0])):
            raise refusal(str(where[0]))
    trouble: OSError | None = None
    for family, kind, protocol, _, where in addresses:
        connection = socket.socket(family, kind, protocol)
        try:
            connection.settimeout(timeout)
            connection.connect(where)
            return connection
        except OSError as error:
            connection.close()
            trouble = error
    raise Undelivered(f"no connection ({trouble})")


def _inside(ip: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    """The IPv4 address that an IPv6 address stands for, in any of the ways there are."""
    if ip.ipv4_mapped is not None:
        return ip.ipv4_mapped
    if ip.sixtofour is not None:
        return ip.sixtofour
    if ip.teredo is not None:
        return ip.teredo[1]
    if ip in _NAT64 or ip in ipaddress.ip_network("::/96"):
        return _last_four_bytes(ip)
    return None


def _last_four_bytes(ip: ipaddress.IPv6Address) -> ipaddress.IPv4Address:
    return ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
