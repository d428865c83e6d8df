"""Real processes that capture a SQLite file, killed at every step, while two processes write to it."""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

from captured_file import FileShop

PROGRAMS = Path(__file__).parents[1] / "programs"
TABLES = ("accounts", "ledger", "tags")
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
FEW = ("capture.slotted", "capture.append", "capture.appended:2", "capture.chunked:2", "capture.confirm:2")


class WrittenFile(FileShop):
    """Accounts and a ledger that always add up to zero."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.sql(
            "create table accounts (id integer primary key, balance int not null, note text);"
            "create table ledger (id integer primary key, account int, delta int);"
            "create table tags (id integer primary key, tag text unique);"
            "with recursive i(i) as (select 1 union all select i + 1 from i where i < 120)"
            " insert into accounts select i, 0, 'note ' || i from i;"
        )
        self.part = 40
        self._writers = 0

    def writer(self, rounds: int) -> subprocess.Popen[str]:
        self._writers += 1
        command = [sys.executable, str(PROGRAMS / "sqlite_writer.py"), str(self.file), str(self._writers), str(rounds)]
        return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)

    def start(self, *options: str, failpoints: str = "") -> subprocess.Popen[str]:
        command = [sys.executable, str(PROGRAMS / "capture.py"), str(self.path / "river"), self.url, self.name, *TABLES]
        return subprocess.Popen(
            [*command, "--part", str(self.part), *options],
            env={**os.environ, "RIVERRUN_FAILPOINTS": failpoints},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )

    def killed_at(self, place: str, rounds: int = 12) -> bool:
        """Run with this failpoint while two processes write; whether it was killed."""
        writers = [self.writer(rounds), self.writer(rounds)]
        process = self.start("--once", failpoints=f"{place}=kill")
        _, errors = process.communicate(timeout=120)
        assert process.returncode in (0, -signal.SIGKILL), errors
        for one in writers:
            _, errors = one.communicate(timeout=120)
            assert one.returncode == 0, errors
        return process.returncode != 0

    def check(self) -> None:
        done = self.start("--once")
        _, errors = done.communicate(timeout=240)
        assert done.returncode == 0, errors
        for table in TABLES:
            assert self.replica(table) == self.source(table), table
        assert self.sql("select sum(balance), (select sum(delta) from ledger) from accounts") == [(0, 0)]
        self._check_once()
        self._check_ends()

    def _check_once(self) -> None:
        """No change is there twice: each has a number, and a row of its own key."""
        for table in TABLES:
            streamed = [row["_position"] for row in self.rows(table) if row["_transaction"]]
            assert len(streamed) == len(set(streamed)), table

    def _check_ends(self) -> None:
        """At every end of whole transactions that was told since the snapshot, amounts add up to zero."""
        told = self.told()
        done = next(i for i, row in enumerate(told) if row["kind"] == "snapshot_done")
        rows = {
            table: sorted(self.rows(table), key=lambda row: (row["_partition"], row["_offset"]))
            for table in ("accounts", "ledger")
        }
        whole = [row for row in told[done:] if row["kind"] != "part"]
        for row in whole[-40:]:
            ends = json.loads(row["ends"])
            for table, column in (("accounts", "balance"), ("ledger", "delta")):
                kept: dict[int, int] = {}
                for one in rows[table]:
                    if one["_offset"] < ends[f"shop.{table}"][one["_partition"]]:
                        kept.pop(one["id"], None)
                        if not one["_deleted"]:
                            kept[one["id"]] = one[column]
                assert sum(kept.values()) == 0, (table, row)


@pytest.fixture
def written(tmp_path: Path) -> Iterator[WrittenFile]:
    made = WrittenFile(tmp_path)
    yield made
    made.close()


def test_killed_at_some_steps(written):
    killed = [written.killed_at(place) for place in FEW]
    assert any(killed)
    written.check()


@pytest.mark.recovery
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("place", PLACES)
def test_killed_at_every_passage(written, place):
    killed = [written.killed_at(f"{place}:{passage}") for passage in range(1, 6)]
    assert any(killed)
    written.check()


@pytest.mark.recovery
@pytest.mark.timeout(900)
def test_two_writers_and_a_capture_that_is_killed_again_and_again(written):
    """What belongs to one transaction is never seen in part: nothing is cut, since reads are smaller than a part."""
    written.part = 500_000
    dice = random.Random(5)
    writers = [written.writer(3000), written.writer(3000)]
    while any(one.poll() is None for one in writers):
        capture = written.start()
        time.sleep(dice.uniform(0.5, 4))
        capture.kill()
        _, errors = capture.communicate()
        assert capture.returncode == -signal.SIGKILL, errors
    assert [one.communicate()[1] for one in writers] == ["", ""]
    written.check()
    assert [row for row in written.told() if row["kind"] == "part"] == []


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_million_rows_read_and_streamed(written):
    """A snapshot, and a transaction that is appended in parts; prints what it took."""
    db = sqlite3.connect(written.file)
    db.execute("create table large (id integer primary key, a text, b int, c real)")
    db.executemany("insert into large values (?, ?, ?, ?)", ((i, f"row {i}", i * 7, i / 3) for i in range(1_000_000)))
    db.commit()
    begun = time.monotonic()
    written.once("large")
    read = time.monotonic() - begun
    begun = time.monotonic()
    db.execute("update large set b = b + 1")
    db.commit()
    wrote = time.monotonic() - begun
    db.close()
    begun = time.monotonic()
    written.once("large")
    streamed = time.monotonic() - begun
    print(
        f"snapshot {1e6 / read:.0f} rows/s, written with triggers {1e6 / wrote:.0f}/s, stream {1e6 / streamed:.0f} changes/s"
    )
    topic = written.river.topic("shop.large")
    assert sum(topic.ends().values()) == 2_000_000  # each change once; compaction may have removed what was before it
    newest = pl.DataFrame(topic.read(columns=["id", "b", "_partition", "_offset"])).sort("_partition", "_offset")
    kept = newest.unique("id", keep="last")
    assert kept.height == 1_000_000
    assert kept.filter(pl.col("b") != pl.col("id") * 7 + 1).height == 0
