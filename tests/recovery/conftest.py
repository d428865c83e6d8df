"""Flows in processes of their own, which are killed, stopped and woken."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import psutil
import pytest

from kafka_server import new_kafka
from oracles import recovery_market, recovery_watch
from oracles.recovery_shop import Row, check_ledger, expected, held, orders
from programs.recovery_flows import ORDERS, SCHEMAS, WATCHED
from riverrun.river import River

PROGRAMS = Path(__file__).parents[1] / "programs"
PATIENCE = 300  # seconds: a JVM on a busy machine takes its time


class Flowing:
    """One run of the flow as a process. What it prints goes to files, so that nobody waits for a JVM to let go of it."""

    def __init__(
        self, program: str, directory: Path, river: Path, *options: object, environment: Mapping[str, str]
    ) -> None:
        self._out, self._err = directory / "out", directory / "err"
        directory.mkdir(parents=True)
        with self._out.open("w") as out, self._err.open("w") as err:
            self.process = subprocess.Popen(
                [sys.executable, str(PROGRAMS / program), str(river), *map(str, options)],
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=err,
                env={**os.environ, **environment},
            )
        self._root = psutil.Process(self.process.pid)
        self._family: set[psutil.Process] = set()
        self._looked = 0.0

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def errors(self) -> str:
        return self._err.read_text()

    @property
    def lines(self) -> list[str]:
        return self._out.read_text().splitlines()

    def family(self) -> list[psutil.Process]:
        """The JVM, the planner and the workers that are there, whether or not the driver still is."""
        self._looked = time.monotonic()
        parents = [process for process in (self._root, *self._family) if process.is_running()]
        for process in parents:
            try:
                self._family.update(process.children(recursive=True))
            except psutil.NoSuchProcess:
                continue
        return [process for process in self._family if process.is_running()]

    def _keep_in_sight(self) -> None:
        """Remember who belongs to the run: after a kill nobody knows it any more. Looking costs more than waiting."""
        if time.monotonic() > self._looked + 0.3:
            self.family()

    def until(self, done: Callable[[], object], what: str, timeout: float = PATIENCE) -> None:
        """Wait for something; a program that ends meanwhile is a failure."""
        deadline = time.monotonic() + timeout
        while not done():
            assert self.process.poll() is None, f"ended before {what}\n{self.lines}\n{self.errors}"
            assert time.monotonic() < deadline, f"no {what}\n{self.lines}\n{self.errors}"
            self._keep_in_sight()
            time.sleep(0.05)

    def says(self, start: str, timeout: float = PATIENCE) -> str:
        """Wait until it prints a line that starts so; gives the line."""
        self.until(lambda: any(line.startswith(start) for line in self.lines), repr(start), timeout)
        return next(line for line in self.lines if line.startswith(start))

    def ends(self, timeout: float = PATIENCE) -> int:
        """Wait for the driver only; its JVM may live a little longer."""
        deadline = time.monotonic() + timeout
        while self.process.poll() is None:
            assert time.monotonic() < deadline, f"still runs\n{self.lines}\n{self.errors}"
            self._keep_in_sight()
            time.sleep(0.02)
        return self.process.returncode

    def vanishes(self, timeout: float = PATIENCE) -> None:
        """Wait, after the driver's end, for what outlives it: a JVM plans another epoch if it can."""
        deadline = time.monotonic() + timeout
        while any(_status(process) not in (None, psutil.STATUS_ZOMBIE) for process in self.family()):
            assert time.monotonic() < deadline, "its JVM still runs"
            time.sleep(0.05)

    def stopped(self) -> list[psutil.Process]:
        """Who stopped itself at a failpoint."""
        return [process for process in (self._root, *self.family()) if _status(process) == psutil.STATUS_STOPPED]

    def kill(self) -> None:
        """Kill the driver; its JVM will notice."""
        self.family()
        self.process.send_signal(signal.SIGKILL)
        self.process.communicate()

    def kill_all(self) -> None:
        for process in [self._root, *self.family()]:
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue
        self.process.communicate()

    def finish(self) -> None:
        """Let a program that follows come to its end."""
        assert self.process.stdin is not None
        self.process.stdin.close()


def _status(process: psutil.Process) -> str | None:
    try:
        return str(process.status())
    except psutil.NoSuchProcess:
        return None


class Shop:
    """The river of one test, and all rows that were appended to it."""

    def __init__(self, directory: Path, cache: Path | None, **topic: object) -> None:
        self.directory = directory
        self._environment = {} if cache is None else {"XDG_CACHE_HOME": str(cache)}
        self.path = directory / "river"
        self.program = "run_flow.py"
        self.views: str | None = None  # elsewhere than in the river
        self.log: str | None = None  # the same of topics
        self.rows: list[Row] = []
        self._batches = 0
        self._runs: list[Flowing] = []
        self.prepare()
        with self.river() as river:
            self._open(river, **topic)

    def prepare(self) -> None:
        """What has to be there before the river."""

    def river(self) -> River:
        return River(self.path, views=self.views, log=self.log)

    def _open(self, river: River, **topic: object) -> None:
        river.topic("orders", ORDERS, key="user", time="at", partitions=3, fsync="os", **topic)

    def begin(self) -> None:
        """What has to happen before the first rows."""

    def feed(self, batches: int = 1) -> None:
        """Append the next rows, each batch by itself."""
        with self.river() as river:
            for _ in range(batches):
                rows = self.orders(self._batches)
                river.topic("orders").append(rows)
                self.rows += rows
                self._batches += 1

    def orders(self, batch: int) -> list[Row]:
        return orders(batch)

    def start(self, *options: object, failpoints: str = "") -> Flowing:
        place = self.directory / f"run-{len(self._runs)}"
        elsewhere = ("--views", self.views) if self.views else ()
        environment = {**self._environment, "RIVERRUN_FAILPOINTS": failpoints}
        if self.log:
            environment["RIVERRUN_LOG"] = self.log
        run = Flowing(self.program, place, self.path, *elsewhere, *options, environment=environment)
        self._runs.append(run)
        return run

    def complete(self, *options: object) -> Flowing:
        """A run that processes what is there, undisturbed, and leaves nobody behind."""
        run = self.start(*options)
        assert run.ends() == 0, run.errors
        run.vanishes()
        return run

    def drain(self) -> None:
        """Run to the end of the input; views, topics and ledger are those of a run that nobody disturbed."""
        self.check(self.complete("--drain"))

    def killed_at_passages(self, step: str, stride: int = 1) -> None:
        """Killed the first, second, third … time a run comes to a step (or every `stride`th), until one comes through."""
        self.feed()
        self.complete()
        for passage in range(1, 100, stride):
            self.feed(1 + passage % 2)
            run = self.start(failpoints=f"{step}:{passage}=kill")
            if run.ends() == 0:
                break
            assert run.process.returncode == -signal.SIGKILL, run.errors
        assert passage > 1, f"never came to {step}"
        self.drain()

    def killed_at_random(self, rng: random.Random, times: int, within: float) -> None:
        """Killed so many times, each time at most so many seconds behind its first word."""
        self.feed()
        self.complete()
        for _ in range(times):
            self.feed(rng.randrange(1, 5))
            run = self.start()
            while not run.lines and run.process.poll() is None:
                time.sleep(0.01)
            time.sleep(rng.uniform(0, within))
            run.kill()
        self.drain()

    def outlived(self, place: str) -> Flowing:
        """A planner or worker stops at its step, its driver is killed, and then it goes on: it may do no harm."""
        run = self.start(failpoints=f"{place}=stop")
        run.until(run.stopped, place)
        stopped = run.stopped()
        run.kill()
        for process in stopped:
            process.resume()
        return run

    def check(self, drained: Flowing) -> None:
        check_ledger(json.loads(drained.says("drained").split(maxsplit=1)[1]), self.rows)
        with self.river() as river:
            found, wanted = held(river), expected(self.rows)
            for name, value in wanted.items():
                assert found[name] == value, name

    def end(self) -> None:
        for run in self._runs:
            run.kill_all()


class KafkaShop(Shop):
    """The same with topics on Kafka. Without rows that are late: which are depends on how epochs fall, there."""

    def prepare(self) -> None:
        self.server = new_kafka()
        self.log = self.server.url

    def _open(self, river: River, **topic: object) -> None:
        river.topic("orders", ORDERS, key="user", time="at", partitions=3, **topic)

    def orders(self, batch: int) -> list[Row]:
        return [row for row in orders(batch) if row["n"] % 1000 < 900]

    def end(self) -> None:
        super().end()
        self.server.remove()


class Market(Shop):
    """The same for the flow with joins: three tables that change."""

    def _open(self, river: River, **topic: object) -> None:
        self.changes: list[dict[str, list[Row]]] = []
        for name, (schema, key) in SCHEMAS.items():
            river.topic(name, schema, key=key, partitions=3, fsync="os", **topic)

    def feed(self, batches: int = 1) -> None:
        with River(self.path) as river:
            for _ in range(batches):
                self.changes.append(recovery_market.changes(len(self.changes)))
                for name, rows in self.changes[-1].items():
                    river.topic(name).append(rows)

    def start(self, *options: object, failpoints: str = "") -> Flowing:
        return super().start("--flow", "market", *options, failpoints=failpoints)

    def check(self, drained: Flowing) -> None:
        ledger = json.loads(drained.says("drained").split(maxsplit=1)[1])
        read = {entry["node"]: entry["read"] for entry in ledger if entry["input"] == "in"}
        for name in SCHEMAS:
            assert read[f"table-{name}"] == sum(len(batch[name]) for batch in self.changes)
        with River(self.path, views=self.views) as river:
            found, wanted = recovery_market.held(river), recovery_market.expected(self.changes)
            for name, value in wanted.items():
                assert found[name] == value, name


class WatchedEvents(Shop):
    """The same for the flow with patterns: events, and rules and searches that are there before them."""

    def _open(self, river: River, **topic: object) -> None:
        for name, (schema, key) in WATCHED.items():
            time = {"time": "at"} if name == "events" else {}
            river.topic(name, schema, key=key, partitions=3, fsync="os", **time, **topic)
        river.topic("rules").append(recovery_watch.rules())
        river.topic("searches").append(recovery_watch.searches())

    def begin(self) -> None:
        self.complete()  # rules and searches are read before events

    def feed(self, batches: int = 1) -> None:
        with River(self.path) as river:
            for _ in range(batches):
                rows = recovery_watch.events(self._batches)
                river.topic("events").append(rows)
                self.rows += rows
                self._batches += 1

    def start(self, *options: object, failpoints: str = "") -> Flowing:
        return super().start("--flow", "watch", *options, failpoints=failpoints)

    def check(self, drained: Flowing) -> None:
        with River(self.path, views=self.views) as river:
            found, wanted = recovery_watch.held(river), recovery_watch.expected(self.rows)
            for name, value in wanted.items():
                assert value and found[name] == value, name


@pytest.fixture(scope="session")
def cache(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path | None:
    """An archive of Spark's classes, when so many JVMs will be started that making one is worth it."""
    marks = [{mark.name for mark in item.iter_markers()} for item in request.session.items]
    if sum({"spark", "recovery"} <= names for names in marks) < 3:
        return None
    path = Path(os.environ.get("XDG_CACHE_HOME") or tmp_path_factory.mktemp("cache"))
    made = "import riverrun.spark.archive as archive; archive.make()"
    subprocess.run(
        [sys.executable, "-W", "ignore", "-c", made], env={**os.environ, "XDG_CACHE_HOME": str(path)}, check=True
    )
    return path


@pytest.fixture
def open_shop(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[..., Shop]]:
    """open_shop(retention=…) makes a river with an empty topic of orders; what still runs at the end is killed."""
    opened: list[Shop] = []
    cache = request.getfixturevalue("cache") if request.node.get_closest_marker("spark") else None

    def make(kind: type[Shop] = Shop, **topic: object) -> Shop:
        shop = kind(tmp_path / f"shop-{len(opened)}", cache, **topic)
        opened.append(shop)
        return shop

    yield make
    for shop in opened:
        shop.end()


@pytest.fixture
def a_shop(open_shop: Callable[..., Shop]) -> Shop:
    return open_shop()


@pytest.fixture
def a_kafka_shop(open_shop: Callable[..., Shop]) -> Shop:
    return open_shop(KafkaShop)


@pytest.fixture
def a_market(open_shop: Callable[..., Shop]) -> Shop:
    return open_shop(Market)


@pytest.fixture
def a_watch(open_shop: Callable[..., Shop]) -> Shop:
    return open_shop(WatchedEvents)
