"""`riverrun worker` as a process, and `riverrun dead` after it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from riverrun.log.queue import Message
from riverrun.river import River
from waiting import until

MAILS = """
import time

def send(message):
    if message.row["to"] == "nobody":
        raise LookupError("no such address")
    with open("sent", "a") as file:
        file.write(message.row["to"] + "\\n")
    if message.row["to"] == "slow":
        time.sleep(1)

later = 7
"""


@pytest.fixture
def mails(riverrun: Any) -> Any:
    Path("mails.py").write_text(MAILS)
    sys.modules.pop("mails", None)
    with River("river") as river:
        river.topic("mails", "to string", fsync="os").append([{"to": "ada"}, {"to": "nobody"}, {"to": "bob"}])
    return riverrun


def test_what_fails_is_listed_and_sent_again(mails: Any) -> None:
    options = ("--topic", "mails", "--group", "send", "--attempts", "2", "--backoff", "10 ms", "--once")
    done = mails("worker", "mails:send", *options)
    assert done.code == 0, done
    assert done.out.splitlines()[-1] == "2 messages done, 2 failed, 1 became dead letters"
    assert "attempt 1: LookupError: no such address; again in 10 ms" in done.err
    assert "attempt 2: LookupError: no such address; it goes to mails.dead.send" in done.err
    assert sorted(Path("sent").read_text().split()) == ["ada", "bob"]
    (found,) = mails("dead", "list", "--json").json
    assert (found["topic"], found["waiting"], found["rows"]) == ("mails.dead.send", 1, 1)
    assert mails("dead", "resend", "mails.dead.send").out == "mails.dead.send: group send gets 1 row again\n"
    assert mails("dead", "resend", "--all").out == "no dead letters wait\n"
    Path("mails.py").write_text(MAILS.replace('== "nobody"', '== "anybody"'))
    sys.modules.pop("mails")
    assert mails("worker", "mails:send", *options, "--json").json == {"done": 1, "failed": 0, "dead": 0}
    assert mails("dead", "list").out.split()[-4:] == ["mails.dead.send", "queue", "0", "1"]


def test_one_topic_that_cannot_be_sent_again_does_not_stop_the_others(mails: Any) -> None:
    for group in ("bill", "send"):
        options = ("--topic", "mails", "--group", group, "--attempts", "1", "--once")
        assert mails("worker", "mails:send", *options).code == 0
    assert mails("group", "drop", "bill", "--yes").code == 0
    done = mails("dead", "resend", "--all")
    assert (done.code, done.out) == (1, "mails.dead.send: group send gets 1 row again\n")
    first, last = done.err.splitlines()[-2:]
    assert first.startswith(
        "riverrun: mails.dead.bill: there is no group bill any more that takes topic mails as a queue"
    )
    assert last == "riverrun: of 2 topics 1 failed; the others were sent again"
    assert mails("dead", "resend", "--all").code == 2


def test_a_worker_whose_thread_has_died_fails(mails: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(message: Message) -> None:
        raise MemoryError("nothing left")

    monkeypatch.setattr(Message, "ack", refuse)
    done = mails("worker", "mails:send", "--topic", "mails", "--group", "send")
    assert done.code == 1
    assert "the worker cannot go on: MemoryError: nothing left" in done.err


def test_mistakes_are_answered(mails: Any) -> None:
    place = ("--topic", "mails", "--group", "send")
    assert "Write MODULE:FUNCTION" in mails("worker", "mails", *place).error
    assert "No module named 'nomails'" in mails("worker", "nomails:send", *place).error
    assert "mails has no function 'sent'. Did you mean 'send'?" in mails("worker", "mails:sent", *place).error
    assert "mails has no function 'later'" in mails("worker", "mails:later", *place).error
    assert "there is no topic 'mail'" in mails("worker", "mails:send", "--topic", "mail", "--group", "send").error
    assert "there is no topic of dead letters 'mails'" in mails("dead", "resend", "mails").error
    assert "Give topics of dead letters, or --all" in mails("dead", "resend").error
    sys.modules.pop("mails")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_lets_it_finish_what_it_has(tmp_path: Path, number: int) -> None:
    (tmp_path / "mails.py").write_text(MAILS)
    with River(tmp_path / "river") as river:
        river.topic("mails", "to string", partitions=1, fsync="os").append([{"to": "slow"}, {"to": "bob"}])
    process = subprocess.Popen(
        [sys.executable, "-m", "riverrun.cli", "worker", "mails:send", "--topic", "mails", "--group", "send", "--json"],
        cwd=tmp_path,
        env=dict(os.environ),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    until((tmp_path / "sent").exists)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, json.loads(out)) == (0, {"done": 1, "failed": 0, "dead": 0})
    assert err == f"{signal.Signals(number).name}: finishing what is being worked on\n"
    with River(tmp_path / "river") as river:
        assert river.lag("send")["rows"] == 1


def test_a_worker_that_waits_for_its_rate_is_a_member(mails: Any, tmp_path: Path) -> None:
    """It has no message, and will not have one for a long time; so is one that waits for messages."""
    command = [sys.executable, "-m", "riverrun.cli", "worker", "mails:send", "--topic", "mails", "--group", "send"]
    with subprocess.Popen([*command, "--rate", "0.01"], stdout=subprocess.DEVNULL) as running:
        try:
            until(lambda: Path("sent").exists())
            until(lambda: _described("send")["rows"] == 2)  # the first is done, and no other begun
            (worker,) = _described("send")["workers"]
            assert worker.pop("identity").split("/")[2] == str(running.pid)
            assert worker == {"process": running.pid, "topic": "mails", "messages": 0, "seconds": None}
            (group,) = mails("group", "list", "--json").json
            assert (group["kind"], group["members"]) == ("queue", 1)
            assert f"in use by process {running.pid}" in mails("group", "drop", "send", "--yes").err
        finally:
            running.kill()
    assert _described("send")["workers"] == []
    (group,) = mails("group", "list", "--json").json
    assert group["members"] == 0
    assert mails("group", "drop", "send", "--yes").code == 0


def _described(group: str) -> Any:
    with River("river") as river:
        return river.groups.describe(group)
