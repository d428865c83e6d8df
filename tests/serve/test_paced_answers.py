"""Answers that are not taken: how many there may be, and for how long."""

from __future__ import annotations

import resource
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pyarrow as pa
import pytest

from riverrun.river import River
from riverrun.serve import connections
from riverrun.serve.server import Background
from riverrun.settings import Settings
from riverrun.views import Epoch, ViewSpec

Serve = Callable[..., Background]
ROW = 1 << 20
BIG, OLDEST = "/views/big?limit=1000", "/views/big/changes?since=oldest"


@pytest.fixture
def big(tmp_path: Path, serve: Serve) -> Iterator[str]:
    """The address of a river with a view of 30 rows of a megabyte, whose clients may have 20 of them held."""
    with River(tmp_path / "big", settings=Settings(http_memory=40 * ROW)) as river:
        topic = river.topic("orders", "user string", key="user", fsync="os")
        river.store.declare(ViewSpec("big", "shop", "user string, v string", ("user",), topics=("orders",)))
        fence = river.store.take_fence("shop")
        for epoch in range(1, 4):
            users = [f"{epoch}-{i}" for i in range(10)]
            rows = pa.table({"user": users, "v": ["x" * ROW] * 10, "_weight": [1] * 10})
            river.store.commit(Epoch("shop", fence, epoch, topic.latest, {"big": rows}))
        yield serve(river=river).url


@contextmanager
def asking(url: str, path: str) -> Iterator[socket.socket]:
    """A client that asks, and takes nothing."""
    where = urlsplit(url)
    with socket.create_connection((where.hostname or "", where.port or 0), timeout=20) as one:
        one.sendall(f"GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
        yield one


def held(url: str) -> float:
    text = httpx.get(f"{url}/metrics", timeout=20).text
    return float(text.split("\nriverrun_http_held_bytes ")[1].split("\n")[0])


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_an_answer_has_as_much_as_was_promised(big: str) -> None:
    answer = httpx.get(f"{big}{BIG}", timeout=20)
    assert answer.status_code == 200
    assert 14 * ROW < len(answer.content) < 17 * ROW
    following = httpx.get(f"{big}{answer.links['next']['url']}", timeout=20)
    users = [row["user"] for part in (answer, following) for row in part.json()]
    assert len(users) == len(set(users)) == 30


def test_answers_that_nobody_takes_are_counted_and_refused_when_they_are_too_many(big: str) -> None:
    with asking(big, BIG):
        wait_until(lambda: 14 * ROW <= held(big) < 16 * ROW)  # and there is no room for as much again
        answer = httpx.get(f"{big}{BIG}", timeout=20)
        assert (answer.status_code, answer.json()["error"]) == (429, "too many answers wait to be taken")
        assert answer.headers["retry-after"]
        assert httpx.get(f"{big}/views/big?limit=0", timeout=20).json() == []  # a small one is never refused
    wait_until(lambda: held(big) == 0)
    assert httpx.get(f"{big}{BIG}", timeout=20).status_code == 200


def test_an_answer_that_is_not_taken_is_given_up(big: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "_TAKEN", 0.3)
    with asking(big, BIG) as one:
        wait_until(lambda: held(big) > 0)
        wait_until(lambda: held(big) == 0)
        received = 0
        with suppress(ConnectionResetError):
            while part := one.recv(1 << 20):
                received += len(part)
        assert received < 15 * ROW


def test_a_stream_that_is_not_taken_ends(big: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "_TAKEN", 0.3)
    with asking(big, OLDEST):
        wait_until(lambda: "riverrun_http_streams 1.0" in httpx.get(f"{big}/metrics").text)
        wait_until(lambda: "riverrun_http_streams 0.0" in httpx.get(f"{big}/metrics").text)


def test_who_takes_slowly_gets_everything(big: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "_TAKEN", 2.0)
    with asking(big, "/views/big?limit=4") as one:
        received = b""
        while not received.endswith(b"}]"):
            received += one.recv(1 << 19)
            time.sleep(0.02)
    assert received.count(b'"user"') == 4


def test_many_streams_hold_little(big: str) -> None:
    """Each of these used to have a whole commit in memory, three times over."""
    assert httpx.get(f"{big}{BIG}", timeout=20).status_code == 200  # what only the first one takes
    before = _resident()
    with ExitStack() as clients:
        waiting = [clients.enter_context(asking(big, OLDEST)) for _ in range(40)]
        for one in waiting:
            received = b""
            while b"data: " not in received:
                received += one.recv(1000)
        assert _resident() - before < 40 * 6 * ROW


def _resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()
