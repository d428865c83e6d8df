"""The board is believed where it was written, and only what is undamaged of it."""

from __future__ import annotations

import logging
import os
import shutil
from pathlib import Path

import pytest

from riverrun.errors import Corrupt, NewerFormat, NotFound, Unavailable
from riverrun.log.board import Board, Ends
from riverrun.settings import Settings

PARTITIONS = 2


def row(n: int) -> dict:
    return {"k": f"key{n}", "n": n, "at": "2026-01-01T00:00:00Z"}


def numbers(topic) -> list[int]:
    return sorted(topic.read()["n"].to_pylist())


def put_back(saved: bytes, topic) -> None:
    """Into the same file: whoever looks at device and inode sees no difference."""
    Path(f"{topic.backend.directory}/state").write_bytes(saved)


@pytest.fixture
def older_board(open_topic):
    """A topic with rows 0 to 4, closed, and its board as it was after 0 to 2."""

    def make(**options) -> tuple:
        topic = open_topic(partitions=PARTITIONS, **options)
        topic.backend.upkeep.stop()
        for n in range(3):
            topic.append(row(n))
        saved = Path(f"{topic.backend.directory}/state").read_bytes()
        for n in (3, 4):
            topic.append(row(n))
        topic.close()
        return topic, saved

    return make


@pytest.mark.parametrize("segment_bytes", [1 << 20, 1], ids=["one segment", "a segment for each append"])
def test_rows_behind_an_older_board_are_found(older_board, open_topic, segment_bytes):
    """They were cut off by the next append, without a word."""
    settings = Settings(segment_bytes=segment_bytes)
    topic, saved = older_board(settings=settings)
    put_back(saved, topic)
    again = open_topic(settings=settings)
    assert numbers(again) == [0, 1, 2, 3, 4]
    assert again.describe()["recoveries"] == 1
    again.append(row(5))
    assert numbers(again) == [0, 1, 2, 3, 4, 5]


def test_an_older_board_whose_segment_is_gone(older_board, open_topic):
    settings = Settings(segment_bytes=1)
    topic, saved = older_board(settings=settings)
    removed = sorted(Path(topic.backend.directory).glob("*.journal"))[:-1]
    for path in removed:
        path.unlink()
    put_back(saved, topic)
    assert numbers(open_topic(settings=settings)) == [4]


def test_a_torn_append_behind_an_older_board_is_cut_off(older_board, open_topic, caplog):
    topic, saved = older_board()
    put_back(saved, topic)
    journal = next(Path(topic.backend.directory).glob("*.journal"))
    os.truncate(journal, journal.stat().st_size - 8)
    assert numbers(open_topic()) == [0, 1, 2, 3]
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


def test_the_board_of_a_copy_of_the_files_is_not_believed(older_board, open_topic, tmp_path):
    """A snapshot that is mounted beside the original has a board that may be half a minute older than its journals."""
    topic, saved = older_board()
    put_back(saved, topic)
    os.rename(topic.backend.directory, tmp_path / "original")
    shutil.copytree(tmp_path / "original", topic.backend.directory)
    board = Board(f"{topic.backend.directory}/state", PARTITIONS)
    assert not board.is_current
    board.close()
    assert numbers(open_topic()) == [0, 1, 2, 3, 4]


def test_whoever_is_appending_is_not_disturbed(open_topic, program, tmp_path):
    """Opening needs no lock as long as the board is believed, also while there are bytes behind its end."""
    topic = open_topic()
    topic.append(row(0))
    holder = program("append.py", tmp_path, 0, 2, "os", 65536, failpoints="append.written:1=stop")
    os.waitpid(holder.pid, os.WUNTRACED)
    assert numbers(open_topic(settings=Settings(lock_timeout=1_000_000))) == [0]


def test_every_flipped_bit_of_a_board_is_harmless(older_board, open_topic):
    """Offsets of a notice were believed as they were: an append was acknowledged, and its row could not be read."""
    topic, _ = older_board()
    path = Path(f"{topic.backend.directory}/state")
    whole = path.read_bytes()
    journal = next(Path(topic.backend.directory).glob("*.journal"))
    rows = journal.read_bytes()
    named = 0
    for bit in range(0, 8 * len(whole), 5):  # in every word, and over time at every place of one
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        journal.write_bytes(rows)
        try:
            with open_topic() as again:
                again.append(row(5))
                assert numbers(again) == [0, 1, 2, 3, 4, 5], bit
        except (Corrupt, NewerFormat, NotFound, Unavailable):
            named += 1
    assert named <= 16, "only what it is, and its state"


def test_a_board_of_an_older_format_is_made_again(older_board, open_topic):
    topic, _ = older_board()
    put_back(b"RRBOARD1" + bytes(200), topic)
    assert numbers(open_topic()) == [0, 1, 2, 3, 4]


def test_notices_are_read_as_they_were_published(tmp_path):
    one, two = (Board(f"{tmp_path}/state", PARTITIONS) for _ in range(2))
    one.reset(Ends(0, 1, 100, 0, 0, 0, (0, 0)))
    for commit in range(1, 5):
        ends = Ends(commit, 1, 100 + commit, 100, commit * 7, 0, (commit, 2 * commit))
        one.publish_written(ends)
        assert one.written() == two.written() == ends
    assert two.durable().commit == 0
    for board in (one, two):
        board.close()
