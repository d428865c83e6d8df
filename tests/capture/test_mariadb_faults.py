"""Real processes that capture a real MariaDB, killed at every step; servers that restart; binary logs that are lost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from captured_shop import MariaShop
from mariadb_server import MariaServer, program
from riverrun.errors import Conflict, Unavailable

PROGRAM = Path(__file__).parents[1] / "programs" / "capture.py"
PLACES = (
    "capture.progress",
    "capture.noted",
    "capture.placed",
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
FEW = ("capture.placed", "capture.append", "capture.appended:2", "capture.chunked:2", "capture.confirm:2")


class LoadedMaria:
    """Accounts and a ledger in MariaDB, written to in transactions that add up to zero."""

    def __init__(self, shop: MariaShop) -> None:
        self.shop = shop
        self.round = 0
        shop.sql("create table accounts (id int primary key, balance int not null, note text)")
        shop.sql("create table ledger (id bigint auto_increment primary key, account int, delta int)")
        shop.sql("insert into accounts select seq, 0, repeat(seq, 100) from seq_1_to_120")

    def write(self) -> None:
        """A transfer, a key that changes, a delete and an insert; now and then a transaction that is cut."""
        self.round += 1
        one, other, amount = self.round % 120 + 1, self.round * 7 % 120 + 1, self.round % 9
        steps = [
            f"update accounts set balance = balance - {amount} where id = {one}",
            f"update accounts set balance = balance + {amount} where id = {other}",
            f"insert into ledger (account, delta) values ({one}, -{amount}), ({other}, {amount})",
        ]
        if self.round % 5 == 0:
            steps += [
                f"update accounts set id = id + 1000 where id = {one}",
                f"update accounts set id = {one} where id = {one} + 1000",
            ]
        if self.round % 11 == 0:
            steps += ["insert into ledger (account, delta) select 1, 0 from seq_1_to_100"]
            steps += ["delete from ledger where delta = 0"]
        self.shop.sql("; ".join(["begin", *steps, "commit"]))

    def start(self, *options: str, failpoints: str = "") -> subprocess.Popen[str]:
        command = [sys.executable, str(PROGRAM), str(self.shop.path / "river"), self.shop.url, self.shop.name]
        return subprocess.Popen(
            [*command, "accounts", "ledger", *options],
            env={**os.environ, "RIVERRUN_FAILPOINTS": failpoints},
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
            found = self.shop.sql(f"select {columns} from {table}")
            source = {row[0]: dict(zip(names, row, strict=True)) for row in found}
            assert self.shop.replica(f"{self.shop.database}.{table}") == source
        self._check_balance()

    def _check_balance(self) -> None:
        """From the end of the snapshot on, both tables add up to zero at every end that was told."""
        told = self.shop.told()
        done = next(i for i, row in enumerate(told) if row["kind"] == "snapshot_done")
        rows = {
            table: sorted(
                self.shop.rows(f"{self.shop.database}.{table}"), key=lambda row: (row["_partition"], row["_offset"])
            )
            for table in ("accounts", "ledger")
        }
        for row in told[done:]:
            if row["kind"] == "part":
                continue
            ends = json.loads(row["ends"])
            sums = {}
            for table, column in (("accounts", "balance"), ("ledger", "delta")):
                limits = ends[f"{self.shop.name}.{self.shop.database}.{table}"]
                kept: dict[int, int] = {}
                for one in rows[table]:
                    if one["_offset"] < limits[one["_partition"]]:
                        kept.pop(one["id"], None)
                        if not one["_deleted"]:
                            kept[one["id"]] = one[column]
                sums[table] = sum(kept.values())
            assert sums == {"accounts": 0, "ledger": 0}, row


@pytest.fixture
def loaded(maria: MariaShop) -> LoadedMaria:
    return LoadedMaria(maria)


def killed_at(loaded: LoadedMaria, place: str) -> bool:
    """Run with this failpoint until it is killed there; False if it never comes there."""
    process = loaded.start("--once", failpoints=f"{place}=kill")
    for _ in range(4):
        loaded.write()
    _, errors = process.communicate(timeout=120)
    assert process.returncode in (0, -signal.SIGKILL), errors
    return process.returncode != 0


def test_killed_at_some_steps(loaded):
    killed = 0
    for place in FEW:
        loaded.write()
        killed += killed_at(loaded, place)
    assert killed
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


@pytest.fixture
def own(tmp_path):
    """A server that a test may stop."""
    if program("mariadbd") is None:
        pytest.skip("there is no mariadbd; `make servers` installs it where it may")
    server = MariaServer()
    yield MariaShop(server, tmp_path)
    server.remove()


def test_a_server_that_restarts_and_a_connection_that_is_cut(own):
    loaded = LoadedMaria(own)
    with own.capture("accounts", "ledger") as capture:
        capture.wait_until_it_runs()
        loaded.write()
        _wait(lambda: _readers(own))
        own.sql(f"kill {_readers(own)[0]}")
        loaded.write()
        _wait(lambda: capture.status()["state"] == "streaming" and capture.status()["lag_bytes"] == 0)
        for how in (signal.SIGTERM, signal.SIGKILL):
            own.disconnect()
            own.server.stop(how)
            _wait(lambda: capture.status()["state"] == "waiting")
            assert "Is the server there?" in capture.status()["reason"]
            own.server.start()
            loaded.write()
            _wait(lambda: capture.status()["state"] == "streaming")
        _wait(lambda: len(own.replica(f"{own.database}.ledger")) == 8)
    loaded.complete()
    loaded.check()
    own.close()


@pytest.mark.parametrize("what", ["reset", "reset and as many again", "purged"])
def test_a_binary_log_that_lost_something_asks_for_a_new_snapshot(own, what):
    own.sql("create table orders (id int primary key, who varchar(20))")
    own.sql("insert into orders values (1, 'ada'), (2, 'bob')")
    own.once("orders")
    own.sql("insert into orders values (3, 'eve'); delete from orders where id = 1")
    if what == "purged":
        _wait(lambda: not _readers(own))
        own.sql("flush binary logs; flush binary logs")
        _wait(lambda: _purged(own))
    else:
        own.sql("reset master")
    if "again" in what:
        for number in range(10, 40):
            own.sql(f"insert into orders values ({number}, 'more')")
    with pytest.raises(Conflict, match="--resnapshot all"):
        own.once("orders")
    assert own.river.captures()[0]["state"] == "failed"
    own.once("orders", resnapshot=["all"])
    own.sql("update orders set who = 'eva' where id = 3")
    own.once("orders")
    source = {row[0]: {"id": row[0], "who": row[1]} for row in own.sql("select id, who from orders")}
    assert own.replica(f"{own.database}.orders") == source
    own.close()


def test_a_server_that_does_not_log_what_is_needed(tmp_path):
    if program("mariadbd") is None:
        pytest.skip("there is no mariadbd; `make servers` installs it where it may")
    server = MariaServer("--log-bin=bin", "--binlog-format=MIXED")
    try:
        shop = MariaShop(server, tmp_path)
        shop.sql("create table t (id int primary key)")
        with pytest.raises(
            Unavailable, match="binlog_format = MIXED, binlog_row_metadata = NO_LOG.*Set binlog_format = ROW"
        ):
            shop.once("t")
        shop.close()
    finally:
        server.remove()


def _purged(shop: MariaShop) -> bool:
    """Whether only the newest file is left; others stay until InnoDB has no use for them."""
    shop.sql(f"purge binary logs to '{shop.sql('show master status')[0][0]}'")
    return len(shop.sql("show binary logs")) == 1


def _readers(shop: MariaShop) -> list[int]:
    return [row[0] for row in shop.sql("show processlist") if row[4] == "Binlog Dump"]


def _wait(condition: Any, seconds: float = 40.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it does not happen"
        time.sleep(0.05)
