"""json:// and jsons://, with receivers that are well, slow, wrong or hostile."""

from __future__ import annotations

import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from alert_receiver import Receiver
from riverrun.alerts import network_guard
from riverrun.alerts.address import Address
from riverrun.alerts.message import compose
from riverrun.alerts.retry import Undelivered
from riverrun.alerts.webhook import parse, post
from riverrun.errors import Invalid

MESSAGE = compose("shop", "fraud", "shop.alerts.fraud@0:0-0", None, 1, [{"user": "ada"}])


def send(url: str, timeout: float = 1, private: bool = True) -> None:
    post(Address(url), MESSAGE, timeout, private)


def test_what_an_address_says(receiver: Receiver) -> None:
    where = f"127.0.0.1:{receiver.port}"
    send(f"json://ada:p%40ss@{where}/a%20b/c?+X-Token=t%2Bk&-q=1%262&method=put&+Content-Type=application/x")
    (got,) = receiver.got
    assert got["path"] == "/a%20b/c?q=1%262"
    assert got["headers"]["X-Token"] == "t+k"
    assert got["headers"]["Content-Type"] == "application/x"
    assert got["headers"]["Authorization"] == "Basic YWRhOnBAc3M="
    assert got["headers"]["Host"] == where
    assert got["headers"]["Idempotency-Key"] == MESSAGE.key


@pytest.mark.parametrize(
    "url", ["json://", "json://host:port/x", "json://[::1/x", "json://host/x?verify=no", "json://host?method=DELETE"]
)
def test_what_is_no_address(url: str) -> None:
    with pytest.raises(Invalid):
        parse(Address(url))


def test_ports() -> None:
    assert (parse(Address("json://host")).port, parse(Address("jsons://host")).port) == (80, 443)
    assert parse(Address("json://[2001:db8::1]:99/x")).host == "2001:db8::1"


def test_redirects_are_not_followed(receiver: Receiver) -> None:
    target = Receiver()
    for status in (301, 302, 303, 307, 308):
        receiver.answers = [(status, {"Location": f"http://127.0.0.1:{target.port}/"})]
        with pytest.raises(Undelivered, match=f"{status}, and redirects"):
            send(receiver.url)
    target.close()
    assert target.got == []


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "hooks.example", "[::ffff:127.0.0.1]"])
def test_this_machine_is_refused(receiver: Receiver, host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    resolve = socket.getaddrinfo
    monkeypatch.setattr(
        network_guard.socket,
        "getaddrinfo",
        lambda host, *a, **o: resolve("127.0.0.1" if host == "hooks.example" else host, *a, **o),
    )
    with pytest.raises(Undelivered, match="alert_private_addresses") as caught:
        send(f"json://{host}:{receiver.port}/", private=False)
    assert caught.value.final
    assert receiver.got == []


@pytest.mark.parametrize("answer", ["never", "drip"])
def test_a_receiver_that_takes_its_time(receiver: Receiver, answer: str) -> None:
    receiver.answers = [answer]
    begun = time.monotonic()
    with pytest.raises(Undelivered, match="no answer within 0.5 s") as caught:
        send(receiver.url, timeout=0.5)
    assert time.monotonic() - begun < 3
    assert not caught.value.final


def test_a_receiver_that_is_away(receiver: Receiver) -> None:
    receiver.close()
    with pytest.raises(Undelivered, match="no connection"):
        send(receiver.url)
    with pytest.raises(Undelivered, match="not known"):
        send("json://name.invalid/")


def test_a_header_cannot_smuggle_another(receiver: Receiver) -> None:
    for option in ("+X=a%0d%0aEvil:%20b", "+X%0d%0aEvil:=b", "+X=%00", "+=a", "+X=%E2%82%AC"):
        with pytest.raises(Invalid, match="characters that HTTP does not allow"):
            send(f"{receiver.url}?{option}")
    assert receiver.got == []


def test_a_path_cannot_smuggle_a_header(receiver: Receiver) -> None:
    send(f"{receiver.url}%0d%0aEvil:%20b%20HTTP/1.1")
    assert receiver.got[0]["path"] == "/hook%0D%0AEvil:%20b%20HTTP/1.1"
    assert "Evil" not in receiver.got[0]["headers"]


@pytest.fixture
def secure(receiver: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    """The receiver with a certificate for hooks.example, which is found at 127.0.0.1."""
    key, certificate = str(tmp_path / "key.pem"), str(tmp_path / "certificate.pem")
    command = (
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=hooks.example"
    )
    name = ["-addext", "subjectAltName=DNS:hooks.example"]
    subprocess.run([*command.split(), *name, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server = receiver.server
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    monkeypatch.setattr(server, "handle_error", lambda *_: None)  # a client that hangs up is meant
    monkeypatch.setenv("SSL_CERT_FILE", certificate)
    resolve = socket.getaddrinfo
    monkeypatch.setattr(network_guard.socket, "getaddrinfo", lambda _, *a, **o: resolve("127.0.0.1", *a, **o))
    yield receiver


def test_the_certificate_must_be_the_names(secure: Receiver) -> None:
    send(f"jsons://hooks.example:{secure.port}/x", timeout=5)
    assert secure.got[0]["headers"]["Host"] == f"hooks.example:{secure.port}"
    with pytest.raises(Undelivered, match="CERTIFICATE_VERIFY_FAILED"):
        send(f"jsons://other.example:{secure.port}/x", timeout=5)
    assert len(secure.got) == 1


def test_a_handshake_that_never_ends() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        begun = time.monotonic()
        held: list[socket.socket] = []
        thread = threading.Thread(target=lambda: held.append(server.accept()[0]))
        thread.start()
        with pytest.raises(Undelivered, match="no answer within 0.5 s"):
            send(f"jsons://127.0.0.1:{server.getsockname()[1]}/", timeout=0.5)
        assert time.monotonic() - begun < 3
        thread.join()
        held[0].close()
