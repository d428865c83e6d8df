"""What can happen to a store that is a file."""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
import sqlite3
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest

from riverrun import failpoints
from riverrun.errors import (
    Busy,
    Conflict,
    Corrupt,
    DiskFull,
    Fenced,
    Invalid,
    NewerFormat,
    OlderFormat,
    Transient,
    Unavailable,
)
from riverrun.views import Epoch, View, ViewSpec, open_store
from riverrun.views.sql.sqlite import SqliteDatabase
from riverrun.views.sql.sqlstore import SqlStore

SPEC = ViewSpec("v", "flow", "k bigint, s string", ("k",), ("t",))
PLACES = ("views.netted:2", "views.begun:2", "views.changed", "views.changed:3", "views.applied:2", "views.committed:2")
PROGRAM = Path(__file__).parents[1] / "programs" / "commit_epochs.py"


def rows(count: int, text: str = "x", weight: int = 1) -> dict[str, pa.Table]:
    return {"v": pa.table({"k": range(count), "s": [text] * count, "_weight": [weight] * count})}


def epoch(number: int, changes: dict[str, pa.Table] | None = None, fence: int = 1) -> Epoch:
    return Epoch("flow", fence, number, {"t": {0: number}}, changes or {})


@pytest.fixture
def path(tmp_path):
    return tmp_path / "views.db"


@pytest.fixture
def store(path):
    with open_store(path) as store:
        store.declare(SPEC)
        store.take_fence("flow")
        yield store


def state(path) -> tuple:
    with open_store(path, create=False) as store:
        last = store.last("flow")
        views = [View(store, name) for name in ("one", "two")]
        changes = [[(c.op, c.before, c.after) for c in view.changes(timeout=0)] for view in views]
        history = [[view.as_of({"t": {0: n}}).rows() for n in range(1, last.epoch + 1)] for view in views]
        return (last.epoch, last.positions, last.manifest), [view.rows() for view in views], changes, history


@pytest.fixture(scope="module")
def clean(tmp_path_factory) -> tuple:
    """What the program leaves when nothing happens to it."""
    path = tmp_path_factory.mktemp("clean") / "views.db"
    subprocess.run([sys.executable, str(PROGRAM), str(path), "3"], check=True, stdout=subprocess.DEVNULL)
    return state(path)


@pytest.mark.parametrize("place", PLACES)
def test_killed_at_every_step_it_goes_on_as_if_nothing_had_been(program, clean, path, place):
    killed = program(PROGRAM, path, 3, failpoints=f"{place}=kill")
    assert killed.wait(30) == -signal.SIGKILL
    acknowledged = len(killed.communicate()[0].splitlines())
    with open_store(path, create=False) as store:
        assert store.last("flow").epoch == acknowledged + place.startswith("views.committed")
    assert program(PROGRAM, path, 3).wait(30) == 0
    assert state(path) == clean


def test_a_run_that_was_stopped_and_wakes_up_is_fenced(program, tmp_path):
    path = tmp_path / "views.db"
    stopped = program(PROGRAM, path, 4, failpoints="views.netted:3=stop")
    assert [stopped.stdout.readline() for _ in range(2)] == ["1\n", "2\n"]
    os.waitid(os.P_PID, stopped.pid, os.WSTOPPED)
    assert program(PROGRAM, path, 4).wait(30) == 0
    stopped.send_signal(signal.SIGCONT)
    _, said = stopped.communicate(timeout=30)
    assert stopped.returncode == 1
    assert "run 1 of flow 'flow' may write nothing more: run 2 has taken over" in said
    assert state(path)[0][0] == 4


def test_disk_full_is_said_and_passes(store):
    store.commit(epoch(1, rows(10)))
    writer = store.database._writer
    [(pages,)] = writer.execute("pragma page_count").fetchall()
    writer.execute(f"pragma max_page_count = {pages + 2}")
    with pytest.raises(DiskFull, match="no room"):
        store.commit(epoch(2, rows(5000, "y" * 200)))
    assert View(store, "v").get(1) == {"k": 1, "s": "x"}
    assert store.last("flow").epoch == 1
    writer.execute("pragma max_page_count = 1000000")
    assert store.commit(epoch(2, rows(5000, "y" * 200)))


def test_an_error_of_the_disk_leaves_the_epoch_to_be_committed_again(store):
    failpoints.arm("views.applied=enospc")
    with pytest.raises(DiskFull):
        store.commit(epoch(1, rows(10)))
    assert View(store, "v").rows() == []
    assert store.commit(epoch(1, rows(10)))


def test_a_file_that_is_gone_or_replaced_is_never_written_to(store, path, tmp_path):
    store.commit(epoch(1, rows(10)))
    path.rename(tmp_path / "elsewhere.db")
    for use in (lambda: store.commit(epoch(2)), lambda: View(store, "v")):
        with pytest.raises(Transient, match="is not there"):  # a disk that comes back
            use()
    path.write_bytes(b"")
    with pytest.raises(Corrupt, match="was replaced"):
        store.commit(epoch(2))


def test_a_store_that_should_be_there_is_not_made_anew(path):
    with pytest.raises(Unavailable, match="is missing"):
        open_store(path, create=False)
    assert not path.exists()


def test_a_newer_format_is_refused(store, path):
    store.close()
    db = sqlite3.connect(path)
    db.execute("pragma user_version = 99")
    db.close()
    with pytest.raises(NewerFormat, match="has format 99"):
        open_store(path)


def test_an_older_format_is_named_with_the_way_out(store, path):
    """It was an error of SQL about a column that had not been there yet."""
    store.close()
    db = sqlite3.connect(path)
    db.execute("pragma user_version = 1")
    db.close()
    with pytest.raises(OlderFormat, match=r"views.db was made by an older Riverrun: it has format 1.* run them"):
        open_store(path)


def test_kept_changes_that_were_damaged_are_named(store, path):
    store.commit(epoch(1, rows(10)))
    [(data,)] = store.database._writer.execute('select data from "riverrun:changes"').fetchall()
    for flipped in (30, 200):
        damaged = data[:flipped] + bytes([data[flipped] ^ 4]) + data[flipped + 1 :]
        store.database._writer.execute('update "riverrun:changes" set data = ?', (damaged,))
        with pytest.raises(Corrupt, match="the changes of view 'v' that are kept are damaged"):
            next(View(store, "v").changes("0"))


def test_a_file_of_another_program_is_refused(path):
    db = sqlite3.connect(path)
    db.execute("create table theirs (a)")
    db.close()
    with pytest.raises(Conflict, match="another program"):
        open_store(path)
    path.unlink()
    path.write_bytes(b"not a database at all, but long enough to look like one " * 20)
    with pytest.raises(Corrupt, match="damaged"):
        open_store(path)


def test_damage_is_named(store, path):
    store.commit(epoch(1, rows(5000, "some text")))
    store.close()
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(os.urandom(path.stat().st_size - 4096))
    with pytest.raises(Corrupt, match=r"views\.db is damaged"), open_store(path) as damaged:
        View(damaged, "v").rows()


def test_a_directory_that_is_not_there_is_named(tmp_path):
    with pytest.raises(Unavailable, match="cannot be used"):
        open_store(tmp_path / "nowhere" / "views.db")


def test_a_writer_that_waits_too_long_says_so(store, path):
    with SqlStore(SqliteDatabase(path, wait=0.05)) as other, store.database.writing("flow"):
        with pytest.raises(Busy):
            other.take_fence("flow")
        assert View(other, "v").rows() == []


def test_two_processes_may_create_the_same_store(tmp_path):
    errors: list[BaseException] = []

    def create() -> None:
        try:
            with open_store(tmp_path / "new.db") as made:
                made.take_fence("flow")
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=create) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    with open_store(tmp_path / "new.db") as made:
        assert made.last("flow").fence == 4


def _follow(path: str, found: multiprocessing.Queue) -> None:
    with open_store(path, create=False) as mine:
        found.put("ready")
        found.put(len(View(mine, "v").rows(at_least={"t": {0: 2}})))


def test_another_process_reads_while_this_one_writes(store, path):
    context = multiprocessing.get_context("spawn")
    found = context.Queue()
    reader = context.Process(target=_follow, args=(str(path), found))
    reader.start()
    assert found.get(timeout=30) == "ready"
    store.commit(epoch(1, rows(10)))
    store.commit(epoch(2, rows(20)))
    assert found.get(timeout=30) == 20
    reader.join(10)


def test_a_condition_on_the_key_uses_it(store):
    store.commit(epoch(1, rows(10)))
    plan = store.query("explain query plan select * from v where k = 3")
    assert "SEARCH" in plan[0]["detail"]


def test_people_see_views_with_any_tool(store, path):
    store.commit(epoch(1, rows(2)))
    with sqlite3.connect(path) as db:
        assert db.execute("select * from v order by k").fetchall() == [(0, "x"), (1, "x")]
    db.close()


def test_an_older_fence_is_refused_even_before_the_first_epoch(store):
    store.take_fence("flow")
    with pytest.raises(Fenced):
        store.commit(epoch(1))


def test_queries_cannot_reach_other_files(store, tmp_path):
    for sql in (f"attach '{tmp_path}/x.db' as x", "select writefile('x', 'y')", "select load_extension('x')"):
        with pytest.raises(Invalid):
            store.query(sql)


def test_a_string_that_is_not_utf8_is_the_mistake_of_the_query(store):
    with pytest.raises(Invalid, match="sql: Could not decode to UTF-8"):
        store.query("select cast(x'ff' as text)")


def test_a_query_where_there_are_no_views_says_so(path):
    with open_store(path) as store, pytest.raises(Invalid, match="no such table: nope. There are no views yet; a run"):
        store.query("select * from nope")


def test_without_files_left_it_is_waited_for(store, path):
    """Whatever took them: nothing is wrong with the store, and a run goes on when there are some again."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = max(map(int, os.listdir("/proc/self/fd"))) + 8
    resource.setrlimit(resource.RLIMIT_NOFILE, (used, hard))
    taken = []
    try:
        with suppress(OSError):
            while True:
                taken.append(os.open(os.devnull, os.O_RDONLY))
        with pytest.raises(Transient, match=r"Too many open files.*ulimit -n"):
            open_store(path)
    finally:
        for fd in taken:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    with open_store(path) as again:
        assert [spec.name for spec in again.views()] == ["v"]
