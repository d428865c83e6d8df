"""The doctor finds what is wrong, and says what to do."""

from __future__ import annotations

import errno
import os
import shutil
import socket
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from oracles.recovery_shop import BASE
from postgres_server import shared_server
from riverrun import java
from riverrun.doctor import Check, examine, file_system, machine
from riverrun.doctor import river as inside
from riverrun.river import River
from riverrun.views import open_store


@pytest.fixture
def river(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    for name in list(os.environ):
        if name.startswith("RIVERRUN_"):
            monkeypatch.delenv(name)
    path = str(tmp_path / "river")
    with River(path) as made:
        made.topic("orders", "user string", key="user", fsync="os").append([{"user": "ada"}, {"user": "bob"}])
    return path


def named(checks: list[Check], name: str) -> list[Check]:
    return [check for check in checks if check.name == name]


def test_an_old_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine.platform, "python_version", lambda: "3.10.2")
    assert machine.check_python() == Check("python", "failed", "3.10.2", "Riverrun needs Python 3.11 or newer")


def test_a_healthy_machine(river: str) -> None:
    checks = list(examine(river))
    assert [check for check in checks if check.status == "failed"] == []
    assert {"python", "packages", "spark", "java", "disk", "writable", "file system", "wake-up", "port", "river"} <= {
        check.name for check in checks
    }
    assert named(checks, "topic orders")[0].found.startswith("2 offsets")


def test_whatever_fails_comes_with_a_fix(river: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RIVERRUN_SEGMENT_BYTES", "large")
    monkeypatch.setattr(java, "_candidates", lambda environ: iter(()))
    os.remove(f"{river}/topics/orders/topic.json")
    failed = [check for check in examine(river) if check.status == "failed"]
    assert {"settings", "java", "topic orders"} <= {check.name for check in failed} | {"topic orders"}
    assert all(check.fix for check in failed)


def test_an_absent_river_is_fine_and_is_not_made(tmp_path: Path) -> None:
    path = str(tmp_path / "a" / "river")
    assert list(inside.check_river(path)) == [Check("river", "ok", f"none in {path} yet")]
    assert examine(path)
    assert not (tmp_path / "a").exists()


def test_a_directory_that_is_no_river(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    (check,) = inside.check_river(str(tmp_path))
    assert (check.status, check.fix) == ("failed", "Give the river's directory: --river DIR")


def test_a_river_of_a_newer_riverrun(river: str) -> None:
    Path(river, "river.json").write_text('{"format": 99}')
    (check,) = inside.check_river(river)
    assert (check.status, check.fix) == ("failed", "Upgrade Riverrun")


def test_a_damaged_topic_is_named_and_the_others_are_looked_at(river: str) -> None:
    with River(river) as opened:
        opened.topic("users", "user string")
    os.remove(f"{river}/topics/orders/topic.json")
    checks = list(inside.check_river(river))
    (orders,), (users,) = named(checks, "topic orders"), named(checks, "topic users")
    assert (orders.status, users.status) == ("failed", "ok")
    assert orders.fix


def test_a_topic_that_accepts_no_writes(river: str) -> None:
    with River(river) as opened:
        topic = opened.topic("orders")
        topic.backend.journal.board.mark_failed()
        check = inside.check_topic(opened, "orders")
    assert check.status == "failed"
    assert "riverrun topic repair orders" in (check.fix or "")


def test_a_topic_that_was_written_while_the_clock_was_ahead(river: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with River(river) as opened, monkeypatch.context() as patched:
        now = time.time_ns()
        patched.setattr(time, "time_ns", lambda: now + 10 * 86_400 * 10**9)
        opened.topic("orders").append({"user": "ada"})
    (check,) = named(list(inside.check_river(river)), "topic orders")
    assert check.status == "warning"
    assert "ahead of the clock. Until then all rows are received at that moment" in check.found


def test_a_disk_without_inodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(**_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("riverrun.doctor.file_system.tempfile.NamedTemporaryFile", full)
    (check,) = named(list(file_system.check_directory(str(tmp_path))), "writable")
    assert (check.status, "inodes are short" in (check.fix or "")) == ("failed", True)


def test_a_group_whose_rows_were_removed_before_it_read_them(river: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with River(river) as opened:
        lost = {"rows": 1, "seconds": 2.0, "topics": {"orders": {"partitions": {0: {"lost": 3}, 1: {"lost": 0}}}}}
        monkeypatch.setattr(opened, "lag", lambda group: lost)
        check = inside.check_group(opened, "billing")
    assert (check.status, check.found) == ("failed", "3 rows of orders were removed before it read them")
    assert "riverrun group reset billing orders --to earliest" in (check.fix or "")


def test_a_river_that_others_can_enter(river: str) -> None:
    """Everybody on the machine could read all events, and freeze all writers."""
    assert named(list(examine(river)), "privacy") == []
    os.chmod(river, 0o755)
    [check] = named(list(examine(river)), "privacy")
    assert (check.status, check.found) == ("warning", f"{river}: others may enter it (mode 755)")
    assert check.fix is not None
    assert f"chmod go= {river}" in check.fix


def test_a_river_of_somebody_else(river: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: owner + 1)
    [check] = named(list(examine(river)), "privacy")
    assert check.found == f"{river}: it belongs to user {owner}"


def test_state_and_views_elsewhere_are_looked_at(river: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "flows").mkdir(mode=0o755)
    (tmp_path / "views.db").touch(mode=0o644)
    monkeypatch.setenv("RIVERRUN_CHECKPOINTS", str(tmp_path / "flows"))
    monkeypatch.setenv("RIVERRUN_VIEWS", str(tmp_path / "views.db"))
    found = [check.found.partition(":")[0] for check in named(list(examine(river)), "privacy")]
    assert found == [str(tmp_path / "flows"), str(tmp_path / "views.db")]


def test_a_login_of_views_that_may_do_everything(river: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RIVERRUN_VIEWS", shared_server().url)
    with open_store(shared_server().url):
        pass
    answers, concern = named(list(examine(river)), "views")
    assert (answers.status, concern.status) == ("ok", "warning")
    assert "is a superuser" in concern.found
    monkeypatch.setenv("RIVERRUN_VIEWS", "postgresql://me@127.0.0.1:1/x")
    [away] = named(list(examine(river)), "views")
    assert away.status == "failed"


def test_a_misspelt_setting(river: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RIVERRUN_SEGMENT_BTES", "1 MiB")
    (check,) = machine.check_settings()
    assert (check.status, check.fix) == ("failed", "Did you mean 'RIVERRUN_SEGMENT_BYTES'?")


def test_a_taken_port() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert machine.check_port(taken.getsockname()[1]).status == "warning"
    assert machine.check_port(0).status == "ok"


def test_too_little_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_system, "_NO_ROOM", 1 << 62)
    assert next(iter(file_system.check_directory(str(tmp_path)))).status == "failed"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_directory_that_cannot_be_written(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    checks = list(file_system.check_directory(str(tmp_path)))
    tmp_path.chmod(0o700)
    assert checks[-1].status == "failed"


def test_spark_is_not_needed_for_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> str:
        raise machine.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(machine.metadata, "version", absent)
    check = machine.check_spark()
    assert (check.status, check.fix) == ("warning", "pip install '.[spark]' (in a clone of Riverrun)")


def test_a_java_home_that_is_broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", f"{tmp_path}/gone")
    found = list(machine.check_java())
    assert any(f"JAVA_HOME={tmp_path}/gone has no bin/java" in check.found for check in found)
    assert all(check.fix for check in found if check.status != "ok")


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A river in which a flow has run."""
    path = tmp_path_factory.mktemp("ran") / "river"
    program = Path(__file__).parent / "programs" / "run_without_spark.py"
    run = [sys.executable, str(program), str(path)]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RIVERRUN_")}
    for _ in range(2):  # the first makes the topics
        subprocess.run(run, check=True, capture_output=True, env=environment)
        with River(path) as opened:
            opened.topic("orders").append({"n": 1, "user": "u1", "amount": "1.5", "at": BASE})
    return path


@pytest.fixture
def copied(ran: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in list(os.environ):
        if name.startswith("RIVERRUN_"):
            monkeypatch.delenv(name)
    return Path(shutil.copytree(ran, tmp_path / "copy"))


def test_a_copy_whose_views_and_checkpoints_fit(copied: Path) -> None:
    checks = list(inside.check_river(str(copied)))
    assert [check for check in checks if check.status == "failed"] == []
    assert named(checks, "views")[0].found.startswith(f"{copied}/views.db: an epoch is one transaction")
    assert named(checks, "flow shop")[0].found == f"epoch 1, its checkpoint {copied}/flows/shop fits"


def test_a_view_store_that_is_damaged(copied: Path) -> None:
    store = copied / "views.db"
    for journal in copied.glob("views.db-*"):
        journal.unlink()
    data = bytearray(store.read_bytes())
    for at in range(4096, len(data), 4096):
        data[at : at + 64] = bytes(64)
    store.write_bytes(bytes(data))
    (check,) = named(list(inside.check_river(str(copied))), "views")
    assert check.status == "failed"
    assert f"{store} is damaged: " in check.found
    assert "computes the views again" in str(check.fix)


def test_a_view_store_of_another_format(copied: Path) -> None:
    with closing(sqlite3.connect(copied / "views.db")) as db:
        db.execute("pragma user_version = 999")
    (check,) = named(list(inside.check_river(str(copied))), "views")
    assert (check.status, check.fix) == ("failed", "Upgrade Riverrun")
    assert "has format 999" in check.found


def test_a_checkpoint_that_does_not_fit_the_views(copied: Path) -> None:
    for plan in (copied / "flows" / "shop" / "checkpoint" / "offsets").iterdir():
        plan.unlink()
    (check,) = named(list(inside.check_river(str(copied))), "flow shop")
    assert check.status == "failed"
    assert "its views are at epoch 1, but its checkpoint" in check.found
    assert "Restore the directory" in str(check.fix)


def test_a_plan_that_cannot_be_read(copied: Path) -> None:
    (copied / "flows" / "shop" / "checkpoint" / "offsets" / "0").write_text("v1\n{}\n{")
    (check,) = named(list(inside.check_river(str(copied))), "flow shop")
    assert check.status == "failed"
    assert "its checkpoint is damaged" in check.found


def test_captures_that_do_not_capture() -> None:
    told = {"name": "shop", "state": "streaming", "reason": None, "position": "0/1", "tables": {}}
    assert inside.check_capture(told).status == "ok"
    assert inside.check_capture({**told, "state": "gone", "reason": "not heard of"}).status == "failed"
    stopped = {"public.t": {"state": "stopped", "reason": "it has no primary key"}}
    assert "it has no primary key" in inside.check_capture({**told, "tables": stopped}).found
