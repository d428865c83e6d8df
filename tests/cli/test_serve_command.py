"""`riverrun serve` as a process, and serving beside `riverrun run`."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from riverrun.cli.serve_command import serve_beside
from riverrun.errors import Invalid, Unavailable
from riverrun.river import River
from serve.telling_run import TellingRun

Start = Callable[..., tuple[subprocess.Popen[str], str]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """start("--port", "0") serves tmp_path/river; gives the process and its address."""
    with River(tmp_path / "river") as river:
        river.topic("orders", "user string", fsync="os")
    started: list[subprocess.Popen[str]] = []

    def run(*options: str, **environment: str) -> tuple[subprocess.Popen[str], str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "riverrun.cli", "serve", "--json", *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
            env={**os.environ, **environment},
        )
        started.append(process)
        assert process.stdout
        document = ""
        while not document.endswith("}\n"):
            said = process.stdout.readline()
            assert said, process.stderr and process.stderr.read()
            document += said
        return process, json.loads(document)["url"]

    yield run
    for process in started:
        process.kill()
        process.communicate()


def test_tokens_in_a_file_that_commands_do_not_read_are_pointed_out(start: Start, tmp_path: Path) -> None:
    """Who had put them into riverrun.toml served without any, and did not learn it."""
    (tmp_path / "riverrun.toml").write_text('river = "river"\ntokens_file = "tokens"\n')
    process, _ = start("--port", "0")
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=30)
    assert said == (
        "riverrun.toml has tokens_file, but commands take only places and captures from that file:"
        " set RIVERRUN_TOKENS_FILE\n"
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_in_order(start: Start, number: int) -> None:
    process, url = start("--port", "0")
    assert httpx.post(url + "/topics/orders", json={"user": "ada"}).status_code == 202
    with httpx.stream("GET", url + "/topics/orders/tail") as stream:
        begun = time.monotonic()
        process.send_signal(number)
        stream.read()
    assert process.wait(10) == 0
    assert time.monotonic() - begun < 8
    assert process.communicate() == ("", "")


def test_tokens_come_from_the_environment(start: Start, tmp_path: Path) -> None:
    from riverrun.serve.tokens import line

    (tmp_path / "tokens").write_text(line("me", ["read"], "the-secret"))
    process, url = start("--port", "0", "--host", "0.0.0.0", RIVERRUN_TOKENS_FILE="tokens")
    port = url.rpartition(":")[2]
    there = f"http://127.0.0.1:{port}/topics"
    assert httpx.get(there).status_code == 401
    assert httpx.get(there, headers={"authorization": "Bearer the-secret"}).status_code == 200
    process.terminate()
    out, err = process.communicate(timeout=10)
    assert "the-secret" not in out + err


def test_mistakes_are_one_line(riverrun: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "there is no river" in riverrun("serve").error
    River(tmp_path / "river").close()
    assert "there are no tokens" in riverrun("serve", "--host", "0.0.0.0", "--port", "0").error
    assert "not an address" in riverrun("serve", "--host", "no such host").error
    assert riverrun("serve", "--port", "70000").code == 2
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert f"port {port} of 127.0.0.1 is in use" in riverrun("serve", "--port", str(port)).error
    (tmp_path / "tokens").write_text("me read plain-secret\n")
    monkeypatch.setenv("RIVERRUN_TOKENS_FILE", str(tmp_path / "tokens"))
    error = riverrun("serve", "--port", "0").error
    assert "line 1: not a token" in error
    assert "plain-secret" not in error
    monkeypatch.delenv("RIVERRUN_TOKENS_FILE")
    monkeypatch.setitem(sys.modules, "riverrun.serve.server", None)
    assert "pip install '.[serve]'" in riverrun("serve").error


def test_beside_a_run(tmp_path: Path) -> None:
    said: list[str] = []
    with River(tmp_path / "river") as river:
        with ExitStack() as stack:
            serve_beside(stack, river, TellingRun(), "127.0.0.1", 0, said.append)
            url = said[0].removeprefix("served at ")
            assert httpx.get(url + "/flows").json()[0]["here"] is True
        with pytest.raises(httpx.ConnectError):
            httpx.get(url)


def test_a_run_is_served_elsewhere_where_the_port_is_taken_and_goes_on_where_it_cannot_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = TellingRun()
    said: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as taken, River(tmp_path / "river") as river, ExitStack() as stack:
        port = taken.getsockname()[1]
        monkeypatch.setattr("riverrun.cli.serve_command.DEFAULT_PORT", port)
        serve_beside(stack, river, run, "127.0.0.1", None, said.append)
        assert said[0] == f"port {port} of 127.0.0.1 is in use; another one is used (--port chooses one)"
        assert httpx.get(said[1].removeprefix("served at ") + "/healthz").status_code == 200
        with pytest.raises(Invalid, match="is in use"):
            serve_beside(stack, river, run, "127.0.0.1", port, print)
        monkeypatch.setitem(sys.modules, "riverrun.serve.server", None)
        serve_beside(stack, river, run, "127.0.0.1", None, print)
        said_to_err = capsys.readouterr().err
        assert (
            "not served: HTTP needs a package that is not installed (riverrun.serve.server). Install it: pip"
            in said_to_err
        )
        with pytest.raises(Unavailable, match="not installed"):
            serve_beside(stack, river, run, "127.0.0.1", port, print)


def test_serving_and_not_serving_exclude_each_other(riverrun: Any) -> None:
    Path("shop.py").write_text("import riverrun as rr\nflow = rr.Flow('shop')\n")
    assert "--port and --no-serve exclude each other" in riverrun("run", "shop.py", "--port", "0", "--no-serve").error
