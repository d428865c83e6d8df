"""Who runs a flow: what a run tells of itself, and what is said of it to whoever takes over."""

from __future__ import annotations

import logging
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from riverrun.durations import wall_clock
from riverrun.log.process import identity_of
from riverrun.runtime.incumbency import Incumbency, is_alive, say_takeover
from riverrun.views import Incumbent, Store, open_store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(tmp_path / "views.db") as opened:
        yield opened


def test_a_run_that_is_alive_is_named_and_one_that_has_ended_is_not(store: Store, caplog) -> None:
    say_takeover("shop", store, rebuilds=False)
    run = Incumbency("shop", store)
    run.begin(store.take_fence("shop"))
    assert caplog.messages == []
    say_takeover("shop", store, rebuilds=False)
    say_takeover("shop", store, rebuilds=True)
    here = f"{socket.gethostname()}, process {os.getpid()}"
    at_once, later = caplog.messages
    assert at_once == (
        f"flow shop runs already ({here}, for 0 s, last heard 0 s ago): this run takes over from it; that one ends then,"
        " and nobody runs the flow when this one has ended"
    )
    assert "this run takes over from it when its views are computed; that one ends then" in later
    caplog.clear()
    run.end()
    say_takeover("shop", store, rebuilds=False)
    assert caplog.messages == []


def test_a_run_that_was_killed_is_not_alive(store: Store) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        name = identity_of(other.pid)
        assert name is not None
        store.hear("shop", store.take_fence("shop"), name)
        found = store.incumbent("shop")
        assert found is not None and is_alive(found)
        other.kill()
        other.wait()
        assert not is_alive(found)


def test_a_store_that_does_not_tell_keeps_no_run_from_starting(store: Store, caplog) -> None:
    store.close()
    say_takeover("shop", store, rebuilds=False)
    assert caplog.messages == []


def test_of_another_machine_there_is_only_what_it_says() -> None:
    now, day = wall_clock(), 86_400_000_000
    assert is_alive(Incumbent(1, "far", "b00/77/12/345", since=now - day, heard=now - 4_000_000))
    assert not is_alive(Incumbent(1, "far", "b00/77/12/345", since=now - day, heard=now - day // 2))


def test_of_a_run_that_cannot_be_seen_it_is_said_that_it_may_run(store: Store, caplog) -> None:
    store.hear("shop", store.take_fence("shop"), "b00/77/12/345")
    say_takeover("shop", store, rebuilds=False)
    (said,) = caplog.messages
    here = f"{socket.gethostname()}, process {os.getpid()}"
    assert said.startswith(
        f"flow shop was heard 0 s ago ({here}), and may still run: this run takes over from it; that one"
    )


def test_a_run_tells_now_and_then_and_a_store_that_is_away_does_not_end_it(store: Store, monkeypatch, caplog) -> None:
    run = Incumbency("shop", store)
    run.tell()
    assert store.incumbent("shop") is None  # it has not begun
    clock = [100.0]
    monkeypatch.setattr("riverrun.runtime.incumbency.time.monotonic", lambda: clock[0])
    moments = iter(range(1_000_000, 9_000_000, 1_000_000))
    monkeypatch.setattr("riverrun.views.sql.sqlstore.wall_clock", lambda: next(moments))
    run.begin(store.take_fence("shop"))
    first = store.incumbent("shop")
    run.tell()
    assert first is not None and store.incumbent("shop") == first
    clock[0] += 6
    run.tell()
    second = store.incumbent("shop")
    assert second is not None and (second.since, second.heard > first.heard) == (first.since, True)
    store.close()
    clock[0] += 6
    with caplog.at_level(logging.INFO):
        run.tell()
        run.end()
    assert caplog.messages == []
