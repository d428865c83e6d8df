"""A real Kafka broker of the tests' own: one process (KRaft), on free ports of loopback, stopped at exit."""

from __future__ import annotations

import atexit
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from functools import cache
from pathlib import Path

import pytest

import kafka_jars
from riverrun.errors import Unavailable
from riverrun.java import find_java

_SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": 1,
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "controller.listener.names": "CONTROLLER",
    "offsets.topic.replication.factor": 1,
    "offsets.topic.num.partitions": 4,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "transaction.state.log.num.partitions": 4,
    "share.coordinator.state.topic.replication.factor": 1,
    "share.coordinator.state.topic.min.isr": 1,
    "group.initial.rebalance.delay.ms": 0,
    "auto.create.topics.enable": "false",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 1000,
    "log.retention.check.interval.ms": 1000,
    "log.initial.task.delay.ms": 1000,
    "log.cleaner.backoff.ms": 500,
    "log.cleaner.dedupe.buffer.size": 16 << 20,
    "log.segment.delete.delay.ms": 500,
    "file.delete.delay.ms": 500,
}
# One core for the JVM's own work is enough, and tests share the machine.
_JAVA = ("-Xmx512m", "-Xms128m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Djava.awt.headless=true")


class KafkaServer:
    """Starts and stops one broker; what it holds survives a stop and a kill."""

    def __init__(self, **settings: object) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="rr-kafka-"))
        self.port, controller = free_ports(2)
        self._java = find_java().executable
        given = {
            **_SETTINGS,
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "log.dirs": self.directory / "data",
            **{name.replace("_", "."): value for name, value in settings.items()},
        }
        self._file = self.directory / "server.properties"
        self._file.write_text("".join(f"{name}={value}\n" for name, value in given.items()))
        self._process: subprocess.Popen[bytes] | None = None
        format_storage = ["kafka.tools.StorageTool", "format", "-t", "cml2ZXJydW4tdGVzdHMtMQ", "-c", str(self._file)]
        done = subprocess.run(self._command(*format_storage), capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"Kafka's storage could not be made: {done.stdout}{done.stderr}")
        self.start()

    @property
    def brokers(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        return f"kafka://{self.brokers}"

    def start(self) -> None:
        """Start it, and return when it answers."""
        with open(self.directory / "log", "ab") as log:
            self._process = subprocess.Popen(
                self._command("kafka.Kafka", str(self._file)), cwd=self.directory, stdout=log, stderr=log
            )
        deadline = time.monotonic() + 120
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError((self.directory / "log").read_text()[-4000:])
            time.sleep(0.1)

    def stop(self, how: int = signal.SIGTERM) -> None:
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(120)
            self._process = None

    def pause(self) -> None:
        """Let it stand still, as a machine that is away: connections stay, nothing is answered."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def remove(self) -> None:
        self.stop(signal.SIGKILL)
        shutil.rmtree(self.directory, ignore_errors=True)

    def _command(self, *arguments: str) -> list[str]:
        # Java itself expands the star.
        return [self._java, *_JAVA, "-cp", f"{kafka_jars.jar_directory()}/*", *arguments]

    def _answers(self) -> bool:
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        try:
            with socket.create_connection(("127.0.0.1", self.port), 1):
                pass
            client = AdminClient({"bootstrap.servers": self.brokers, "log_level": 0})
            return bool(client.list_topics(timeout=2).brokers)
        except (OSError, KafkaException):
            return False


def new_kafka(**settings: object) -> KafkaServer:
    """A broker for one test or some; a test that misses what it needs is left out, and says so."""
    pytest.importorskip("confluent_kafka", reason="the Kafka client is not installed: pip install '.[kafka]'")
    if problem := kafka_jars.missing():
        pytest.skip(problem)
    try:
        find_java()
    except Unavailable as error:
        pytest.skip(error.message)
    server = KafkaServer(**settings)
    atexit.register(server.remove)
    return server


@cache
def shared_kafka() -> KafkaServer:
    """The one broker of a test process. Tests have topics of their own, by a prefix in the address."""
    return new_kafka()


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]
    finally:
        for one in sockets:
            one.close()
