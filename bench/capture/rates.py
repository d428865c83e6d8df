"""B7: PostgreSQL to topics: rows of a snapshot, changes of the stream, and the memory that one large transaction takes.

The server is one of the tests' own, on this machine, and takes its part of the processors. The reference of the stream is
the server's own `pg_recvlogical`, which writes the same messages to a file and understands nothing of them.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import psycopg2
from tests.postgres_server import Server, logical_server

import riverrun as rr
from bench.crew import Crew
from bench.effort import Effort
from bench.figure import Figure, Stopwatch, Took, alternate, check, rates, spread

SNAPSHOT_TARGET = 200_000
STREAM_TARGET = 50_000
MEMORY_TARGET = 1.5e9
_COLUMNS = "id bigint primary key, who text, amount numeric(12,2), at timestamptz default now(), ok boolean"


def run(directory: str, effort: Effort) -> Iterator[Figure]:
    server = logical_server(18)
    try:
        with closing(psycopg2.connect(server.url)) as connection:
            connection.autocommit = True
            yield from _measure(server, connection.cursor(), directory, effort.captured_rows, effort)
    finally:
        server.remove()


def _measure(server: Server, db: Any, directory: str, rows: int, effort: Effort) -> Iterator[Figure]:
    db.execute(f"create table orders ({_COLUMNS})")
    db.execute(
        f"insert into orders (id, who, amount, ok) select i, 'user ' || i, i, true from generate_series(1, {rows}) i"
    )
    rounds = max(effort.rounds, 1)
    names = iter(f"bench{number}" for number in range(10_000))

    def snapshot() -> Took:
        return _captured(server, directory, next(names), rows)

    def copied() -> Took:
        watch = Stopwatch()
        with open(f"{directory}/copy", "wb") as file:
            db.copy_expert("copy orders to stdout", file)
        os.unlink(f"{directory}/copy")
        return watch.read()

    times = alternate(snapshot, copied, rounds)
    yield rates("capture", "snapshot", rows, times, reference="COPY to a file", target=SNAPSHOT_TARGET)
    yield _stream(server, db, directory, rows, rounds)
    yield _large(server, directory, effort.transaction_rows)


def _captured(server: Server, directory: str, name: str, rows: int) -> Took:
    with tempfile.TemporaryDirectory(dir=directory) as path, rr.River(path) as river:
        capture = river.capture(server.url, ["orders"], name)
        watch = Stopwatch()
        capture.run(once=True)
        took = watch.read()
        check(rows, sum(river.topic(f"{name}.public.orders").ends().values()), "rows of the snapshot")
    _drop_slot(server, f"riverrun_{name}")
    return took


def _stream(server: Server, db: Any, directory: str, rows: int, rounds: int) -> Figure:
    """Changes that wait in the log are read by both, from slots of their own."""
    path = f"{directory}/river"
    with rr.River(path) as river:
        river.capture(server.url, ["orders"], "stream", snapshot="never").run(once=True)
        db.execute("select pg_create_logical_replication_slot('recv', 'pgoutput')")
        mine: list[Took] = []
        other: list[Took] = []
        for _ in range(rounds):
            before = sum(river.topic("stream.public.orders").ends().values())
            for first in range(0, rows, 1000):
                db.execute(
                    "update orders set amount = amount + 1 where id between %s and %s", (first + 1, first + 1000)
                )
            db.execute("select pg_current_wal_insert_lsn()::text")
            (end,) = db.fetchone()
            watch = Stopwatch()
            river.capture(server.url, ["orders"], "stream").run(once=True)
            mine.append(watch.read())
            after = sum(river.topic("stream.public.orders").ends().values())
            check(rows, after - before, "changes of the stream")
            other.append(_received(server, directory, end))
    shutil.rmtree(path)
    for slot in ("recv", "riverrun_stream"):
        _drop_slot(server, slot)
    return rates(
        "capture",
        "stream",
        rows,
        (mine, other),
        unit="changes/s",
        reference="pg_recvlogical to a file",
        target=STREAM_TARGET,
    )


def _received(server: Server, directory: str, end: str) -> Took:
    command = [str(server.programs / "pg_recvlogical"), "-h", str(server.directory), "-U", "riverrun", "-d", "postgres"]
    options = ["-o", "proto_version=1", "-o", "publication_names=riverrun_stream", "--endpos", end, "--no-loop"]
    watch = Stopwatch()
    subprocess.run(
        [*command, "--slot", "recv", "--start", "-f", f"{directory}/received", *options],
        check=True,
        stderr=subprocess.DEVNULL,
    )
    os.unlink(f"{directory}/received")
    return Took(watch.read().seconds)


def _large(server: Server, directory: str, rows: int) -> Figure:
    """The most memory that a process has which captures one transaction of so many rows."""
    with Crew(1) as crew:
        (peak,) = crew.together(_prepare_large, _capture_large, server.url, directory, rows)
    return Figure(
        "capture",
        f"transaction of {rows} rows",
        "bytes",
        peak,
        spread([peak]),
        target=MEMORY_TARGET,
        less_is_better=True,
    )


def _prepare_large(_: int, url: str, directory: str, rows: int) -> tuple[str, str, int]:
    return url, directory, rows


def _capture_large(asked: tuple[str, str, int]) -> float:
    url, directory, rows = asked
    with closing(psycopg2.connect(url)) as connection, tempfile.TemporaryDirectory(dir=directory) as path:
        connection.autocommit = True
        db = connection.cursor()
        db.execute(f"create table large ({_COLUMNS})")
        with rr.River(path) as river:
            river.capture(url, ["large"], "large").run(once=True)
            db.execute(f"insert into large (id, who, amount) select i, 'x' || i, i from generate_series(1, {rows}) i")
            river.capture(url, ["large"], "large").run(once=True)
            check(rows, sum(river.topic("large.public.large").ends().values()), "rows of the transaction")
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0


def _drop_slot(server: Server, slot: str) -> None:
    with closing(psycopg2.connect(server.url)) as connection:
        connection.autocommit = True
        connection.cursor().execute("select pg_drop_replication_slot(%s)", (slot,))
