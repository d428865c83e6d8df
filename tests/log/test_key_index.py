"""The index of a topic with versions is derived: whatever happens to its files, keys are found, and only they."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from riverrun.errors import VersionConflict
from riverrun.failpoints import Crashed, arm
from riverrun.log import key_index
from riverrun.log.catalogue import Catalogue
from riverrun.log.coordination import Coordination
from riverrun.log.key_index import FreshKeys, KeyRun
from riverrun.log.sealing import seal
from riverrun.log.spec import TopicSpec
from riverrun.log.topic import Topic
from riverrun.settings import Settings

SPEC = TopicSpec("t", "user string, n bigint", key="user", versions=True, fsync="os")
Open = Callable[[], Topic]


@pytest.fixture
def opened(tmp_path: Path) -> Open:
    """Opens the topic as another process would; its segments are small."""
    coordination = Coordination(str(tmp_path / "coordination.db"), create=True)

    def open_topic() -> Topic:
        catalogue = Catalogue(f"{tmp_path}/topics", Settings(segment_bytes=64 << 10), coordination)
        return catalogue.open(SPEC)

    return open_topic


def fill(topic: Topic, rows: int = 4000, batch: int = 100) -> None:
    for start in range(0, rows, batch):
        topic.append([{"user": f"u{n % 97}", "n": n} for n in range(start, min(start + batch, rows))])


def check(topic: Topic, rows: int = 4000) -> None:
    for k in (0, 5, 96):
        assert topic.read(key=f"u{k}").column("n").to_pylist() == list(range(k, rows, 97))
    assert topic.version("u97") == 0


def key_files(topic: Topic) -> list[Path]:
    return sorted(Path(topic.backend.directory, "keys").glob("0*"))  # type: ignore[attr-defined]


def test_every_segment_but_the_last_has_a_file_that_others_use(opened: Open) -> None:
    topic = opened()
    fill(topic)
    topic.backend.upkeep.stop()  # type: ignore[attr-defined]
    seal(topic.backend)  # type: ignore[arg-type]
    check(topic)
    segments = len(list(Path(topic.backend.directory).glob("*.journal")))  # type: ignore[attr-defined]
    assert len(key_files(topic)) == segments - 1 > 0
    made = {path: path.stat().st_mtime_ns for path in key_files(topic)}
    check(opened())
    assert {path: path.stat().st_mtime_ns for path in key_files(topic)} == made


@pytest.mark.parametrize("harm", ["missing", "cut", "garbled", "of another secret"])
def test_a_file_that_cannot_be_used_is_made_again(opened: Open, harm: str) -> None:
    topic = opened()
    fill(topic)
    check(topic)
    for path in key_files(topic):
        content = path.read_bytes()
        if harm == "missing":
            path.unlink()
        elif harm == "cut":
            path.write_bytes(content[: len(content) // 2])
        elif harm == "garbled":
            path.write_bytes(content[:-9] + b"x" + content[-8:])
    if harm == "of another secret":
        Path(topic.backend.directory, "keys/secret").unlink()  # type: ignore[attr-defined]
    check(opened())
    check(topic)


def test_segments_that_are_sealed_meanwhile(opened: Open) -> None:
    topic, other = opened(), opened()
    fill(topic, batch=5)
    check(other)
    topic.backend.upkeep.stop()  # type: ignore[attr-defined]
    seal(topic.backend)  # type: ignore[arg-type]
    _, segments = topic.backend.journal.extent()  # type: ignore[attr-defined]
    assert any(segment.snapshot.generation for segment in segments)  # its file was written again
    check(other)
    check(opened())


def test_without_room_for_files_keys_are_found_all_the_same(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_room(*_: object) -> None:
        raise OSError(28, "No space left on device")

    topic = opened()
    fill(topic)
    monkeypatch.setattr(key_index.KeyIndex, "_store", no_room)
    check(topic)


def test_keys_with_the_same_hash_are_told_apart(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_index, "siphash", lambda *_: 7)
    monkeypatch.setattr(key_index, "siphash_column", lambda keys, _: np.full(len(keys), 7, np.uint64))
    topic = opened()
    fill(topic, 970)
    check(topic, 970)
    assert topic.version("u3") == 10
    topic.append({"user": "u3", "n": 970}, expect={"u3": 10, "u4": 10, "nobody": 0})
    with pytest.raises(VersionConflict) as refused:
        topic.append({"user": "u3", "n": 970}, expect={"u3": 10})
    assert refused.value.versions == {"u3": 11}


def test_what_others_append_is_seen_before_anything_is_on_the_disk(tmp_path: Path) -> None:
    coordination = Coordination(str(tmp_path / "coordination.db"), create=True)
    spec = TopicSpec("t", "user string, n bigint", key="user", versions=True)
    one, two = (Catalogue(f"{tmp_path}/topics", Settings(), coordination).open(spec) for _ in range(2))
    arm("append.published=crash")
    with pytest.raises(Crashed):
        one.append({"user": "ada", "n": 1})
    arm("")
    assert two.read().num_rows == 0
    assert two.version("ada") == 1
    with pytest.raises(VersionConflict):
        two.append({"user": "ada", "n": 1}, expect={"ada": 0})
    two.append({"user": "ada", "n": 2}, expect={"ada": 1})
    assert two.read().column("n").to_pylist() == [1, 2]


def test_runs_grow_without_being_sorted_again_and_again() -> None:
    fresh = FreshKeys()
    dice = np.random.default_rng(1)
    every: dict[int, list[int]] = {}
    place = 0
    for size in dice.choice([1, 3, 500, 5000], 60).tolist():
        hashes = dice.integers(0, 400, size).astype(np.uint64)
        places = np.arange(place, place + size)
        place += size
        fresh.add(hashes, places)
        for key, at in zip(hashes.tolist(), places.tolist(), strict=True):
            every.setdefault(key, []).append(at)
    assert len(fresh._runs) < 12
    for key, places_of in every.items():
        assert np.concatenate(list(fresh.find(key))).tolist() == places_of
    assert KeyRun.of(np.array([5, 5, 1], np.uint64), np.array([1, 2, 3])).find(5).tolist() == [1, 2]


def test_processes_that_append_on_a_condition(opened: Open, tmp_path: Path) -> None:
    opened()
    program = (
        "import sys\nfrom riverrun.errors import VersionConflict\nfrom riverrun.log.catalogue import Catalogue\n"
        "from riverrun.log.coordination import Coordination\nfrom riverrun.settings import Settings\n"
        "from riverrun.log.spec import TopicSpec\n"
        "c = Coordination(sys.argv[1] + '/coordination.db')\n"
        "c = Catalogue(sys.argv[1] + '/topics', Settings(segment_bytes=16 << 10), c)\n"
        "t = c.open(TopicSpec('t'))\nmade = 0\n"
        "while made < 60:\n"
        "    for user in ('a', 'b'):\n"
        "        n = t.version(user)\n"
        "        try:\n"
        "            t.append([{'user': user, 'n': n}] + [{'user': f'x{i}', 'n': i} for i in range(20)], expect={user: n})\n"
        "            made += 1\n"
        "        except VersionConflict:\n"
        "            pass\n"
        "print(made)"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    workers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    made = [int(worker.communicate(timeout=60)[0]) for worker in workers]
    found: dict[str, Any] = {user: opened().read(key=user).column("n").to_pylist() for user in "ab"}
    assert {user: list(range(len(rows))) for user, rows in found.items()} == found
    assert sum(map(len, found.values())) == sum(made) >= 180
