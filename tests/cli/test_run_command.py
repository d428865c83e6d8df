"""`riverrun run` as a process: what is there is processed; signals end it in order; a newer run shuts it out."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import signal
import socket
import subprocess
import sys
import termios
import time
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx
import pytest

from riverrun.cli import main
from riverrun.cli.run_lines import describe
from riverrun.ending import EndingSignals
from riverrun.errors import Unavailable
from riverrun.position import Position
from riverrun.river import River
from riverrun.runtime.status import FlowState, FlowStatus, Lag, RebuildProgress

FLOW = """
import riverrun as rr

flow = rr.Flow("shop")
orders = flow.stream("orders", "user string, amount double, at timestamp", key="user", time="at", lateness="10 seconds")
flow.view("minutes", orders.window(rr.tumbling("1 minute"), by="user").agg(n=rr.count()))
flow.view("totals", orders.group("user").agg(n=rr.count(), total=rr.sum("amount * 2")))
"""
BASE = datetime(2026, 1, 1, tzinfo=UTC)
PATIENCE = 150  # seconds: a JVM on a busy machine takes its time


def test_once_and_drain_exclude_each_other(riverrun: Any) -> None:
    Path("shop.py").write_text(FLOW)
    assert "--once and --drain exclude each other" in riverrun("run", "shop.py", "--once", "--drain").error


def test_a_run_that_ends_because_its_store_is_away_does_not_say_that_it_waits(
    riverrun: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("shop.py").write_text(FLOW)
    monkeypatch.setenv("RIVERRUN_VIEWS", "postgresql://127.0.0.1:1/nothing")
    for command in (("run", "shop.py", "--once"), ("view", "list"), ("plan", "shop.py", "--json")):
        done = riverrun(*command)
        assert done.code != 0, done
        said = done.err + done.out
        assert "the view store 127.0.0.1/nothing is away" in said
        assert "RIVERRUN_VIEWS its address? Only a run that has begun waits for it" in said


def test_a_rebuild_shows_how_far_it_is(riverrun: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a run that only tells: half of the rows, then done."""
    Path("shop.py").write_text(FLOW)
    told = [RebuildProgress(50, 100), RebuildProgress(100, 100)]

    class Rebuilding:
        name = "shop"

        def observe(self) -> FlowStatus:
            rebuild = told.pop(0) if told else None
            state: FlowState = "rebuilding" if rebuild else "stopped"
            return FlowStatus(flow="shop", epoch=7, state=state, rebuild=rebuild, rows_per_second=10.0)

        def wait(self, timeout: float) -> bool:
            return not told

        def process(self) -> None: ...

        def stop(self, patience: object = None) -> None: ...

    def run(river: River, flow: Any, rebuild: bool = False, alerts_from: object = None) -> Rebuilding:
        assert rebuild
        return Rebuilding()

    monkeypatch.setattr(River, "run", run)
    made = riverrun("run", "shop.py", "--once", "--rebuild")
    assert made.code == 0, made
    assert made.out.startswith(
        "starting Spark\nrebuilding: 50 rows of 100 rows · 10 rows/s\nflow shop runs\nstopped at epoch 7"
    )


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ((), None),
        (("now",), "latest"),
        (("earliest",), "earliest"),
        (("orders@0:17",), Position.parse("orders@0:17")),
        (("2026-01-31 12:00",), datetime(2026, 1, 31, 12, tzinfo=UTC)),
    ],
)
def test_where_alerts_begin(riverrun: Any, monkeypatch: pytest.MonkeyPatch, said: tuple[str, ...], meant: Any) -> None:
    Path("shop.py").write_text(FLOW)
    asked: list[Any] = []

    def run(river: River, flow: Any, rebuild: bool = False, alerts_from: object = None) -> None:
        asked.append(alerts_from)
        raise Unavailable("Spark is not installed here")

    monkeypatch.setattr(River, "run", run)
    riverrun("run", "shop.py", "--once", *(part for one in said for part in ("--alerts-from", one)))
    assert asked == [meant]


def test_a_place_for_alerts_that_cannot_be_read_is_refused_before_anything_starts(riverrun: Any) -> None:
    Path("shop.py").write_text(FLOW)
    made = riverrun("run", "shop.py", "--alerts-from", "yesterday")
    assert (made.code, made.out) == (2, "")
    assert "not a position or a time: 'yesterday'" in made.error
    assert not Path("river").exists()


def test_events_are_accepted_and_asking_is_answered_before_spark_is_there(
    riverrun: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("shop.py").write_text(FLOW)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    found: dict[str, Any] = {}

    def run(river: River, flow: Any, rebuild: bool = False, alerts_from: object = None) -> None:
        """Where Spark would be started."""
        url = f"http://127.0.0.1:{port}"
        found["accepted"] = httpx.post(
            url + "/topics/orders", json={"user": "ada", "at": "2026-01-01T00:00:00Z"}
        ).status_code
        [found["flow"]] = httpx.get(url + "/flows").json()
        found["ready"] = httpx.get(url + "/readyz").status_code
        raise Unavailable("Spark is not installed here")

    monkeypatch.setattr(River, "run", run)
    made = riverrun("run", "shop.py", "--port", str(port))
    assert made.error == "Spark is not installed here"
    assert made.out == f"served at http://127.0.0.1:{port}\nstarting Spark\n"
    assert (found["accepted"], found["ready"]) == (202, 200)
    state = {name: found["flow"][name] for name in ("flow", "here", "state", "reason")}
    assert state == {"flow": "shop", "here": True, "state": "starting", "reason": "Spark is being started"}
    assert found["flow"]["lag"]["rows"] == 1


LOADED = """
import os, sys
from riverrun.cli import main
from riverrun.cli.run_lines import RunLines

def say(self, text):
    if text.startswith("served at"):
        print(*sorted(sys.modules), flush=True)
        os._exit(0)

RunLines.say = say
main(["run", "shop.py", "--port", "0"])
"""


def test_what_computes_is_loaded_after_the_port_is_bound(tmp_path: Path) -> None:
    """`riverrun run` listens within two seconds: what takes long to import is imported beside it."""
    (tmp_path / "shop.py").write_text(FLOW)
    done = subprocess.run(
        [sys.executable, "-c", LOADED], cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    loaded = set(done.stdout.split())
    assert "riverrun.serve.pages.rules_page" in loaded
    later = {"duckdb", "numba", "pandas", "pyspark", "tantivy"}
    later |= {"riverrun.expressions", "riverrun.kernels.tumbling", "riverrun.patterns.matcher", "riverrun.rules.rule"}
    assert not later & loaded


def test_where_a_run_is_before_its_first_epoch() -> None:
    line = describe(FlowStatus(flow="shop", state="running", lag=Lag(3000, 40.0, {"orders": 3000})))
    assert line == "no epoch yet · 3 k rows, 40 s behind · no watermark yet · 0 rows late"
    line = describe(FlowStatus(flow="shop", state="running", epoch=2, lag=Lag(3000, 1.5), rows_per_second=10.0))
    assert line == "epoch 2 · 10 rows/s · 3 k rows, 1.5 s behind · no watermark yet · 0 rows late"


@pytest.mark.parametrize(("options", "code"), [((), 0), (("--once",), 1)])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_while_the_flow_is_loaded_ends_it_with_a_line(
    tmp_path: Path, number: signal.Signals, options: tuple[str, ...], code: int
) -> None:
    (tmp_path / "shop.py").write_text(f"import os\nos.kill(os.getpid(), {int(number)})\n{FLOW}")
    done = subprocess.run(
        [sys.executable, "-m", "riverrun.cli", "run", "shop.py", *options],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (code, f"{number.name}: stopped before it started\n", "")


def test_ctrl_c_before_there_are_commands_is_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    class Loading(ModuleType):
        def __getattr__(self, name: str) -> Any:
            raise KeyboardInterrupt

    monkeypatch.setitem(sys.modules, "riverrun.cli.commands", Loading("riverrun.cli.commands"))
    assert main(["version"]) == 130


# A JVM that is slow to start, and does not notice that whoever started it has gone.
JAVA = """#!/bin/sh
if [ "$1" = -version ]; then echo 'openjdk version "17.0.1" 2021-10-19' >&2; exit 0; fi
echo $$ > {directory}/java.pid
exec sleep 600
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_while_spark_starts_leaves_no_process(tmp_path: Path, number: signal.Signals) -> None:
    process, pid = start_slowly(tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.send_signal(number)
    out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, err) == (0, "")
    assert out.splitlines()[1:] == ["starting Spark", f"{number.name}: stopped before it started"]
    assert not Path(f"/proc/{pid.read_text().strip()}").exists()
    assert list((tmp_path / "tmp").iterdir()) == []


def start_slowly(directory: Path, **streams: Any) -> tuple[subprocess.Popen[str], Path]:
    """`riverrun run` whose JVM is there, and will not answer; and the file with the JVM's process."""
    (directory / "shop.py").write_text(FLOW)
    (directory / "jvm/bin").mkdir(parents=True)
    java = directory / "jvm/bin/java"
    java.write_text(JAVA.format(directory=directory))
    java.chmod(0o755)
    (directory / "tmp").mkdir()
    environment = {**os.environ, "JAVA_HOME": str(directory / "jvm"), "TMPDIR": str(directory / "tmp")}
    command = [sys.executable, "-m", "riverrun.cli", "run", "shop.py", "--port", "0"]
    process = subprocess.Popen(command, cwd=directory, env=environment, text=True, **streams)
    pid = directory / "java.pid"
    until(lambda: pid.exists() and pid.read_text().strip() != "", process)
    return process, pid


def test_a_terminal_that_is_closed_ends_it_in_order(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    process, pid = start_slowly(
        tmp_path,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )
    os.close(theirs)
    os.close(ours)
    assert process.wait(PATIENCE) == 0
    assert not Path(f"/proc/{pid.read_text().strip()}").exists()


def test_what_was_started_to_outlive_its_terminal_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signal, "getsignal", lambda number: signal.SIG_IGN)  # as nohup has it
    assert EndingSignals().numbers == [signal.SIGINT, signal.SIGTERM]
    monkeypatch.undo()
    assert EndingSignals().numbers == [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """start("--once") runs the flow in tmp_path/river, where 100 orders are."""
    (tmp_path / "shop.py").write_text(FLOW)
    append(tmp_path, 0, 100)
    started: list[subprocess.Popen[str]] = []

    def run(*options: str) -> subprocess.Popen[str]:
        number = len(started)
        with (tmp_path / f"out-{number}").open("w") as out, (tmp_path / f"err-{number}").open("w") as err:
            process = subprocess.Popen(
                [sys.executable, "-m", "riverrun.cli", "run", "shop.py", *(options or ("--port", "0"))],
                stdout=out,
                stderr=err,
                text=True,
                cwd=tmp_path,
                env={name: value for name, value in os.environ.items() if name != "RIVERRUN_DEBUG"},
            )
        started.append(process)
        return process

    yield run
    for process in started:
        process.kill()
        process.wait()


def append(tmp_path: Path, first: int, last: int) -> None:
    rows = [{"user": f"u{i % 3}", "amount": 1.0, "at": BASE + timedelta(seconds=i)} for i in range(first, last)]
    with River(tmp_path / "river") as river:
        river.topic("orders", "user string, amount double, at timestamp", key="user", time="at").append(rows)


def totals(tmp_path: Path) -> int:
    with River(tmp_path / "river") as river:
        names = {spec.name for spec in river.store.views()}
        return sum(row["n"] for row in river.view("totals").rows()) if "totals" in names else 0


def until(done: Callable[[], bool], process: subprocess.Popen[str] | None = None) -> None:
    deadline = time.monotonic() + PATIENCE
    while not done():
        assert process is None or process.poll() is None, "it ended"
        assert time.monotonic() < deadline, "too late"
        time.sleep(0.1)


@pytest.mark.spark
def test_once_then_drained_then_refused(riverrun: Any, tmp_path: Path, spark_session: object) -> None:
    Path("shop.py").write_text(FLOW)
    append(tmp_path, 0, 100)
    once = riverrun("run", "shop.py", "--once", "--json")
    assert (once.code, once.err) == (0, ""), once
    status = once.json
    assert totals(tmp_path) == 100
    assert (status["flow"], status["state"], status["lag"]["rows"]) == ("shop", "stopped", 0)
    assert {entry["input"]: entry["read"] for entry in status["ledger"]} == {"topic": 100, "in": 100}
    assert status["sources"][0]["held_by"][0]["producer"] in {"0", "1", "2", "3"}
    assert status["state_size"]["bytes"] > 0
    assert set(status["times"]) == {"plan", "read", "compute", "commit"}
    append(tmp_path, 100, 130)
    drained = riverrun("run", "shop.py", "--drain")
    assert drained.code == 0, drained
    assert drained.out.splitlines()[-1].startswith("drained at epoch")
    with River(tmp_path / "river") as river:
        assert sum(row["n"] for row in river.view("minutes").rows()) == 130
    append(tmp_path, 130, 131)
    assert riverrun("run", "shop.py").error.startswith("flow shop was drained")


@pytest.mark.spark
def test_a_newer_run_shuts_it_out(riverrun: Any, tmp_path: Path, spark_session: object) -> None:
    Path("shop.py").write_text(FLOW)
    append(tmp_path, 0, 100)

    def take_over() -> None:
        until(lambda: totals(tmp_path) == 100)
        with River(tmp_path / "river") as river:
            river.store.take_fence("shop", run="another one")

    with ThreadPoolExecutor(1) as other:
        newer = other.submit(take_over)
        assert "another one" in riverrun("run", "shop.py", "--port", "0").error
        newer.result()


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_second_run_says_from_whom_it_takes_over(start: Any, tmp_path: Path) -> None:
    first = start()
    until(lambda: totals(tmp_path) == 100, first)
    second = start("--once")
    assert second.wait(PATIENCE) == 0, (tmp_path / "err-1").read_text()
    (said,) = (tmp_path / "err-1").read_text().splitlines()
    run = rf"\({re.escape(socket.gethostname())}, process {first.pid}, for .*, last heard .* ago\)"
    assert re.match(rf"flow shop runs already {run}: this run takes over from it; that one ends then", said)
    assert first.wait(PATIENCE) != 0
    assert f"run 2 has taken over ({socket.gethostname()}, process {second.pid})" in (tmp_path / "err-0").read_text()
    third = start("--once")  # nobody is there any more
    assert third.wait(PATIENCE) == 0
    assert (tmp_path / "err-2").read_text() == ""


@pytest.mark.spark
@pytest.mark.timeout(400)
def test_sigterm_finishes_the_epoch(start: Any, tmp_path: Path) -> None:
    running = start()
    until(lambda: totals(tmp_path) == 100, running)
    [url] = re.findall("^served at (http://127.0.0.1:[0-9]+)$", (tmp_path / "out-0").read_text(), re.MULTILINE)
    with urllib.request.urlopen(f"{url}/flows") as answer:
        [flow] = json.load(answer)
    assert (flow["flow"], flow["here"], flow["state"]) == ("shop", True, "running")
    append(tmp_path, 100, 200)
    running.send_signal(signal.SIGTERM)
    begun = time.monotonic()
    assert running.wait(PATIENCE) == 0, (tmp_path / "err-0").read_text()
    assert time.monotonic() - begun < 10
    assert "SIGTERM: finishing the epoch" in (tmp_path / "out-0").read_text()
    assert (tmp_path / "err-0").read_text() == ""
