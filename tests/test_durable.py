"""Files are whole or not there, and belong to their user: whatever the umask says, nobody else can read a river."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from riverrun import durable
from riverrun.river import River
from riverrun.settings import Settings


@pytest.fixture
def generous_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: str | Path) -> int:
    return stat.S_IMODE(os.stat(path).st_mode)


def test_a_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "notes"
    durable.write_file(str(path), "one")
    with open(path, encoding="utf-8") as before:
        durable.write_file(str(path), b"two")
        assert before.read() == "one"
    assert path.read_text() == "two"
    assert os.listdir(tmp_path) == ["notes"]


def test_several_may_write_the_same_file_at_the_same_time(tmp_path: Path) -> None:
    contents = [str(n) * 10_000 for n in range(8)]
    with ThreadPoolExecutor(8) as threads:
        for _ in range(5):
            list(threads.map(lambda content: durable.write_file(f"{tmp_path}/notes", content), contents))
            assert (tmp_path / "notes").read_text() in contents
    assert os.listdir(tmp_path) == ["notes"]


def test_a_write_that_fails_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    durable.write_file(f"{tmp_path}/notes", "one")

    def refuse(fd: int) -> None:
        raise OSError(5, "the disk is tired")

    monkeypatch.setattr("riverrun.durable.os.fsync", refuse)
    with pytest.raises(OSError, match="tired"):
        durable.write_file(f"{tmp_path}/notes", "two")
    with pytest.raises(OSError, match="tired"), durable.new_file(f"{tmp_path}/new") as file:
        file.write(b"two")
    assert os.listdir(tmp_path) == ["notes"]
    assert (tmp_path / "notes").read_text() == "one"


def test_a_new_file_takes_nobodys_place(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("one")
    with pytest.raises(FileExistsError), durable.new_file(f"{tmp_path}/run"):
        pass
    assert (tmp_path / "run").read_text() == "one"


def test_a_copy_is_whole_too(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "one").write_bytes(bytes(3 << 20))
    durable.copy_file(f"{tmp_path}/one", f"{tmp_path}/there/one")
    assert (tmp_path / "there" / "one").read_bytes() == bytes(3 << 20)
    assert os.listdir(tmp_path / "there") == ["one"]


def test_the_name_is_given_when_the_bytes_are_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = []
    sync, rename = os.fsync, os.rename

    def note_sync(fd: int) -> None:
        steps.append("directory" if stat.S_ISDIR(os.fstat(fd).st_mode) else "file")
        sync(fd)

    def note_rename(old: str, new: str) -> None:
        steps.append("rename")
        rename(old, new)

    monkeypatch.setattr("riverrun.durable.os.fsync", note_sync)
    monkeypatch.setattr("riverrun.durable.os.rename", note_rename)
    durable.write_file(f"{tmp_path}/notes", "one")
    assert steps == ["file", "rename", "directory"]


def test_all_buffers_are_written_however_many_they_are(tmp_path: Path) -> None:
    fd = durable.open_file(f"{tmp_path}/many", os.O_RDWR | os.O_CREAT)
    durable.write_all(fd, [b"ab", b"", memoryview(b"c")] * 1500, 3)
    os.close(fd)
    assert (tmp_path / "many").read_bytes() == bytes(3) + b"abc" * 1500


@pytest.mark.usefixtures("generous_umask")
def test_what_is_made_is_private(tmp_path: Path) -> None:
    durable.make_directory(f"{tmp_path}/a/b")
    durable.write_file(f"{tmp_path}/a/b/c", "one")
    assert [mode(tmp_path / part) for part in ("a", "a/b", "a/b/c")] == [0o700, 0o700, 0o600]
    os.chmod(tmp_path / "a", 0o755)
    durable.make_directory(f"{tmp_path}/a")
    assert mode(tmp_path / "a") == 0o755  # its owner wants it so


@pytest.mark.usefixtures("generous_umask")
def test_everything_that_a_river_writes_is_private(tmp_path: Path) -> None:
    path, archive = tmp_path / "river", tmp_path / "archive"
    settings = Settings.load(environ={}, segment_bytes="4 kB", producer_memory="1 kB")
    with River(path, settings=settings) as river:
        schema = "user string, n bigint"
        orders = river.topic("orders", schema, key="user", retention_bytes="20 kB", archive=archive)
        for n in range(100):
            orders.append([{"user": f"{n % 7}", "n": n}] * 20)
        orders.enforce_retention()
        orders.compact()
        river.topic("orders", f"{schema}, note string")
        with orders.producer(on_full="spill", linger="1 hour") as producer:
            for n in range(100):
                producer.send({"user": "ada", "n": n})
            assert producer.stats.spilled
        with orders.consumer("billing", timeout="1 second") as consumer:
            next(consumer)
            consumer.commit()
        with orders.queue("emails") as queue:
            message = queue.receive()
            assert message is not None
            message.ack()
        assert river.store.views() == []
        written = [path, archive, *path.rglob("*"), *archive.rglob("*")]
        modes = {str(file.relative_to(tmp_path)): mode(file) for file in written}
    directories = {str(file.relative_to(tmp_path)) for file in written if file.is_dir()}
    assert {"river/topics/orders/spill", "archive/orders"} <= directories
    kinds = {os.path.splitext(name)[1] for name in modes}
    assert {".json", ".db", ".db-wal", ".db-shm", ".journal", ".index"} <= kinds
    assert modes == {name: 0o700 if name in directories else 0o600 for name in modes}
