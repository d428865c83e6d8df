"""Many who follow a topic over HTTP (SSE) while rows go in: how long until each has them, and what memory that takes.

A row in each batch carries its number and when it was due. Everybody must get every row, and these in their order.
"""

from __future__ import annotations

import json
import re
import selectors
import shutil
import socket
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from bench.crew import Crew
from bench.effort import Effort
from bench.figure import Figure, check
from bench.serve.server import AT, BATCH, PACE, ServerProcess, paced, served
from riverrun.river import River

_MARK = re.compile(rb'"user":"batch-(\d+)","amount":([0-9.]+)')
_PLAIN = [{"user": f"u{i}", "amount": i * 1.5, "at": AT} for i in range(BATCH - 1)]
_PATIENCE = 60.0  # seconds for what is still on its way when all has been sent
_WARM = 20  # requests before anything is measured


def run(directory: str, effort: Effort) -> Iterator[Figure]:
    path = f"{directory}/river"
    with River(path) as river:
        river.topic("orders", "user string, amount double, at timestamp", key="user", time="at")
    with served(path) as server, Crew(1) as crew:
        paced(server.place, _WARM, _body)
        before = server.resident()
        crew.prepare(_connect, server.place, effort.streams, effort.wakes)
        _wait_for(server, effort.streams)
        crew.begin(_follow)
        sent = np.array(paced(server.place, effort.wakes, _body))
        [found] = crew.results()
        after = server.resident()
    for rows, numbers, _ in found:
        check(effort.wakes * BATCH, rows, "rows that a client got")
        check(list(range(effort.wakes)), numbers, "batches that a client got, in order")
    shutil.rmtree(path)
    delays = np.concatenate([delay for _, _, delay in found])
    case = f"{effort.streams} clients, {PACE * BATCH} rows/s"
    for name, times in (("append", sent), ("delivery", delays)):
        for percentile in (50, 99):
            yield Figure(
                benchmark="streams",
                case=f"{case}, {name} p{percentile}",
                unit="s",
                value=float(np.percentile(times, percentile)),
                spread=0.0,
            )
    yield Figure(
        benchmark="streams",
        case=f"{case}, the server's memory",
        unit="MB",
        value=after / 1e6,
        spread=0.0,
        reference="without clients",
        reference_value=before / 1e6,
        ratio=after / before,
    )


def _body(number: int, due: float) -> bytes:
    return json.dumps([*_PLAIN, {"user": f"batch-{number}", "amount": due, "at": AT}]).encode()


def _wait_for(server: ServerProcess, clients: int) -> None:
    """Until the server counts all of them."""
    deadline = time.monotonic() + _PATIENCE
    wanted = f"riverrun_http_streams {float(clients)}\n"
    while True:
        with urllib.request.urlopen(f"{server.url}/metrics") as answer:
            if wanted in answer.read().decode():
                return
        check(True, time.monotonic() < deadline, "all clients are connected in time")
        time.sleep(0.1)


@dataclass
class Client:
    """One who follows."""

    connection: socket.socket
    rows: int = 0
    numbers: list[int] = field(default_factory=list)
    delays: list[float] = field(default_factory=list)
    rest: bytes = b""

    def take(self) -> None:
        """What has come."""
        part = self.connection.recv(1 << 20)
        now = time.perf_counter()
        check(True, bool(part), "the stream goes on")
        events, end, self.rest = (self.rest + part).rpartition(b"\n\n")
        whole = events + end
        self.rows += whole.count(b"data: {")
        for number, due in _MARK.findall(whole):
            self.numbers.append(int(number))
            self.delays.append(now - float(due))


def _connect(number: int, place: str, clients: int, batches: int) -> tuple[list[Client], int]:
    host, _, port = place.rpartition(":")
    made = []
    for _ in range(clients):
        connection = socket.create_connection((host, int(port)))
        connection.sendall(f"GET /topics/orders/tail HTTP/1.1\r\nHost: {place}\r\n\r\n".encode())
        made.append(Client(connection))
    return made, batches


def _follow(prepared: tuple[list[Client], int]) -> list[tuple[int, list[int], np.ndarray]]:
    clients, batches = prepared
    deadline = time.monotonic() + batches / PACE + _PATIENCE
    with selectors.DefaultSelector() as selector:
        for client in clients:
            selector.register(client.connection, selectors.EVENT_READ, client)
        left = len(clients)
        while left and time.monotonic() < deadline:
            for key, _ in selector.select(1.0):
                key.data.take()
                if key.data.rows >= batches * BATCH:
                    selector.unregister(key.data.connection)
                    left -= 1
    for client in clients:
        client.connection.close()
    return [(client.rows, client.numbers, np.array(client.delays)) for client in clients]
