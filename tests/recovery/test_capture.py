"""pgbench writes, a capture and a flow are killed again and again, the server restarts: the views are the tables, and what
belongs to one transaction is never seen in part, in no epoch."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psycopg2
import pytest

import riverrun as rr
from postgres_server import logical_server

PROGRAMS = Path(__file__).parents[1] / "programs"
TABLES = ("pgbench_accounts", "pgbench_tellers", "pgbench_branches", "notes")
# Beside pgbench's own load: keys that change, deletes, values that are not sent again; what it adds up to stays 0.
SCRIPT = """
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


class Bank:
    """The server with pgbench's tables, and processes that are killed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.server = logical_server(18)
        with self.connected() as db:
            db.execute("create table notes (id int primary key, amount bigint not null, body text)")
            db.execute("alter table notes alter body set storage external")
            db.execute("insert into notes select i, 0, repeat('x', 4000) || i from generate_series(1, 400) i")
        self.pgbench("-i", "-s", "1", "-q").wait()
        (path / "notes.sql").write_text(SCRIPT)

    def connected(self) -> Any:
        connection = psycopg2.connect(self.server.url)
        connection.autocommit = True
        return connection.cursor()

    def pgbench(self, *options: str) -> subprocess.Popen[bytes]:
        command = [str(self.server.programs / "pgbench"), "-h", str(self.server.directory), "-U", "riverrun", *options]
        return subprocess.Popen([*command, "postgres"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def load(self, seconds: float) -> subprocess.Popen[bytes]:
        return self.pgbench(
            "-n", "-c", "3", "-T", str(int(seconds)), "-R", "400", "-b", "tpcb-like@3", "-f", f"{self.path}/notes.sql@1"
        )

    def program(self, name: str, *arguments: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, str(PROGRAMS / name), str(self.path / "river"), *arguments]
        with open(self.path / "errors", "ab") as errors:
            return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors)

    @property
    def errors(self) -> str:
        return (self.path / "errors").read_text()

    def capture(self, *options: str) -> subprocess.Popen[bytes]:
        # One segment: compaction must not overtake the flow, which is behind whenever it was killed.
        options = ("--chunk", "20000", "--part", "100000", "--segment", str(1 << 32), *options)
        return self.program("capture.py", self.server.url, "bank", *TABLES, *options)

    def flow(self) -> subprocess.Popen[bytes]:
        return self.program("run_without_spark.py", "--flow", "bank", "--max-rows", "2000")

    def finished(self, process: subprocess.Popen[bytes]) -> None:
        assert process.wait(300) == 0, self.errors

    def check(self) -> None:
        with rr.River(str(self.path / "river")) as river, self.connected() as db:
            for view, table, columns in (
                ("accounts", "pgbench_accounts", ("aid", "bid", "abalance")),
                ("tellers", "pgbench_tellers", ("tid", "bid", "tbalance")),
                ("branches", "pgbench_branches", ("bid", "bbalance")),
                ("notes", "notes", ("id", "amount", "body")),
            ):
                db.execute(f"select {', '.join(columns)} from {table}")
                source = sorted(tuple(row) for row in db.fetchall())
                replica = sorted(tuple(row[name] for name in columns) for row in river.view(view).rows())
                assert replica == source, f"view {view} is not table {table}"
            seen = [change.after for change in river.view("sums").changes(timeout=1) if change.after]
        assert len(seen) > 10
        assert [
            row for row in seen if len({row["accounts"], row["tellers"], row["branches"]}) > 1 or row["notes"]
        ] == []


@pytest.fixture
def bank(tmp_path):
    made = Bank(tmp_path)
    yield made
    made.server.remove()


def play(bank: Bank, seconds: float, kills: int, restarts: int) -> None:
    dice = random.Random(11)
    bank.finished(bank.capture("--once"))
    deadline = time.monotonic() + seconds
    moments = sorted(dice.uniform(0, seconds) for _ in range(kills))
    stops = [seconds * (i + 1) / (restarts + 1) for i in range(restarts)]
    begun = time.monotonic()
    load, capture, flow = bank.load(seconds), bank.capture(), bank.flow()
    while time.monotonic() < deadline:
        passed = time.monotonic() - begun
        if moments and passed >= moments[0]:
            moments.pop(0)
            victim = dice.choice([capture, flow])
            victim.send_signal(signal.SIGKILL)
            victim.wait()
        if stops and passed >= stops[0]:
            stops.pop(0)
            bank.server.stop(dice.choice(["fast", "immediate"]))
            bank.server.start()
            load.wait()
            load = bank.load(deadline - time.monotonic() + 1)
        if capture.poll() is not None:
            assert capture.returncode == -signal.SIGKILL, bank.errors
            capture = bank.capture()
        if flow.poll() is not None:
            assert flow.returncode in (0, -signal.SIGKILL), bank.errors
            flow = bank.flow()
        time.sleep(0.05)
    load.wait()
    for process in (capture, flow):
        process.kill()
        process.wait()
    bank.finished(bank.capture("--once"))
    bank.finished(bank.flow())
    bank.check()


@pytest.mark.recovery
@pytest.mark.timeout(900)
def test_three_minutes_of_pgbench(bank):
    play(bank, 180, kills=10, restarts=2)
