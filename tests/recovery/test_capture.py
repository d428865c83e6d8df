"""Databases under load, a capture and a flow that are killed again and again, servers that restart: the views are the
tables, and what belongs to one transaction is never seen in part, in no epoch."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import ledger
from captured_file import FileShop
from captured_ledger import CapturedLedger
from captured_shop import CapturedRiver, MariaShop, Shop
from mariadb_server import MariaServer, program
from postgres_server import logical_server

PROGRAMS = Path(__file__).parents[1] / "programs"
Process = subprocess.Popen[Any]


class Bank(ABC):
    """A database that is written to, and the processes that follow it."""

    flow: str  # of recovery_flows.py; it has a view of each table, by the table's name, and one of sums
    tables: Mapping[str, Sequence[str]]  # with their columns

    def __init__(self, shop: CapturedRiver) -> None:
        self.shop = shop

    @abstractmethod
    def load(self, seconds: float) -> list[Process]:
        """Processes that write for so long."""

    @abstractmethod
    def disturb(self, load: Sequence[Process], dice: random.Random) -> None:
        """What happens to databases: afterwards the load has ended, and can begin again."""

    @abstractmethod
    def is_whole(self, sums: Mapping[str, Any]) -> bool:
        """Whether this is what tables add up to between two transactions."""

    def _program(self, name: str, *arguments: str, failpoints: str = "") -> Process:
        command = [sys.executable, str(PROGRAMS / name), str(self.shop.path / "river"), *arguments]
        prefix = f"{self.shop.name}.{self.shop.schema}"
        environment = {**os.environ, "CAPTURED": prefix, "RIVERRUN_FAILPOINTS": failpoints}
        with open(self.shop.path / "errors", "ab") as errors:
            return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors, env=environment)

    @property
    def errors(self) -> str:
        return (self.shop.path / "errors").read_text()

    def capture(self, *options: str, failpoints: str = "") -> Process:
        # One segment: compaction must not overtake the flow, which is behind whenever it was killed.
        sizes = ("--chunk", "20000", "--part", "100000", "--segment", str(1 << 32))
        asked = (self.shop.url, self.shop.name, *self.tables, *sizes, *options)
        return self._program("capture.py", *asked, failpoints=failpoints)

    def follow(self) -> Process:
        return self._program("run_without_spark.py", "--flow", self.flow, "--max-rows", "2000")

    def finished(self, process: Process) -> None:
        assert process.wait(300) == 0, self.errors

    def check(self) -> None:
        river = self.shop.river
        for table, columns in self.tables.items():
            source = sorted(tuple(row) for row in self.shop.sql(f"select {', '.join(columns)} from {table}"))
            replica = sorted(tuple(row[name] for name in columns) for row in river.view(table).rows())
            assert replica == source, f"view {table} is not the table"
        seen = [change.after for change in river.view("sums").changes(timeout=1) if change.after]
        assert len({tuple(row.values()) for row in seen}) > 10
        assert [row for row in seen if not self.is_whole(row)] == []


class PgbenchBank(Bank):
    """The tables of pgbench, and beside its own load: keys that change, deletes, values that are not sent again."""

    flow = "bank"
    tables = {
        "pgbench_accounts": ("aid", "bid", "abalance"),
        "pgbench_tellers": ("tid", "bid", "tbalance"),
        "pgbench_branches": ("bid", "bbalance"),
        "notes": ("id", "amount", "body"),
    }
    script = """
        \\set a random(1, 200)
        \\set b random(201, 400)
        \\set d random(1, 100)
        begin;
        update notes set amount = amount - :d where id = :a;
        update notes set amount = amount + (select count(*) from notes where id = :a) * :d where id = :b;
        update notes set id = id + 1000 where id = :a and not exists (select 1 from notes where id = :a + 1000);
        update notes set id = :a where id = :a + 1000;
        insert into notes values (:a * 10000 + :b, 0, 'short') on conflict (id) do nothing;
        delete from notes where id = :a * 10000 + :b and amount = 0;
        end;
    """

    def __init__(self, shop: Shop) -> None:
        super().__init__(shop)
        self.server = shop.server
        shop.sql("create table notes (id int primary key, amount bigint not null, body text)")
        shop.sql("alter table notes alter body set storage external")
        shop.sql("insert into notes select i, 0, repeat('x', 4000) || i from generate_series(1, 400) i")
        self._pgbench("-i", "-s", "1", "-q").wait()
        (shop.path / "notes.sql").write_text(self.script)

    def _pgbench(self, *options: str) -> Process:
        command = [str(self.server.programs / "pgbench"), "-h", str(self.server.directory), "-U", "riverrun", *options]
        return subprocess.Popen([*command, self.shop.name], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def load(self, seconds: float) -> list[Process]:
        mixed = ("-b", "tpcb-like@3", "-f", f"{self.shop.path}/notes.sql@1")
        return [self._pgbench("-n", "-c", "3", "-T", str(int(seconds) or 1), "-R", "400", *mixed)]

    def disturb(self, load: Sequence[Process], dice: random.Random) -> None:
        restart(self.shop, load, dice)

    def is_whole(self, sums: Mapping[str, Any]) -> bool:
        return sums["accounts"] == sums["tellers"] == sums["branches"] and sums["notes"] == 0


class LedgerBank(Bank):
    """Accounts and a ledger, which two processes write to."""

    flow = "books"
    tables = ledger.TABLES

    def __init__(self, shop: CapturedRiver) -> None:
        super().__init__(shop)
        self._ledger = CapturedLedger(shop)

    def load(self, seconds: float) -> list[Process]:
        return self._ledger.writers("--seconds", str(seconds), "--rate", "100")

    def disturb(self, load: Sequence[Process], dice: random.Random) -> None:
        if isinstance(self.shop, MariaShop):
            restart(self.shop, load, dice)
        else:  # a file has no server; who dies in a transaction leaves the rest to who comes next
            for process in load:
                process.kill()
                process.communicate()

    def is_whole(self, sums: Mapping[str, Any]) -> bool:
        return sums["balance"] == sums["delta"] == 0 and sums["accounts"] == sums["entries"]

    def check(self) -> None:
        super().check()
        self._ledger.check()


def restart(shop: Shop | MariaShop, load: Sequence[Process], dice: random.Random) -> None:
    shop.disconnect()
    dice.choice([shop.server.stop, shop.server.crash])()
    shop.server.start()
    for process in load:
        process.communicate()


def play(bank: Bank, seconds: float, kills: int, disturbances: int) -> None:
    dice = random.Random(11)

    def capture_for_a_while() -> Process:
        """It dies by itself between two appends: then one topic has a transaction that another one has not."""
        return bank.capture(failpoints=f"capture.append:{dice.randrange(20, 200)}=kill")

    bank.finished(bank.capture("--once"))
    begun = time.monotonic()
    deadline = begun + seconds
    moments = sorted(dice.uniform(0, seconds) for _ in range(kills))
    stops = [seconds * (i + 1) / (disturbances + 1) for i in range(disturbances)]
    load, capture, flow = bank.load(seconds), capture_for_a_while(), bank.follow()
    while time.monotonic() < deadline:
        passed = time.monotonic() - begun
        if moments and passed >= moments[0]:
            moments.pop(0)
            victim = dice.choice([capture, flow])
            victim.send_signal(signal.SIGKILL)
            victim.wait()
        if stops and passed >= stops[0]:
            stops.pop(0)
            bank.disturb(load, dice)
            load = bank.load(deadline - time.monotonic())
        if capture.poll() is not None:
            assert capture.returncode == -signal.SIGKILL, bank.errors
            capture = capture_for_a_while()
        if flow.poll() is not None:
            assert flow.returncode in (0, -signal.SIGKILL), bank.errors
            flow = bank.follow()
        time.sleep(0.05)
    for process in load:
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors
    for process in (capture, flow):
        process.kill()
        process.wait()
    bank.finished(bank.capture("--once"))
    bank.finished(bank.follow())
    bank.check()


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Callable[[str], CapturedRiver]]:
    """A database of a dialect, with a server of its own."""
    shops: list[Shop | MariaShop | FileShop] = []

    def open_shop(dialect: str) -> CapturedRiver:
        if dialect == "mariadb" and program("mariadbd") is None:
            pytest.skip("there is no mariadbd; `make servers` installs it where it may")
        if dialect == "postgresql":
            shops.append(Shop(logical_server(18), tmp_path))
        else:
            shops.append(MariaShop(MariaServer(), tmp_path) if dialect == "mariadb" else FileShop(tmp_path))
        return shops[-1]

    yield open_shop
    for shop in shops:
        shop.close()
        if not isinstance(shop, FileShop):
            shop.server.remove()


@pytest.mark.recovery
@pytest.mark.timeout(900)
def test_three_minutes_of_pgbench(opened):
    play(PgbenchBank(opened("postgresql")), 180, kills=10, disturbances=2)


@pytest.mark.recovery
@pytest.mark.timeout(600)
@pytest.mark.parametrize("dialect", ["mariadb", "sqlite"])
def test_a_minute_of_two_processes_that_write(opened, dialect):
    play(LedgerBank(opened(dialect)), 60, kills=8, disturbances=2)
