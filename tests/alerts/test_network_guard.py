"""Which machines a webhook may reach."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from riverrun.alerts import network_guard
from riverrun.alerts.network_guard import connect, is_public
from riverrun.alerts.retry import Undelivered


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "127.9.9.9",
        "0.0.0.0",
        "10.1.2.3",
        "172.16.0.1",
        "192.168.1.1",
        "100.64.0.1",
        "100.100.100.200",
        "169.254.169.254",
        "168.63.129.16",
        "192.0.0.192",
        "192.0.2.1",
        "198.18.0.1",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "fe80::1",
        "fe80::1%eth0",
        "fc00::1",
        "fd00:ec2::254",
        "fec0::1",
        "ff02::1",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
        "::127.0.0.1",
        "64:ff9b::7f00:1",
        "64:ff9b:1::1",
        "2002:7f00:1::",
        "2001:0:4136:e378:8000:63bf:80ff:fffe",
    ],
)
def test_what_is_not_public(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize(
    "address", ["3fff::1", "2606:4700::5efe:7f00:1", "2606:4700::200:5efe:a00:1", "fe80::5efe:808:808"]
)
def test_addresses_of_documentation_and_private_ones_inside_of_isatap_are_not_public(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize(
    "address",
    ["8.8.8.8", "1.1.1.1", "2606:4700:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808", "2606:4700::5efe:808:808"],
)
def test_what_is_public(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize("host", ["localhost", "127.1", "0x7f000001", "2130706433", "0", "::1", "::ffff:127.0.0.1"])
def test_other_ways_to_write_this_machine(host: str) -> None:
    with pytest.raises(Undelivered, match="alert_private_addresses|not known") as caught:
        connect(host, 9, 1, private=False)
    assert caught.value.final or "not known" in caught.value.message


class FakeSocket:
    connected: list[Any] = []

    def __init__(self, *_: object) -> None:
        pass

    def settimeout(self, _: float) -> None:
        pass

    def connect(self, where: Any) -> None:
        self.connected.append(where)

    def close(self) -> None:
        pass


def _answers(monkeypatch: pytest.MonkeyPatch, *rounds: list[str]) -> list[int]:
    """A name server that says something else every time."""
    asked: list[int] = []

    def resolve(_host: str, port: int, **_: object) -> list[Any]:
        asked.append(1)
        found = rounds[min(len(asked), len(rounds)) - 1]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (ip, port)) for ip in found]

    monkeypatch.setattr(network_guard.socket, "getaddrinfo", resolve)
    monkeypatch.setattr(network_guard.socket, "socket", FakeSocket)
    FakeSocket.connected.clear()
    return asked


def test_one_private_address_among_several_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    _answers(monkeypatch, ["8.8.8.8", "10.0.0.1"])
    with pytest.raises(Undelivered, match="10.0.0.1"):
        connect("hooks.example", 80, 1, private=False)
    assert FakeSocket.connected == []


def test_the_address_that_was_checked_is_the_one_that_is_connected_to(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = _answers(monkeypatch, ["8.8.8.8"], ["127.0.0.1"])
    connect("rebinding.example", 80, 1, private=False)
    assert FakeSocket.connected == [("8.8.8.8", 80)]
    assert len(asked) == 1
