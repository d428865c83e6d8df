"""A writer killed anywhere inside an append: acknowledged batches are there once, others whole or absent."""

from __future__ import annotations

import signal
from collections import Counter

import pytest

APPEND = ["append.locked", "append.begin", "append.written", "append.published"]
ROLL = ["roll.begin", "roll.created"]
SYNC = ["sync.begin", "sync.done"]


def whole_batches(topic) -> Counter[int]:
    """Batch number → how often it is there; a batch that is there in part fails the test."""
    keys: dict[int, list[str]] = {}
    for row in topic.read().to_pylist():
        if row["n"] >= 0:
            keys.setdefault(row["n"], []).append(row["k"])
    for number, found in keys.items():
        assert set(found) == {f"key{i}" for i in range(8)}, f"batch {number} is there in part"
    return Counter({number: len(found) / 8 for number, found in keys.items()})


@pytest.mark.parametrize(
    "place", [f"{p}:{n}" for p in APPEND for n in (1, 4)] + [f"{p}:{n}" for p in ROLL for n in (1, 3)] + SYNC
)
def test_killed_writer_leaves_whole_batches(place, program, open_topic, tmp_path):
    fsync = "batch" if place.startswith(("sync", "append.published")) else "os"
    writer = program("append.py", tmp_path, 0, 12, fsync, 4096, failpoints=f"{place}=kill")
    out, err = writer.communicate()
    assert writer.returncode == -signal.SIGKILL, err
    acknowledged = {int(line) for line in out.split()}

    topic = open_topic(fsync=fsync)
    topic.append({"k": "after", "n": -1, "at": "2026-01-01T00:00:00Z"})  # whoever comes next cleans up
    found = whole_batches(topic)
    assert acknowledged <= set(found)
    assert set(found) <= acknowledged | {len(acknowledged)}

    again = program(
        "append.py", tmp_path, 0, 12, fsync, 4096
    )  # the retry of somebody who never saw the acknowledgement
    out, err = again.communicate()
    assert again.returncode == 0, err
    assert whole_batches(topic) == Counter(dict.fromkeys(range(12), 1))


@pytest.mark.recovery
def test_killed_at_random_times_with_a_reader_following(program, open_topic, tmp_path):
    """60 kills; a reader in this process follows all the while and sees every batch whole, in order, once."""
    import random
    import time

    rng = random.Random(7)
    topic = open_topic(settings=None)
    done = 0
    for _ in range(60):
        writer = program("append.py", tmp_path, done, 100_000, "os", 65536)
        writer.stdout.readline()
        time.sleep(rng.uniform(0, 0.15))
        writer.kill()
        out, _ = writer.communicate()
        seen = whole_batches(topic)
        assert seen == Counter(dict.fromkeys(range(len(seen)), 1))
        done = len(seen)
        assert done >= max([int(line) for line in out.split()], default=0)


def test_two_writers_at_once_lose_nothing(program, open_topic, tmp_path):
    open_topic()
    writers = [program("single_rows.py", tmp_path, name, 300) for name in ("a", "b", "c")]
    for writer in writers:
        _, err = writer.communicate()
        assert writer.returncode == 0, err
    topic = open_topic()
    rows = topic.read().to_pylist()
    seen = Counter((row["k"], row["n"]) for row in rows)
    for name in ("a", "b", "c"):
        assert all(seen[name, n] == 1 for n in range(300))
    for partition in range(topic.partitions):
        mine = [row for row in rows if row["_partition"] == partition]
        assert [row["_offset"] for row in mine] == list(range(len(mine)))
        assert [row["_received"] for row in mine] == sorted(row["_received"] for row in mine)
