"""Shared fixtures. Programs that are killed live in tests/programs and run as processes of their own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from riverrun import failpoints
from riverrun.cli import main
from riverrun.log.catalogue import Catalogue
from riverrun.log.coordination import Coordination
from riverrun.log.spec import TopicSpec
from riverrun.log.topic import Topic
from riverrun.settings import Settings

# `make test` tries the same examples every time, so that what was green stays green; `make test-recovery` new ones.
hypothesis.settings.register_profile("repeatable", derandomize=True, deadline=None)
hypothesis.settings.register_profile("search", derandomize=False, deadline=None, print_blob=True)
hypothesis.settings.load_profile("repeatable")

# Under nohup, or in the background of a script, these are ignored; so they would be in every process that a test starts.
for number in (signal.SIGHUP, signal.SIGINT):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, signal.SIG_DFL)

# How many of the examples that tests ask for are tried: `make test` tries a share, `make test-recovery` several times as many.
SHARE = float(os.environ.get("EXAMPLES", "1"))

PROGRAMS = Path(__file__).parent / "programs"
SCHEMA = "k string, n bigint, at timestamp"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """With several test processes, one of them runs everything that starts Spark, and one what needs a Kafka broker: one
    session, one after the other. Tests of `make test-recovery` take their time."""
    for test in {
        item.obj for item in items if hasattr(getattr(item, "obj", None), "_hypothesis_internal_use_settings")
    }:
        asked = test._hypothesis_internal_use_settings or hypothesis.settings.default
        share = max(round(asked.max_examples * SHARE), 3)
        test._hypothesis_internal_use_settings = hypothesis.settings(asked, max_examples=share)
    for item in items:
        if item.get_closest_marker("slow") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(1800))
        if item.get_closest_marker("spark"):
            item.add_marker(pytest.mark.xdist_group("spark"))
        if "kafka" in item.path.name or (
            getattr(item, "callspec", None) and item.callspec.params.get("log") == "kafka"
        ):
            item.add_marker(pytest.mark.xdist_group("kafka"))


@pytest.fixture(scope="session")
def spark_session() -> Iterator[object]:
    """One for all tests: it takes longer to start than most of them to run."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from riverrun.spark.session import session

        spark = session(computes=False)
    yield spark
    spark.stop()


@pytest.fixture(autouse=True)
def no_failpoint_is_left_armed() -> Iterator[None]:
    yield
    failpoints.arm("")


@pytest.fixture
def open_topic(tmp_path: Path) -> Iterator[Callable[..., Topic]]:
    """open_topic(...) opens (or makes) a topic in the test's own directory; open it as often as you like."""
    opened: list[Topic] = []
    coordination = Coordination(f"{tmp_path}/coordination.db", create=True)

    def make(name: str = "t", schema: str = SCHEMA, settings: Settings | None = None, **options: object) -> Topic:
        options = {"key": "k", "time": "at", "fsync": "os", **options} if schema == SCHEMA else options
        catalogue = Catalogue(f"{tmp_path}/topics", settings or Settings(), coordination)
        topic = catalogue.open(TopicSpec(name, schema, **options))  # type: ignore[arg-type]
        opened.append(topic)
        return topic

    yield make
    for topic in opened:
        topic.close()
    coordination.close()


@pytest.fixture
def program() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """program("append.py", *arguments, failpoints="append.written=kill") starts it; what still runs is killed at the end."""
    started: list[subprocess.Popen[str]] = []

    def start(name: str, *arguments: object, failpoints: str = "") -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, str(PROGRAMS / name), *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "RIVERRUN_FAILPOINTS": failpoints},
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


@dataclass(frozen=True)
class CommandResult:
    """What a command left."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def error(self) -> str:
        """The one line that a mistake gives."""
        assert self.code == 2, self
        assert self.err.count("\n") == 1, self.err
        assert "Traceback" not in self.err
        return self.err.removeprefix("riverrun: ").rstrip("\n")


Riverrun = Callable[..., CommandResult]


@pytest.fixture
def riverrun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Riverrun:
    """riverrun("topic", "list") is that command, in this process and in a directory of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RIVERRUN_RIVER", raising=False)
    monkeypatch.delenv("RIVERRUN_DEBUG", raising=False)

    def run(*args: str) -> CommandResult:
        capsys.readouterr()
        code = main(list(args))
        captured = capsys.readouterr()
        return CommandResult(code, captured.out, captured.err)

    return run
