"""Sockets and threads: where the server listens, and how it ends."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI
from starlette.responses import HTMLResponse

from riverrun.errors import Invalid
from riverrun.river import River
from riverrun.serve.backend import Backend
from riverrun.serve.flows import Flows
from riverrun.serve.server import Background, PortInUse, bind, serve_in_background
from riverrun.serve.tokens import Token, Tokens, line
from riverrun.settings import Settings

SOME = Tokens([Token("a", frozenset(("read",)), b"x" * 32)])


def test_only_this_machine_is_let_in_without_tokens() -> None:
    for host in ("0.0.0.0", "::"):
        with pytest.raises(Invalid, match="there are no tokens"):
            bind(host, 0, Tokens())
    for host in ("127.0.0.1", "localhost"):
        bind(host, 0, Tokens()).close()
    bind("0.0.0.0", 0, SOME).close()


def test_addresses_that_are_none() -> None:
    for host, port in (("no such host", 0), ("127.0.0.1", 99_999), ("x" * 300, 0), ("192.0.2.1", 0)):
        with pytest.raises(Invalid):
            bind(host, port, SOME)


def test_a_port_that_is_taken(serve: Callable[..., Background], river: River) -> None:
    port = int(serve().url.rpartition(":")[2])
    with pytest.raises(PortInUse, match=f"port {port} of 127.0.0.1 is in use"):
        serve_in_background(river, port=port)


def test_everywhere_answers_to_addresses_but_not_to_any_name(tmp_path: Path, serve: Callable[..., Background]) -> None:
    settings = Settings(tokens=line("a", ["admin"], "secret"))
    with River(tmp_path / "open", settings=settings) as river:
        url = serve(river=river, host="0.0.0.0").url
        port = url.rpartition(":")[2]
        headers = {"authorization": "Bearer secret"}
        for host, status in ((f"10.1.2.3:{port}", 200), (socket.gethostname(), 200), ("evil.example", 421)):
            answer = httpx.get(f"http://127.0.0.1:{port}/topics", headers={**headers, "host": host})
            assert answer.status_code == status


def test_requests_are_finished_when_it_stops(serve: Callable[..., Background], river: River) -> None:
    server = serve()
    answers: list[httpx.Response] = []
    url = server.url + "/views"
    thread = threading.Thread(target=lambda: answers.append(httpx.get(url)))
    thread.start()
    thread.join()
    begun = time.monotonic()
    server.close()
    assert time.monotonic() - begun < 3
    assert answers[0].status_code == 200
    with pytest.raises(httpx.ConnectError):
        httpx.get(url)
    server.close()  # a second time does nothing
    assert river.topics() == ["orders"]  # the river is its owner's


def test_pages_stand_beside_the_api(serve: Callable[..., Background]) -> None:
    def pages(app: FastAPI, backend: Backend, flows: Flows) -> None:
        @app.get("/", include_in_schema=False)
        async def home() -> HTMLResponse:
            return HTMLResponse(f"{await backend.read(backend.river.topics)} {flows.all()}")

    url = serve(pages=pages).url
    home = httpx.get(url)
    assert home.text == "['orders'] []"
    assert "frame-ancestors 'none'" in home.headers["content-security-policy"]
    assert httpx.get(url, headers={"host": "evil.example"}).status_code == 421
    assert httpx.get(url + "/topics").status_code == 200
    assert "/" not in httpx.get(url + "/openapi.json").json()["paths"]


def test_nothing_is_left_behind(river: River) -> None:
    before = threading.active_count()
    for _ in range(3):
        with serve_in_background(river, port=0) as server:
            assert httpx.get(server.url + "/topics").status_code == 200
    deadline = time.monotonic() + 5
    while threading.active_count() > before + 1:  # the one that watches files stays
        assert time.monotonic() < deadline, threading.enumerate()
        time.sleep(0.02)
