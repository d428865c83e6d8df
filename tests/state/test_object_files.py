"""State in a bucket: what holds for every state, and what a cache, an absent server and another prefix are about."""

import os
import uuid
from pathlib import Path

import msgspec
import polars as pl
import pyarrow as pa
import pytest

from contracts.state import WINDOWS, StateContract, frame
from riverrun.errors import Corrupt, Invalid, Transient, Unavailable
from riverrun.object_folder import ObjectFolder, _as_riverrun, bucket_address
from riverrun.state.directory import StateDirectory, files_of
from riverrun.state.file_cache import FileCache
from s3_server import S3Server, shared_s3

ENTRY = "3"


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> S3Server:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return shared_s3()


@pytest.fixture
def place(server: S3Server) -> str:
    return f"{server.bucket}/{uuid.uuid4().hex}/shop/state"


class Epochs:
    """Opens, commits and opens again, each time as a process that has nothing but the entries."""

    def __init__(self, place, specs, inline_bytes=0):
        self.place, self.specs, self.inline_bytes = place, specs, inline_bytes
        self.entries, self.epoch = {}, 0

    def open(self):
        directory = StateDirectory(self.place, self.inline_bytes)
        return directory.open(self.entries, self.specs, node="n 1/x", shard=3, shards=4)

    def commit(self, state):
        self.epoch += 1
        self.entries = msgspec.msgpack.decode(msgspec.msgpack.encode(state.commit(self.epoch)))
        return self.open()


class TestInBucket(StateContract):
    """Every delta in a file of its own, read by a process that did not write it."""

    @pytest.fixture(autouse=True)
    def _place(self, place):
        self.place = place

    def open(self, specs):
        self.epochs = Epochs(self.place, specs)
        return self.epochs.open()

    def settle(self, state):
        return self.epochs.commit(state)


def written(place):
    epochs = Epochs(place, {"t": WINDOWS})
    state = epochs.open()
    state["t"].put(frame(("a", 1, 1, 1.0), ("b", 1, 1, 2.0)))
    epochs.commit(state)
    (file,) = files_of(epochs.entries[ENTRY])
    return epochs, file


def test_files_are_in_the_bucket_and_in_the_cache(place, tmp_path):
    _, file = written(place)
    assert ObjectFolder(place).names() == [file]
    cached = tmp_path / "cache/riverrun/state" / file
    assert cached.read_bytes() == ObjectFolder(place).read(file)
    assert sorted(pl.read_ipc(cached)["key"]) == ["a", "b"]


def test_a_cache_that_is_lost_or_damaged_is_read_again(place, tmp_path):
    epochs, file = written(place)
    cached = tmp_path / "cache/riverrun/state" / file
    whole = cached.read_bytes()
    for spoil in (cached.unlink, lambda: cached.write_bytes(whole[:-9]), lambda: cached.write_bytes(b"?" + whole[1:])):
        spoil()
        assert len(epochs.open()["t"].scan()) == 2
        assert cached.read_bytes() == whole


def test_what_is_cached_needs_no_server(place, server):
    epochs, _ = written(place)
    server.stop()
    try:
        assert len(epochs.open()["t"].scan()) == 2
    finally:
        server.start()


def test_a_server_that_is_away_may_be_asked_again(place, server, tmp_path):
    epochs, file = written(place)
    (tmp_path / "cache/riverrun/state" / file).unlink()
    server.stop()
    try:
        with pytest.raises(Transient, match=f"{place} does not answer"):
            epochs.open()["t"].scan()
        with pytest.raises(Transient):
            ObjectFolder(place).write("x", b"")
        with pytest.raises(Transient):
            ObjectFolder(place).names()
    finally:
        server.start()
    assert len(epochs.open()["t"].scan()) == 2


def test_damaged_and_missing_objects_are_named(place, tmp_path):
    epochs, file = written(place)
    (tmp_path / "cache/riverrun/state" / file).unlink()
    folder = ObjectFolder(place)
    whole = folder.read(file)
    folder.write(file, whole[:-1])
    with pytest.raises(Corrupt, match=f"{place}/{file} has .* bytes instead of"):
        epochs.open()["t"].scan()
    folder.write(file, b"?" + whole[1:])
    with pytest.raises(Corrupt, match="is not what was written. Rebuild"):
        epochs.open()["t"].scan()
    folder.delete([file, "never there"])
    with pytest.raises(Corrupt, match="is missing"):
        epochs.open()["t"].scan()


def test_sweep(place, tmp_path):
    epochs, file = written(place)
    directory = StateDirectory(place, 0)
    assert directory.sweep([epochs.entries[ENTRY]], oldest=9) == []
    assert directory.sweep([], oldest=1) == []
    assert directory.sweep([], oldest=2) == [file]
    assert ObjectFolder(place).names() == []
    assert not (tmp_path / "cache/riverrun/state" / file).exists()


def test_folders_of_a_bucket(server):
    root = f"{server.bucket}/{uuid.uuid4().hex}"
    above = ObjectFolder(root)
    assert (above.names(), above.folders()) == ([], [])
    ObjectFolder(f"{root}/shop~3/plans").write("1", b"one")
    ObjectFolder(f"{root}/shop~3").write("base", b"7")
    assert (above.names(), above.folders()) == ([], ["shop~3"])
    assert ObjectFolder(f"{root}/shop~3").names() == ["base"]
    with pytest.raises(FileNotFoundError):
        ObjectFolder(f"{root}/shop~3").read("bass")
    ObjectFolder(f"{root}/shop~3").remove()
    ObjectFolder(f"{root}/shop~3").remove()
    assert above.folders() == []


def test_a_bucket_that_is_not_there_is_named(server):
    with pytest.raises(Unavailable, match="s3://nowhere/x: there is no such bucket. Make it"):
        ObjectFolder("s3://nowhere/x").check()


@pytest.mark.parametrize(
    ("said", "kind", "told"),
    [
        (
            "AWS Error ACCESS_DENIED during PutObject operation: no",
            Unavailable,
            "refuses (ACCESS_DENIED during PutObject: no)",
        ),
        (
            "AWS Error UNKNOWN (HTTP status 403) during HeadObject operation: HTTP response code: 403",
            Unavailable,
            "refuses",
        ),
        ("AWS Error SLOW_DOWN during GetObject operation: Please reduce", Transient, "does not answer (SLOW_DOWN"),
        ("AWS Error UNKNOWN during GetObject operation: HTTP response code: 503", Transient, "does not answer"),
        ("AWS Error UNKNOWN (HTTP status 503) during HeadObject operation: No response body.", Transient, "(UNKNOWN"),
        ("AWS Error UNKNOWN (HTTP status 429) during PutObject operation: No response body.", Transient, "(UNKNOWN"),
        ("AWS Error NO_SUCH_UPLOAD during UploadPart operation: gone", Unavailable, "cannot be used (NO_SUCH_UPLOAD"),
        (
            "cannot reach https://lakes/x?X-Amz-Signature=hunter2 now",
            Unavailable,
            "cannot be used (cannot reach https://lakes/x",
        ),
    ],
)
def test_what_the_client_says_becomes_an_error_that_is_waited_for_or_not(said, kind, told):
    found = _as_riverrun(OSError(f"When doing something: {said} (Request ID: 7)"), "s3://lakes/x")
    assert type(found) is kind
    assert found.message.startswith("s3://lakes/x ")
    assert told in found.message.replace("When doing something: ", "")
    assert "hunter2" not in str(found)
    assert "Request ID" not in str(found)


def test_addresses():
    assert bucket_address("s3://b/p/q/") == "s3://b/p/q"
    assert bucket_address("s3a://b/p") == "s3://b/p"
    for wrong in (
        "s3://KEY:hunter2@bucket/p",
        "s3://KEY:se/hunter2@bucket/p",
        "s3://hunter2 /p",
        "gs://hunter2/p",
        "s3://hunter2",
        "s3://b/p?secret_key=hunter2",
    ):
        with pytest.raises(Invalid) as refused:
            bucket_address(wrong)
        assert "hunter2" not in str(refused.value)


def test_the_cache_is_bounded_and_forgets_what_was_used_longest_ago(tmp_path):
    cache = FileCache(str(tmp_path), limit=100)
    for number, name in enumerate(["a", "b", "c"]):
        cache.keep(name, pa.py_buffer(bytes(30)))
        os.utime(tmp_path / name, (number, number))
    assert cache.find("a") is not None  # and so is the newest
    cache.keep("d", pa.py_buffer(bytes(30)))
    assert {path.name for path in tmp_path.iterdir()} == {"a", "c", "d"}
    cache.keep("too large", pa.py_buffer(bytes(101)))
    assert cache.find("too large") is None
    assert cache.find("b") is None


def test_a_cache_that_cannot_be_written_is_none(tmp_path):
    (tmp_path / "file").write_text("in the way")
    cache = FileCache(str(tmp_path / "file"), limit=100)
    cache.keep("a", pa.py_buffer(b"1"))
    assert cache.find("a") is None
