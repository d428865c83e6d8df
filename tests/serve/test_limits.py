"""What one client may take: connections, time for a request, memory, requests."""

from __future__ import annotations

import errno
import logging
import os
import resource
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from riverrun.river import River
from riverrun.serve import body, connections, guard
from riverrun.serve.backend import Backend
from riverrun.serve.connections import Complaints
from riverrun.serve.flows import Flows
from riverrun.serve.pages import alerts_page, groups_page, history, rules_page, topics_page
from riverrun.serve.pages.shell import Asked
from riverrun.serve.problems import Refused
from riverrun.serve.rate_limit import RateLimit
from riverrun.serve.server import Background
from riverrun.serve.share import Share
from riverrun.serve.tokens import line
from riverrun.settings import Settings

Serve = Callable[..., Background]
LENGTH = 1 << 17


@contextmanager
def connected(url: str, *said: bytes) -> Iterator[socket.socket]:
    where = urlsplit(url)
    with socket.create_connection((where.hostname or "", where.port or 0), timeout=20) as one:
        for part in said:
            one.sendall(part)
        yield one


def everything(one: socket.socket) -> bytes:
    found = b""
    with suppress(ConnectionResetError):
        while part := one.recv(1 << 16):
            found += part
    return found


def answer_of(one: socket.socket) -> None:
    found = b""
    while not found.endswith(b'{"status":"ok"}'):
        found += one.recv(1 << 16)


def head(length: int = LENGTH) -> bytes:
    return b"POST /topics/orders HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n" % length


def test_one_machine_gets_half_of_the_connections(tmp_path: Path, serve: Serve) -> None:
    with River(tmp_path / "small", settings=Settings(http_connections=6)) as small:
        url = serve(river=small).url
        with connected(url) as one, connected(url) as two, connected(url) as three:
            with connected(url) as four:
                assert everything(four).startswith(b"HTTP/1.1 503 ")
            for held in (one, two, three):
                held.sendall(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
                assert everything(held).startswith(b"HTTP/1.1 200 ")
        assert httpx.get(f"{url}/healthz").status_code == 200


@pytest.mark.parametrize("said", [b"", b"GET /topics HTTP/1.1\r\nhost: localhost\r\nx-a: "])
def test_a_head_that_does_not_come_to_its_end_is_waited_for_a_while_only(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, said: bytes
) -> None:
    monkeypatch.setattr(connections, "_HEAD", 0.2)
    with connected(serve().url, said) as one:
        assert everything(one) == b""


def test_a_head_is_given_its_time_anew_with_every_request(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "_HEAD", 0.3)
    whole = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n"
    with connected(serve().url, whole) as one:
        answer_of(one)
        time.sleep(0.5)  # between two requests there is more patience
        one.sendall(whole)
        answer_of(one)
        one.sendall(whole[:20])
        assert everything(one) == b""


def test_a_body_that_stops_coming_is_given_up_and_holds_no_memory(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that stops one byte before the end holds what it sent only for a moment."""
    monkeypatch.setattr(body, "_PACE", 0.2)
    server = serve()
    with connected(server.url, head(), b"x" * (LENGTH - 1)) as one:
        assert one.recv(1 << 16).startswith(b"HTTP/1.1 408 ")
    with connected(server.url, head(10), b"x") as small:  # holds nobody up
        small.settimeout(0.6)
        with pytest.raises(TimeoutError):
            small.recv(1)
    assert "riverrun_http_held_bytes 0.0" in httpx.get(f"{server.url}/metrics").text


def test_a_token_has_so_many_requests_per_second(tmp_path: Path, serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "monotonic", lambda: 100.0)
    tokens = ";".join(line(name, ["read"], f"secret-of-{name}") for name in ("ada", "bob"))
    with River(tmp_path / "slow", settings=Settings(tokens=tokens, http_rate=5)) as slow:
        url = serve(river=slow).url

        def get(name: str) -> httpx.Response:
            return httpx.get(f"{url}/topics", headers={"authorization": f"Bearer secret-of-{name}"})

        *allowed, refused = [get("ada") for _ in range(11)]
        assert {answer.status_code for answer in allowed} == {200}
        assert refused.status_code == 429
        assert "5 requests per second" in refused.json()["error"]
        assert refused.headers["retry-after"]
        assert get("bob").status_code == 200


def test_turns_come_back_at_a_steady_rate() -> None:
    rates = RateLimit(10)
    for _ in range(20):  # two seconds of it at once
        rates.take("ada", 100.0)
    with pytest.raises(Refused):
        rates.take("ada", 100.05)
    rates.take("bob", 100.05)
    rates.take("ada", 100.2)
    rates.take("ada", 100.2)
    with pytest.raises(Refused):
        rates.take("ada", 100.2)
    for _ in range(1000):
        RateLimit(0).take("ada", 100.0)


def test_a_share_of_little_is_still_something() -> None:
    share = Share(1)
    assert share.fits("ada")
    share.take("ada")
    assert not share.fits("bob")
    share.give_back("ada")
    assert share.fits("bob")


def test_all_machines_together_get_what_there_is_and_no_more() -> None:
    share = Share(4)
    for peer in ("ada", "bob", "bob", "ada"):
        assert share.fits(peer)
        share.take(peer)
    assert not share.fits("eve")


def test_trouble_of_the_loop_is_told_once_a_minute(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tell = Complaints()
    context = {"message": "socket.accept() out of system resource", "exception": OSError(24, "Too many open files")}
    for _ in range(1000):
        tell(None, context)  # type: ignore[arg-type]
    assert len(caplog.records) == 1
    monkeypatch.setattr(connections, "_QUIET", 0.0)
    tell(None, context)  # type: ignore[arg-type]
    assert [record.levelno for record in caplog.records] == [logging.ERROR] * 2


def test_the_limit_of_files_is_raised_and_half_of_it_is_left() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 512), hard))
        share = connections.connection_share(1_000_000)
        raised = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        assert raised == min(hard, 1 << 16) or hard == resource.RLIM_INFINITY
        assert share.limit == raised // 2
        assert connections.connection_share(100).limit == 100
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_the_dashboard_opens_no_more_topics_than_leaves_files_to_requests(
    river: River, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are measured for as long as the server runs, so they are open for so long."""
    for i in range(12):
        river.topic(f"t{i:02}", "n bigint", fsync="os")
    monkeypatch.setattr(history, "raise_limit", lambda: 100)
    with River(river.path) as served:
        backend = Backend(served)
        before = len(os.listdir("/proc/self/fd"))
        seen = history.History(backend, Flows(backend))
        seen.sample()
        assert len(seen.ends) == 5
        assert len(os.listdir("/proc/self/fd")) - before <= 25 + 3
        backend.close()


def test_pages_about_all_topics_leave_none_of_them_open(river: River) -> None:
    for i in range(12):
        river.topic(f"t{i:02}", "n bigint", fsync="os")
    with River(river.path) as served:
        backend = Backend(served)
        seen = history.History(backend, Flows(backend))
        before = files_of(river)
        for page in (topics_page, rules_page, groups_page, alerts_page):
            page.draw(seen, Asked("/"))
            assert files_of(river) == before, page.__name__
        backend.close()


def files_of(river: River) -> list[str]:
    """What this process has open of the river's topics."""
    opened: list[str] = []
    for descriptor in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):
            opened.append(os.readlink(f"/proc/self/fd/{descriptor}"))
    return sorted(one for one in opened if one.startswith(f"{river.path}/topics/"))


def test_a_server_without_files_left_says_so_and_calls_it_no_defect(
    http: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(River, "topics", refuse)
    answer = http.get("/topics")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "2")
    assert answer.json() == {
        "error": "the server cannot do this now (Too many open files)",
        "hint": "Close some files, or raise the limit: ulimit -n",
    }
    monkeypatch.setattr(River, "topics", lambda *_: (_ for _ in ()).throw(FileNotFoundError("no such thing")))
    assert http.get("/topics").status_code == 500
