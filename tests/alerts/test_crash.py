"""Killed at any step of sending: nothing is lost, and what comes again has the key it had."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import pytest

from alert_receiver import Receiver, fired
from riverrun import River

Program = Callable[..., subprocess.Popen[str]]


def run(program: Program, river: River, receiver: Receiver, failpoints: str = "") -> int:
    process = program("alert.py", river.path, receiver.url, failpoints=failpoints)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == (-9 if failpoints else 0), errors
    return process.returncode


@pytest.mark.parametrize(
    ("step", "repeated"),
    [
        ("alerts.sent", True),
        pytest.param("alerts.begun", False, marks=pytest.mark.recovery),
        pytest.param("alerts.noted", False, marks=pytest.mark.recovery),
        pytest.param("group.commit.begin", False, marks=pytest.mark.recovery),
        pytest.param("group.commit.done", False, marks=pytest.mark.recovery),
    ],
)
def test_killed_while_sending(river: River, receiver: Receiver, program: Program, step: str, repeated: bool) -> None:
    topic = fired(river)
    topic.append([{"user": "ada"}, {"user": "bob"}])
    run(program, river, receiver, f"{step}=kill")
    topic.append({"user": "eve"})  # makes no larger message of the one that was begun
    run(program, river, receiver)
    first, second = "shop.alerts.fraud@0:0-1", "shop.alerts.fraud@0:2-2"
    assert receiver.keys() == ([first, first, second] if repeated else [first, second])
    assert [body["count"] for body in receiver.bodies()] == ([2, 2, 1] if repeated else [2, 1])
    assert river.lag("shop.alerts")["rows"] == 0


def test_killed_after_rows_were_put_aside(river: River, receiver: Receiver, program: Program) -> None:
    fired(river).append([{"user": "ada"}, {"user": "bob"}])
    receiver.answers = [500, 500]
    run(program, river, receiver, "alerts.dead=kill")
    run(program, river, receiver)
    dead = river.topic("shop.alerts.fraud.dead").read()
    assert dead.column("user").to_pylist() == ["ada", "bob"]
