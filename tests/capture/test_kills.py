"""Real processes that capture a real PostgreSQL, killed at every step; servers that restart; connections that are cut."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import polars as pl
import psycopg2
import pytest

from postgres_server import logical_server

PROGRAM = Path(__file__).parents[1] / "programs" / "capture.py"
PLACES = (
    "capture.progress",
    "capture.noted",
    "capture.slot",
    "capture.slotted",
    "capture.fenced",
    "capture.append",
    "capture.appended",
    "capture.record",
    "capture.recorded",
    "capture.chunk",
    "capture.chunked",
    "capture.finished",
    "capture.confirm",
)
COMPARED = ["id", "n", "body", "_deleted", "_partition", "_offset"]
FEW = ("capture.slotted", "capture.append", "capture.appended:2", "capture.chunked:2", "capture.confirm:2")


class Loaded:
    """Accounts and a ledger in PostgreSQL, written to in transactions that add up to zero."""

    def __init__(self, shop: Any) -> None:
        self.shop = shop
        self.round = 0
        shop.sql("create table accounts (id int primary key, balance int not null, note text)")
        shop.sql("alter table accounts alter note set storage external")
        shop.sql("create table ledger (id bigserial primary key, account int, delta int)")
        shop.sql("insert into accounts select i, 0, repeat(i::text, 3000) from generate_series(1, 120) i")

    def write(self) -> None:
        """A transfer, a key that changes, a delete and an insert; now and then a transaction that is cut."""
        self.round += 1
        one, other, amount = self.round % 120 + 1, self.round * 7 % 120 + 1, self.round % 9
        transfer = (
            f"update accounts set balance = balance - {amount} where id = {one};"
            f"update accounts set balance = balance + {amount} where id = {other};"
            f"insert into ledger (account, delta) values ({one}, -{amount}), ({other}, {amount});"
        )
        more = ""
        if self.round % 5 == 0:
            more = f"update accounts set id = id + 1000 where id = {one}; update accounts set id = {one} where id = {one} + 1000;"
        if self.round % 11 == 0:
            more += "insert into ledger (account, delta) select 1, 0 from generate_series(1, 100);"
            more += "delete from ledger where delta = 0;"
        self.shop.sql(f"begin; {transfer} {more} commit")

    def start(self, *options: str, failpoints: str = "") -> subprocess.Popen[str]:
        command = [sys.executable, str(PROGRAM), str(self.shop.path / "river"), self.shop.url, self.shop.name]
        environ = {**os.environ, "RIVERRUN_FAILPOINTS": failpoints}
        return subprocess.Popen(
            [*command, "accounts", "ledger", *options],
            env=environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def complete(self) -> None:
        done = self.start("--once")
        _, errors = done.communicate(timeout=120)
        assert done.returncode == 0, errors

    def check(self) -> None:
        for table, columns in (("accounts", "id, balance, note"), ("ledger", "id, account, delta")):
            names = columns.split(", ")
            source = {
                row[0]: dict(zip(names, row, strict=True)) for row in self.shop.sql(f"select {columns} from {table}")
            }
            assert self.shop.replica(f"public.{table}") == source
        self._check_balance()

    def _check_balance(self) -> None:
        """From the end of the snapshot on, accounts are what the ledger says at every end that was told."""
        import json

        told = self.shop.told()
        done = next(i for i, row in enumerate(told) if row["kind"] == "snapshot_done")
        rows = {
            table: sorted(self.shop.rows(f"public.{table}"), key=lambda row: (row["_partition"], row["_offset"]))
            for table in ("accounts", "ledger")
        }
        for row in told[done:]:
            if row["kind"] == "part":
                continue
            ends = json.loads(row["ends"])
            sums = {}
            for table, column in (("accounts", "balance"), ("ledger", "delta")):
                limits = ends[f"{self.shop.name}.public.{table}"]
                kept: dict[int, int] = {}
                for one in rows[table]:
                    if one["_offset"] < limits[one["_partition"]]:
                        kept.pop(one["id"], None)
                        if not one["_deleted"]:
                            kept[one["id"]] = one[column]
                sums[table] = sum(kept.values())
            assert sums == {"accounts": 0, "ledger": 0}, row


@pytest.fixture
def loaded(shop: Any) -> Loaded:
    return Loaded(shop)


def killed_at(loaded: Loaded, place: str) -> bool:
    """Run with this failpoint until it is killed there; False if it never comes there."""
    process = loaded.start("--once", failpoints=f"{place}=kill")
    for _ in range(4):
        loaded.write()
    _, errors = process.communicate(timeout=120)
    assert process.returncode in (0, -signal.SIGKILL), errors
    return process.returncode != 0


def test_killed_at_some_steps(loaded):
    for place in FEW:
        loaded.write()
        killed_at(loaded, place)
    loaded.complete()
    loaded.check()


@pytest.mark.recovery
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("place", PLACES)
def test_killed_at_every_passage(loaded, place):
    for passage in range(1, 8):
        if not killed_at(loaded, f"{place}:{passage}") and passage > 3:
            break
    loaded.complete()
    loaded.check()


@pytest.mark.recovery
@pytest.mark.timeout(600)
def test_a_snapshot_of_a_million_rows_beside_writes_killed_five_times(shop):
    shop.sql("create table wide (id int primary key, n int, body text)")
    shop.sql("insert into wide select i, 0, 'row ' || i from generate_series(1, 1000000) i")
    stopped = threading.Event()

    def write() -> None:
        dice = random.Random(3)
        with closing(psycopg2.connect(shop.url)) as db, db.cursor() as cursor:
            while not stopped.is_set():
                key = dice.randrange(1, 1_000_000)
                cursor.execute("update wide set n = n + 1 where id between %s and %s", (key, key + 50))
                cursor.execute("update wide set id = -id where id = %s", (key + 60,))
                cursor.execute("delete from wide where id = %s", (key + 70,))
                db.commit()
                time.sleep(0.005)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        command = [
            sys.executable,
            str(PROGRAM),
            str(shop.path / "river"),
            shop.url,
            shop.name,
            "wide",
            "--chunk",
            "50000",
        ]
        for _ in range(5):
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
                assert process.stdout is not None
                assert process.stdout.readline() == "runs\n"
                time.sleep(0.6)
                process.kill()
    finally:
        stopped.set()
        writer.join()
    subprocess.run([*command, "--once"], check=True, stdout=subprocess.DEVNULL)
    rows = pl.from_arrow(shop.river.topic(f"{shop.name}.public.wide").read(columns=COMPARED))
    assert isinstance(rows, pl.DataFrame)
    newest = rows.sort("_partition", "_offset").group_by("id").last().filter(~pl.col("_deleted"))
    source = pl.DataFrame(shop.sql("select id, n, body from wide"), schema=["id", "n", "body"], orient="row")
    assert newest.select(pl.col("id", "n").cast(pl.Int64), "body").sort("id").equals(source.sort("id"))


def test_a_server_that_restarts_and_a_connection_that_is_cut(tmp_path):
    from captured_shop import Shop

    server = logical_server(16)
    try:
        shop = Shop(server, tmp_path)
        loaded = Loaded(shop)
        with shop.capture("accounts", "ledger") as capture:
            capture.wait_until_it_runs()
            loaded.write()
            shop.sql("select pg_terminate_backend(pid) from pg_stat_replication")
            loaded.write()
            _wait(lambda: capture.status()["state"] == "streaming" and capture.status()["lag_bytes"] == 0)
            shop._db.close()
            server.stop()
            _wait(lambda: capture.status()["state"] == "waiting")
            assert "Is the server there?" in capture.status()["reason"]
            server.start()
            loaded.write()
            _wait(lambda: capture.status()["state"] == "streaming")
            server.stop("immediate")
            server.start()
            shop._db.close()
            loaded.write()
            _wait(lambda: len(shop.replica("public.ledger")) == 8)
        loaded.complete()
        loaded.check()
        shop.close()
    finally:
        server.remove()


def test_a_slot_that_the_server_gave_up(tmp_path):
    from captured_shop import Shop
    from postgres_server import LOGICAL
    from riverrun.errors import Conflict

    server = logical_server(18, f"{LOGICAL} -c max_slot_wal_keep_size=1MB -c max_wal_size=32MB -c min_wal_size=32MB")
    try:
        shop = Shop(server, tmp_path)
        shop.sql("create table t (id int primary key, x text); insert into t values (1, 'a')")
        shop.once("t")
        for _ in range(4):
            shop.sql("create table w as select repeat('x', 1000) from generate_series(1, 20000); drop table w")
            shop.sql("select pg_switch_wal(); checkpoint")
        shop.sql("insert into t values (2, 'b')")
        with pytest.raises(Conflict, match=r"no longer usable.*--resnapshot all"):
            shop.once("t")
        shop.once("t", resnapshot=["all"])
        assert set(shop.replica("public.t")) == {1, 2}
        shop.close()
    finally:
        server.remove()


def _wait(condition: Any, seconds: float = 40.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it does not happen"
        time.sleep(0.05)
