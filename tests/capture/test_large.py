"""Tables of a million rows: snapshots that are killed beside writes, and transactions that are appended in parts."""

from __future__ import annotations

import random
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import closing
from pathlib import Path

import polars as pl
import psycopg2
import pytest

from captured_shop import Shop
from waiting import until

PROGRAM = Path(__file__).parents[1] / "programs" / "capture.py"
COMPARED = ["id", "n", "body", "_deleted", "_partition", "_offset"]


def told(shop: Shop) -> Counter[str]:
    """How often which kind of thing has happened."""
    is_there = f"{shop.name}.transactions" in shop.river.topics()
    return Counter(row["kind"] for row in shop.told()) if is_there else Counter()


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
            before = told(shop)["snapshot"]
            with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
                until(lambda: told(shop)["snapshot"] > before)  # noqa: B023
                process.kill()
        assert not told(shop)["snapshot_done"], "it was killed when there was nothing left to read"
    finally:
        stopped.set()
        writer.join()
    subprocess.run([*command, "--once"], check=True, stdout=subprocess.DEVNULL)
    rows = pl.from_arrow(shop.river.topic(f"{shop.name}.public.wide").read(columns=COMPARED))
    assert isinstance(rows, pl.DataFrame)
    newest = rows.sort("_partition", "_offset").group_by("id").last().filter(~pl.col("_deleted"))
    source = pl.DataFrame(shop.sql("select id, n, body from wide"), schema=["id", "n", "body"], orient="row")
    assert newest.select(pl.col("id", "n").cast(pl.Int64), "body").sort("id").equals(source.sort("id"))


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_million_rows_read_and_streamed(file_shop):
    """A snapshot, and a transaction that is appended in parts; prints what it took."""
    db = sqlite3.connect(file_shop.file)
    db.execute("create table large (id integer primary key, a text, b int, c real)")
    db.executemany("insert into large values (?, ?, ?, ?)", ((i, f"row {i}", i * 7, i / 3) for i in range(1_000_000)))
    db.commit()
    begun = time.monotonic()
    file_shop.once("large")
    read = time.monotonic() - begun
    begun = time.monotonic()
    db.execute("update large set b = b + 1")
    db.commit()
    wrote = time.monotonic() - begun
    db.close()
    begun = time.monotonic()
    file_shop.once("large")
    streamed = time.monotonic() - begun
    print(
        f"snapshot {1e6 / read:.0f} rows/s, written with triggers {1e6 / wrote:.0f}/s, stream {1e6 / streamed:.0f} changes/s"
    )
    topic = file_shop.river.topic("shop.large")
    assert sum(topic.ends().values()) == 2_000_000  # each change once; compaction may have removed what was before it
    newest = pl.DataFrame(topic.read(columns=["id", "b", "_partition", "_offset"])).sort("_partition", "_offset")
    kept = newest.unique("id", keep="last")
    assert kept.height == 1_000_000
    assert kept.filter(pl.col("b") != pl.col("id") * 7 + 1).height == 0
