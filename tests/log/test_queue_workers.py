"""Who works off a queue, with messages or without."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from sqlite3 import Connection
from types import SimpleNamespace

import pytest

from riverrun.errors import Busy
from riverrun.log import queue_workers
from riverrun.log.queue import Queue
from riverrun.river import River


@pytest.fixture
def river(tmp_path: Path) -> Iterator[River]:
    with River(tmp_path / "river") as opened:
        yield opened


def members(river: River) -> int:
    return sum(group["members"] for group in river.groups.list())


def test_a_worker_without_a_message_is_there_until_it_is_closed(river: River) -> None:
    topic = river.topic("mails", "to string", fsync="os")
    with topic.queue("send") as queue:
        assert members(river) == 0  # it has not looked for a message yet
        assert queue.receive(timeout=0) is None
        assert members(river) == 1
        (worker,) = river.groups.describe("send")["workers"]
        assert (worker["topic"], worker["messages"], worker["seconds"]) == ("mails", 0, None)
        with pytest.raises(Busy, match="group send is in use by process"):
            river.groups.drop("send")
        topic.append({"to": "ada"})
        message = queue.receive(timeout=5)
        assert message is not None
        (worker,) = river.groups.describe("send")["workers"]
        assert worker["messages"] == 1 and worker["seconds"] > 0
        message.ack()
        assert members(river) == 1
    assert members(river) == 0
    river.groups.drop("send")
    assert river.groups.list() == []


def test_a_worker_that_cannot_be_seen_counts_while_it_is_heard(river: River, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = river.topic("mails", "to string", fsync="os")
    boot = queue_workers.process.identity().split("/")[0]
    with monkeypatch.context() as other_container:
        other_container.setattr(queue_workers.process, "identity", lambda: f"{boot}/other/7/1")
        queue = topic.queue("send")
        queue.receive(timeout=0)
    assert members(river) == 1
    monkeypatch.setattr(queue_workers, "_SILENT", 0)
    assert members(river) == 0
    queue.close()


def test_a_worker_that_could_not_tell_at_first_works_and_tells_later(
    river: River, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = river.topic("mails", "to string", fsync="os")
    topic.append({"to": "ada"})
    with topic.queue("send") as queue:
        with monkeypatch.context() as locked:

            @contextmanager
            def refuse() -> Iterator[Connection]:
                raise Busy("the database is locked")
                yield

            locked.setattr(queue._workers, "_coordination", SimpleNamespace(now=lambda: 1, transaction=refuse))
            message = queue.receive(timeout=5)
        assert message is not None
        message.ack()
        assert members(river) == 0
        queue.tell()
        assert members(river) == 1


def test_a_worker_is_closed_where_nobody_is_written_down(river: River) -> None:
    queue = river.topic("mails", "to string", fsync="os").queue("send")
    queue.receive(timeout=0)
    with river._coordination.transaction() as db:
        db.execute("drop table queue_workers")
    queue.close()
    assert members(river) == 0


def test_workers_of_two_containers_are_two_though_their_numbers_are_the_same(river: River) -> None:
    topic = river.topic("mails", "to string", fsync="os")
    write_down(river, topic.queue("send"), ("one", 0), ("two", 0))
    assert [worker["process"] for worker in river.groups.describe("send")["workers"]] == [1, 1]
    assert members(river) == 2


def test_who_was_not_heard_for_an_hour_is_forgotten(river: River) -> None:
    topic = river.topic("mails", "to string", fsync="os")
    write_down(river, topic.queue("left"), ("hours", 3_700_000_000), ("minutes", 120_000_000))
    with topic.queue("send") as queue:
        queue.receive(timeout=0)
        with river._coordination.reading() as db:
            found = db.execute("select worker from queue_workers where grp = 'left'").fetchall()
    assert found == [("minutes",)]


def test_a_worker_that_waits_tells_meanwhile(river: River, monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[str] = []
    monkeypatch.setattr("riverrun.log.queue.EVERY", 20_000)
    monkeypatch.setattr("riverrun.log.queue._UPKEEP", 0)
    with river.topic("mails", "to string", fsync="os").queue("send") as queue:
        monkeypatch.setattr(queue._workers, "hear", heard.append)
        assert queue.receive(timeout=1) is None
    assert len(heard) > 5


def write_down(river: River, queue: Queue, *workers: tuple[str, int]) -> None:
    """Workers of other containers, by what each is called and how long ago it was heard."""
    queue.receive(timeout=0)
    boot, now = queue_workers.process.identity().split("/")[0], river._coordination.now()
    queue.close()
    with river._coordination.transaction() as db:
        for name, ago in workers:
            row = (queue.group, "mails", name, f"{boot}/{name}/1/55", now - ago)
            db.execute("insert into queue_workers values (?, ?, ?, ?, ?)", row)
