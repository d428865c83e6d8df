"""A Spark cluster of the tests' own: a standalone master and workers from the pyspark wheel, each with directories of its own,
on free ports of loopback."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from kafka_server import free_ports
from riverrun.java import find_java
from riverrun.spark.session import spark_home

LOOPBACK = {
    "SPARK_LOCAL_IP": "127.0.0.1",
    "SPARK_LOCAL_HOSTNAME": "127.0.0.1",
}  # else names are asked for, and nobody answers


class SparkCluster:
    """A master and some workers, each with room for an executor of two drivers: one may sleep while another one takes over.

    `configure` says what Spark's own files of settings say; drivers get them by `environment`.
    """

    def __init__(self, workers: int = 2, bare: bool = False, hidden: Path | None = None) -> None:
        """Bare ones have nothing of the environment that the tests run in. A hidden directory is empty for workers, as one of
        another machine would be."""
        if hidden is not None and os.geteuid() != 0:
            pytest.skip("only root can hide a directory from workers")
        self._hidden = hidden
        self._inherited = {"PATH": "/usr/bin:/bin"} if bare else dict(os.environ)
        self.directory = Path(tempfile.mkdtemp(prefix="rr-spark-"))
        self._configuration = self.directory / "conf"
        self._configuration.mkdir()
        self.configure()
        (self._port,) = free_ports(1)
        self._processes: list[subprocess.Popen[bytes]] = []
        self._start("master", "master.Master", "--host", "127.0.0.1", "--port", str(self._port), "--webui-port", "0")
        self._wait()
        for number in range(workers):
            self.start_worker(number)

    @property
    def url(self) -> str:
        return f"spark://127.0.0.1:{self._port}"

    @property
    def environment(self) -> dict[str, str]:
        """What a driver needs to find it."""
        return {"RIVERRUN_MASTER": self.url, "SPARK_CONF_DIR": str(self._configuration), **LOOPBACK}

    def configure(self, **more: str) -> None:
        """Options of Spark for drivers that start from now on; a dot is written as two underscores."""
        options = {"spark.cores.max": "2", "spark.executor.cores": "1", "spark.executor.memory": "700m"}
        options |= {f"spark.{name.replace('__', '.')}": value for name, value in more.items()}
        lines = "".join(f"{name} {value}\n" for name, value in options.items())
        (self._configuration / "spark-defaults.conf").write_text(lines)

    def start_worker(self, number: int) -> None:
        host = f"127.0.0.{number + 1}"  # Spark lets nobody overtake a task on the same one
        options = ("--cores", "2", "--memory", "1600m", "--work-dir", str(self.directory / f"worker-{number}"))
        self._start(
            f"worker-{number}", "worker.Worker", *options, "--host", host, "--webui-port", "0", self.url, host=host
        )

    def executors(self) -> list[psutil.Process]:
        """The JVMs that tasks run in."""
        found = []
        for process in self._processes:
            for child in psutil.Process(process.pid).children(recursive=True):
                with suppress(psutil.NoSuchProcess):
                    if "CoarseGrainedExecutorBackend" in " ".join(child.cmdline()):
                        found.append(child)
        return found

    def pythons(self) -> set[str]:
        """The programs that tasks run in."""
        found = set()
        for executor in self.executors():
            for task in executor.children(recursive=True):
                with suppress(psutil.NoSuchProcess):
                    found.add(task.exe())
        return found

    def stopped(self) -> list[tuple[psutil.Process, psutil.Process]]:
        """Tasks that stopped themselves at a failpoint, each with its executor."""
        found = []
        for executor in self.executors():
            with suppress(psutil.NoSuchProcess):
                for task in executor.children(recursive=True):
                    with suppress(psutil.NoSuchProcess):
                        if task.status() == psutil.STATUS_STOPPED:
                            found.append((task, executor))
        return found

    def caches(self) -> list[Path]:
        """Where each worker keeps copies of state that is in a bucket."""
        return sorted(self.directory.glob("worker-*-local/cache/riverrun/state"))

    def stop(self) -> None:
        for process in reversed(self._processes):
            for one in [*psutil.Process(process.pid).children(recursive=True), process]:
                try:
                    one.send_signal(signal.SIGKILL)
                except (psutil.NoSuchProcess, ProcessLookupError):
                    continue
            process.wait(30)
        shutil.rmtree(self.directory, ignore_errors=True)

    def _start(self, name: str, main: str, *arguments: str, host: str = "127.0.0.1") -> None:
        local = self.directory / f"{name}-local"
        local.mkdir()
        environment = {
            **self._inherited,
            "JAVA_HOME": str(Path(find_java().executable).resolve().parents[1]),
            "SPARK_LOCAL_DIRS": str(local),
            "XDG_CACHE_HOME": str(local / "cache"),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_NO_DAEMONIZE": "1",
            "SPARK_LOCAL_IP": host,
            "SPARK_LOCAL_HOSTNAME": host,
        }
        with (self.directory / f"{name}.log").open("wb") as log:
            command = [f"{spark_home()}/bin/spark-class", f"org.apache.spark.deploy.{main}", *arguments]
            if self._hidden is not None:
                command = [
                    "unshare",
                    "-m",
                    "sh",
                    "-c",
                    f'mount -t tmpfs none {self._hidden} && exec "$@"',
                    "sh",
                    *command,
                ]
            self._processes.append(subprocess.Popen(command, env=environment, stdout=log, stderr=log))

    def _wait(self) -> None:
        deadline = time.monotonic() + 60
        while True:
            try:
                socket.create_connection(("127.0.0.1", self._port), 1).close()
                return
            except OSError:
                assert time.monotonic() < deadline, (self.directory / "master.log").read_text()
                time.sleep(0.1)
