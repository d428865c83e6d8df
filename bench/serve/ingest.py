"""Events over HTTP into a server that is a process of its own: at the pace that is promised, and as fast as it goes."""

from __future__ import annotations

import http.client
import json
import shutil
import threading
from collections.abc import Iterator

import numpy as np

from bench.effort import Effort
from bench.figure import Figure, Stopwatch, check, spread
from bench.serve.server import AT, BATCH, PACE, append, paced, served
from riverrun.river import River

TARGET = 0.1
_CLIENTS = 8
_BODY = json.dumps([{"user": f"u{i}", "amount": i * 1.5, "at": AT} for i in range(BATCH)]).encode()


def run(directory: str, effort: Effort) -> Iterator[Figure]:
    path = f"{directory}/river"
    with River(path) as river:
        river.topic("orders", "user string, amount double, at timestamp", key="user", time="at")
    sent = 0
    with served(path) as server:
        _requests(server.place, 10)
        times = np.array(paced(server.place, effort.wakes, lambda number, due: _BODY))
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
            threads = [threading.Thread(target=_requests, args=(server.place, each)) for _ in range(_CLIENTS)]
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


def _requests(place: str, count: int) -> None:
    connection = http.client.HTTPConnection(place)
    for _ in range(count):
        append(connection, _BODY)
    connection.close()
