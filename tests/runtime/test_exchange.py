"""The exchange: what one task puts in, another gets, whichever way it travels; and the files it leaves are removed."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from riverrun.errors import Unavailable
from riverrun.runtime import exchange
from riverrun.runtime.exchange import Exchange, ExchangeDirectory, InlineExchange, SharedExchange

ROOM = 64 << 20


def rows(count: int) -> pa.RecordBatch:
    return pa.record_batch(
        {
            "id": pa.array(range(count), pa.int64()),
            "name": pa.array([None if n % 7 == 0 else f"name {n}" for n in range(count)], pa.string()),
            "at": pa.array(range(count), pa.timestamp("us", "UTC")),
            "tags": pa.array([[str(n)] * (n % 3) for n in range(count)], pa.list_(pa.string())),
            "place": pa.array([{"x": n / 2} for n in range(count)], pa.struct([("x", pa.float64())])),
        }
    )


@pytest.fixture(params=["inline", "shared"])
def connect(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Exchange]:
    """A new task's end of one epoch's exchange."""
    if request.param == "inline":
        return InlineExchange
    return lambda: SharedExchange(str(tmp_path), epoch=3, limit=ROOM)


@pytest.mark.parametrize("count", [0, 1, 100, 50_000])
def test_rows_arrive_as_they_were_put_in(connect: Callable[[], Exchange], count: int) -> None:
    sender, receiver = connect(), connect()
    batch = rows(count)
    parts = [batch, batch.slice(count // 3, count // 2), batch.slice(0, 0)]
    blobs = [sender.put(part) for part in parts]
    sender.close()
    for part, blob in zip(parts, blobs, strict=True):
        assert receiver.get(blob, batch.schema).equals(part)
        assert receiver.get(blob, batch.schema).equals(part)  # as often as somebody needs it


def test_many_tasks_share_an_epoch(connect: Callable[[], Exchange]) -> None:
    tasks = [connect() for _ in range(3)]
    blobs = [(task.put(rows(20_000 + n)), 20_000 + n) for n, task in enumerate(tasks)]
    for task in tasks:
        task.close()
    receiver = connect()
    assert [receiver.get(blob, rows(0).schema).num_rows for blob, _ in blobs] == [count for _, count in blobs]


def test_only_a_name_travels_where_rows_are_many(tmp_path: Path) -> None:
    task = SharedExchange(str(tmp_path), epoch=3, limit=ROOM)
    assert task.put(rows(50_000)).size < 200
    assert task.put(rows(10)).size > 200
    assert len(list(tmp_path.iterdir())) == 1
    assert stat.S_IMODE(next(tmp_path.iterdir()).stat().st_mode) == 0o600


def test_what_there_is_no_room_for_travels_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    batch = rows(50_000)
    task = SharedExchange(str(tmp_path), epoch=3, limit=int(batch.nbytes * 1.5))
    blobs = [task.put(batch) for _ in range(3)]
    assert [blob.size < 200 for blob in blobs] == [True, False, False]

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    other = SharedExchange(str(tmp_path), epoch=4, limit=ROOM)
    monkeypatch.setattr(other, "_write", full)
    blobs.append(other.put(batch))
    assert all(SharedExchange(str(tmp_path), 3, ROOM).get(blob, batch.schema).equals(batch) for blob in blobs)


def test_another_process_gets_them(tmp_path: Path) -> None:
    task = SharedExchange(str(tmp_path), epoch=3, limit=ROOM)
    blob = task.put(rows(50_000))
    task.close()
    program = f"""
import pyarrow as pa
from riverrun.runtime.exchange import SharedExchange
schema = pa.ipc.read_schema(pa.py_buffer({rows(0).schema.serialize().to_pybytes()!r}))
got = SharedExchange({str(tmp_path)!r}, 3, 0).get(pa.py_buffer({blob.to_pybytes()!r}), schema)
print(got.num_rows, got.column("name")[49_999])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "50000 name 49999\n"


def test_rows_that_are_gone_fail_the_epoch(tmp_path: Path) -> None:
    task = SharedExchange(str(tmp_path), epoch=3, limit=ROOM)
    blob = task.put(rows(50_000))
    task.close()
    next(tmp_path.iterdir()).unlink()
    with pytest.raises(Unavailable, match="rows of epoch 3 are gone"):  # which nobody waits for, as for a Transient
        SharedExchange(str(tmp_path), 3, ROOM).get(blob, rows(0).schema)


def test_a_directory_that_is_gone_is_made_again(tmp_path: Path) -> None:
    with ExchangeDirectory(str(tmp_path), ROOM) as directory:
        shutil.rmtree(directory.path)
        assert directory.size == 0
        directory.sweep(1)
        task = SharedExchange(directory.path, epoch=3, limit=ROOM)
        blob = task.put(rows(50_000))
        task.close()
        assert SharedExchange(directory.path, 3, ROOM).get(blob, rows(0).schema).num_rows == 50_000
        assert os.stat(directory.path).st_mode & 0o077 == 0


def test_files_go_with_their_epoch_and_all_of_them_when_a_run_starts(tmp_path: Path) -> None:
    with ExchangeDirectory(str(tmp_path), ROOM) as directory:
        blobs = {}
        for epoch in (3, 4):
            task = SharedExchange(directory.path, epoch, ROOM)
            blobs[epoch] = task.put(rows(50_000))
            task.close()
        mapped = SharedExchange(directory.path, 3, ROOM).get(blobs[3], rows(0).schema)
        assert directory.size > 2 * mapped.nbytes * 0.9
        directory.sweep(3)
        assert len(os.listdir(directory.path)) == 1
        assert mapped.equals(rows(50_000))  # who has them keeps them
        ExchangeDirectory(str(tmp_path), ROOM)  # another run of the flow
        assert os.listdir(directory.path) == []
    assert not os.path.exists(directory.path)


def test_the_directory_is_private_and_in_the_flows_home_where_memory_is_short(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ExchangeDirectory(str(tmp_path), room=1 << 60) as directory:
        assert directory.path == f"{tmp_path}/exchange"
        assert stat.S_IMODE(os.stat(directory.path).st_mode) == 0o700
    shared = tmp_path / "shared"
    shared.mkdir()
    monkeypatch.setattr(exchange, "_SHARED_MEMORY", str(shared))
    with ExchangeDirectory(str(tmp_path / "home"), room=1) as directory:
        assert directory.path.startswith(f"{shared}/riverrun-{os.getuid()}-")
    os.symlink(tmp_path, directory.path)  # somebody was there first
    with ExchangeDirectory(str(tmp_path / "home"), room=1) as directory:
        assert directory.path == f"{tmp_path}/home/exchange"
