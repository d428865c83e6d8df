"""`riverrun serve` as a process of its own, and requests to it at a pace."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from bench.figure import check

BATCH = 100
PACE = 20  # requests a second: 2 000 rows
AT = "2026-01-31T12:00:00Z"


@dataclass(frozen=True)
class ServerProcess:
    """Where it is, and its process."""

    url: str
    process: int

    @property
    def place(self) -> str:
        """Host and port."""
        return urlsplit(self.url).netloc

    def resident(self) -> int:
        """Bytes of memory that it takes now (Linux)."""
        status = Path(f"/proc/{self.process}/status").read_text(encoding="utf-8")
        return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmRSS:"))


@contextmanager
def served(path: str) -> Iterator[ServerProcess]:
    """Serve a river until the block is left."""
    command = [sys.executable, "-m", "riverrun.cli", "serve", "--json", "--port", "0", "--river", path]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        said = ""
        while not said.endswith("}\n"):
            line = process.stdout.readline()
            check(True, bool(line), "the server starts")
            said += line
        try:
            yield ServerProcess(json.loads(said)["url"], process.pid)
        finally:
            process.terminate()
    check(0, process.returncode, "exit code of the server")


def paced(place: str, count: int, body: Callable[[int, float], bytes]) -> list[float]:
    """Seconds of each request, counted from when it was due: a slow one makes the next ones late. `body` gets the number
    of a request, and when it is due."""
    connection = http.client.HTTPConnection(place)
    begun, times = time.perf_counter(), []
    for i in range(count):
        due = begun + i / PACE
        time.sleep(max(0.0, due - time.perf_counter()))
        append(connection, body(i, due))
        times.append(time.perf_counter() - due)
    connection.close()
    return times


def append(connection: http.client.HTTPConnection, body: bytes) -> None:
    """One request that must be accepted."""
    connection.request("POST", "/topics/orders", body, {"content-type": "application/json"})
    answer = connection.getresponse()
    answer.read()
    check(202, answer.status, "status of an append")
