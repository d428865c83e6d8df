"""A real Redis server of the tests' own, from Debian's package: on a free port of this machine, stopped at exit."""

from __future__ import annotations

import atexit
import shutil
import socket
import subprocess
import tempfile
import time
from functools import cache
from pathlib import Path

import pytest
import redis


class RedisServer:
    """Starts and stops one server; what it holds survives a stop unless it is emptied."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.start()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        command = ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "yes"]
        self._process = subprocess.Popen(
            [*command, "--dir", str(self.directory), "--appendfsync", "no"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        end = time.monotonic() + 30
        while True:
            try:
                with self.client() as client:
                    client.ping()
                    return
            except redis.ConnectionError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.02)

    def client(self) -> redis.Redis:
        return redis.Redis(port=self.port)

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait()

    def remove(self) -> None:
        self._process.kill()
        self._process.wait()
        shutil.rmtree(self.directory, ignore_errors=True)


def new_redis() -> RedisServer:
    """A server for one test; a test that misses the program is left out, and says so."""
    if shutil.which("redis-server") is None:
        pytest.skip("redis-server is not installed: make servers")
    server = RedisServer(Path(tempfile.mkdtemp(prefix="rr-redis-")))
    atexit.register(server.remove)
    return server


@cache
def shared_redis() -> RedisServer:
    """The one server of a test run."""
    return new_redis()
