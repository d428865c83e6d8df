"""Through apprise, in a process of its own."""

from __future__ import annotations

import importlib.util

import pytest

from alert_receiver import Receiver
from riverrun.alerts import courier
from riverrun.alerts.address import Address
from riverrun.alerts.message import compose
from riverrun.alerts.retry import Undelivered
from riverrun.errors import Invalid, Unavailable

MESSAGE = compose("shop", "fraud", "shop.alerts.fraud@0:0-0", "<b>{user}</b>", 1, [{"user": "ada"}])


def test_a_form_with_its_key(receiver: Receiver) -> None:
    courier.send(Address(f"form://127.0.0.1:{receiver.port}/hook?-a=b"), MESSAGE, 5, private=True)
    (got,) = receiver.got
    assert got["headers"]["Idempotency-Key"] == MESSAGE.key
    assert b"shop%3A+fraud" in got["body"]


def test_others_have_the_key_in_their_text(receiver: Receiver) -> None:
    courier.send(Address(f"gotify://127.0.0.1:{receiver.port}/Atoken"), MESSAGE, 5, private=True)
    assert MESSAGE.key.encode() in receiver.got[0]["body"]


@pytest.mark.parametrize("scheme", ["form", "gotify"])
def test_this_machine_is_refused(receiver: Receiver, scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{receiver.port}")
    with pytest.raises(Undelivered, match="alert_private_addresses") as caught:
        courier.send(Address(f"{scheme}://localhost:{receiver.port}/Atoken"), MESSAGE, 5, private=False)
    assert caught.value.final
    assert receiver.got == []


def test_redirects_are_not_followed_even_if_asked_for(receiver: Receiver) -> None:
    target = Receiver()
    receiver.answers = [(307, {"Location": f"http://127.0.0.1:{target.port}/"})]
    with pytest.raises(Undelivered):
        courier.send(Address(f"form://127.0.0.1:{receiver.port}/hook?redirect=yes"), MESSAGE, 5, private=True)
    target.close()
    assert target.got == []


def test_errors_do_not_tell_secrets(receiver: Receiver) -> None:
    receiver.answers = [401] * 5
    with pytest.raises(Undelivered) as caught:
        courier.send(Address(f"gotify://127.0.0.1:{receiver.port}/Asecrettoken"), MESSAGE, 5, private=True)
    assert "secrettoken" not in str(caught.value)
    assert not caught.value.final


def test_a_service_that_hangs_is_ended(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(courier, "_STARTING", 0.01)
    with pytest.raises(Undelivered, match="no answer within 0.01 s"):
        courier.send(Address(f"form://127.0.0.1:{receiver.port}/"), MESSAGE, 0.01, private=True)


def test_addresses_are_checked_before_the_run() -> None:
    courier.check_addresses([Address("json://host"), Address("mailto://ada:pw@example.com")], private=True)
    with pytest.raises(Invalid, match="cannot read the address nosuch://…"):
        courier.check_addresses([Address("mailto://ada:pw@example.com"), Address("nosuch://token")], private=True)


def test_a_missing_package_matters_only_when_it_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    courier.check_addresses([Address("json://host")], private=True)
    with pytest.raises(Unavailable, match=r"pip install '.\[alerts\]'"):
        courier.check_addresses([Address("mailto://ada:pw@example.com")], private=True)


@pytest.mark.parametrize(
    "url", ["json://127.0.0.1:9/hook", "jsons://localhost/hook", "json://[::1]/", "form://10.1.2.3/a"]
)
def test_an_address_that_would_be_refused_is_refused_before_the_run(url: str) -> None:
    """And the message names the setting that allows it. A mail server may be anywhere, an unknown host may come to be."""
    with pytest.raises(Invalid, match="RIVERRUN_ALERT_PRIVATE_ADDRESSES=true") as caught:
        courier.check_addresses([Address("json://unknown.invalid/"), Address(url)], private=False)
    assert "/hook" not in str(caught.value)
    courier.check_addresses([Address(url)], private=True)
    courier.check_addresses(
        [Address("json://unknown.invalid/"), Address("mailto://ada:pw@localhost.localdomain")], private=False
    )
