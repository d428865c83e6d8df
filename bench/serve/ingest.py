"""Events over HTTP into a server that is a process of its own: at the pace that is promised, and as fast as it goes."""

from __future__ import annotations

import http.client
import json
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import numpy as np

from bench.effort import Effort
from bench.figure import Figure, Stopwatch, check, spread
from riverrun.river import River

BATCH = 100
PACE = 20  # requests a second: 2 000 rows
TARGET = 0.1
_CLIENTS = 8
_BODY = json.dumps([{"user": f"u{i}", "amount": i * 1.5, "at": "2026-01-31T12:00:00Z"} for i in range(BATCH)]).encode()


def run(directory: str, effort: Effort) -> Iterator[Figure]:
    path = f"{directory}/river"
    with River(path) as river:
        river.topic("orders", "user string, amount double, at timestamp", key="user", time="at")
    sent = 0
    with _served(path) as url:
        _requests(url, 10)
        times = np.array(_paced(url, effort.wakes))
        sent += 10 + len(times)
        for percentile, target in ((50, None), (99, TARGET)):
            yield Figure(
                benchmark="http",
                case=f"{PACE * BATCH} rows/s in batches of {BATCH}, p{percentile}",
                unit="s",
                value=float(np.percentile(times, percentile)),
                spread=0.0,
                target=target,
                less_is_better=True,
            )
        each = max(effort.wakes // _CLIENTS, 1)
        rates = []
        for _ in range(effort.rounds):
            watch = Stopwatch()
            threads = [threading.Thread(target=_requests, args=(url, each)) for _ in range(_CLIENTS)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            rates.append(_CLIENTS * each * BATCH / watch.read().seconds)
            sent += _CLIENTS * each
        yield Figure(
            benchmark="http",
            case=f"{_CLIENTS} clients, batches of {BATCH}",
            unit="rows/s",
            value=float(np.median(rates)),
            spread=spread(rates),
        )
    with River(path) as river:
        check(sent * BATCH, river.topic("orders").read(columns=["user"]).num_rows, "rows in the topic")
    shutil.rmtree(path)


@contextmanager
def _served(path: str) -> Iterator[str]:
    command = [sys.executable, "-m", "riverrun.cli", "serve", "--json", "--port", "0", "--river", path]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        said = ""
        while not said.endswith("}\n"):
            line = process.stdout.readline()
            check(True, bool(line), "the server starts")
            said += line
        try:
            yield json.loads(said)["url"]
        finally:
            process.terminate()
    check(0, process.returncode, "exit code of the server")


def _paced(url: str, count: int) -> list[float]:
    """Seconds of each request, counted from when it was due: a slow one makes the next ones late."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc)
    begun, times = time.perf_counter(), []
    for i in range(count):
        due = begun + i / PACE
        time.sleep(max(0.0, due - time.perf_counter()))
        _request(connection)
        times.append(time.perf_counter() - due)
    connection.close()
    return times


def _requests(url: str, count: int) -> None:
    connection = http.client.HTTPConnection(urlsplit(url).netloc)
    for _ in range(count):
        _request(connection)
    connection.close()


def _request(connection: http.client.HTTPConnection) -> None:
    connection.request("POST", "/topics/orders", _BODY, {"content-type": "application/json"})
    answer = connection.getresponse()
    answer.read()
    check(202, answer.status, "status of an append")
