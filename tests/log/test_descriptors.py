"""A process that has no descriptors left: what it asks for will pass, and no topic is stopped for it."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from riverrun import failpoints
from riverrun.doctor import check_topic
from riverrun.errors import DiskFull, Transient, Unavailable
from riverrun.open_files import raise_limit
from riverrun.river import River
from riverrun.settings import Settings


def open_files() -> set[str]:
    return set(os.listdir("/proc/self/fd"))


@contextmanager
def no_descriptor_left() -> Iterator[None]:
    """Whoever opens something gets EMFILE."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, open_files())) + 8, hard))
    try:
        try:
            while True:
                taken.append(os.open(os.devnull, os.O_RDONLY))
        except OSError:
            yield
    finally:
        for fd in taken:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def numbers(topic) -> list[int]:
    return sorted(topic.read(columns=["n"])["n"].to_pylist())


def row(n: int) -> dict:
    return {"k": "a", "n": n}


@pytest.fixture
def river(tmp_path) -> Iterator[River]:
    with River(tmp_path / "river") as opened:
        for name in ("t", "other"):
            opened.topic(name, "k string, n bigint").append(row(0))
        yield opened


def test_an_append_to_a_topic_in_use_needs_no_descriptor(river):
    topic = river.topic("t")
    with no_descriptor_left():
        topic.append(row(1))
    assert numbers(topic) == [0, 1]
    assert not topic.backend.has_failed


def test_a_first_append_without_descriptors_may_be_tried_again(river, tmp_path):
    """It stopped the topic for everybody, until a person repaired it."""
    with River(tmp_path / "river") as beside:
        topic = beside.topic("t")
        with no_descriptor_left():
            for _ in range(2):
                with pytest.raises(Transient, match="topic t: nothing was appended .*open files.* ulimit -n"):
                    topic.append(row(1))
        assert not topic.backend.has_failed
        topic.append(row(2))
    river.topic("t").append(row(3))
    assert numbers(river.topic("t")) == [0, 2, 3]


def test_a_new_segment_without_descriptors_may_be_tried_again(tmp_path):
    with River(tmp_path / "river", settings=Settings(segment_bytes=1)) as river:
        topic = river.topic("t", "k string, n bigint")
        topic.backend.upkeep.stop()
        topic.append(row(0))
        with no_descriptor_left(), pytest.raises(Transient):
            topic.append(row(1))
        topic.append(row(2))
        assert numbers(topic) == [0, 2]


def test_a_sync_for_others_without_descriptors_says_nothing_about_the_disk(tmp_path):
    with River(tmp_path / "river") as one, River(tmp_path / "river") as two:
        one.topic("t", "k string, n bigint", fsync="1 hour").append(row(0))
        topic = two.topic("t")
        with no_descriptor_left(), pytest.raises(Transient, match="topic t: what was appended is not made durable yet"):
            topic.backend.journal.sync()
        assert not topic.backend.has_failed
        topic.backend.journal.sync()
        failpoints.arm("sync.begin=eio")
        one.topic("t").append(row(1))
        with pytest.raises(Unavailable, match="the disk refused"):
            topic.backend.journal.sync()
        assert topic.backend.has_failed


def test_opening_and_reading_without_descriptors_is_no_damage(river, tmp_path):
    """Its hint was to restore healthy topics from a copy."""
    with River(tmp_path / "river") as beside:
        beside.topics()  # its database is open
        before = open_files()
        with no_descriptor_left():
            for name in ("t", "other"):
                with pytest.raises(Transient, match="Too many open files"):
                    beside.topic(name)
            with pytest.raises(Transient, match="Too many open files"):
                beside.topic("new", "k string")
            found = check_topic(beside, "t")
            assert (found.status, found.fix) == ("failed", "Close some files, or raise the limit: ulimit -n")
            with pytest.raises(Transient):
                River(tmp_path / "river")
        assert open_files() == before, "what could be opened half-way is closed again"
        topic = beside.topic("t")
        with no_descriptor_left(), pytest.raises(Transient):
            topic.read()
        assert numbers(topic) == [0]


def test_a_listing_leaves_nothing_open(river, tmp_path):
    with River(tmp_path / "river") as listing:
        mine = listing.topic("t")
        mine.describe()
        before = open_files()
        for name in listing.topics():
            with listing.briefly(name) as topic:
                assert topic.describe()["offsets"] == 1
                assert (topic is mine) == (name == "t")
        assert open_files() == before
        mine.append(row(1))


def test_a_new_topic_on_a_full_disk(river):
    failpoints.arm("topic.begin=enospc")
    with pytest.raises(DiskFull, match="topic new cannot be made in .*, there is no room"):
        river.topic("new", "k string")
    river.topic("new", "k string").append({"k": "a"})


def test_commands_may_open_as_many_files_as_the_system_lets_them():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
        raise_limit()
        allowed = resource.getrlimit(resource.RLIMIT_NOFILE)
        assert allowed == (65536 if hard == resource.RLIM_INFINITY else min(hard, 65536), hard)
        raise_limit()
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == allowed
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


_WITHOUT_DESCRIPTORS = """
from log.test_descriptors import *
with River("river") as river:
    try:
        with no_descriptor_left():
            river.store
    except Transient as error:
        print(error.message)
    river.store
"""


def test_a_store_that_cannot_be_opened_for_want_of_descriptors_may_be_tried_again(tmp_path):
    """Nor can the modules be read that open it: a process that has done nothing yet."""
    ran = subprocess.run(
        [sys.executable, "-c", _WITHOUT_DESCRIPTORS],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
    )
    assert (ran.stdout, ran.returncode) == ("the view store cannot be opened (Too many open files)\n", 0), ran.stderr
