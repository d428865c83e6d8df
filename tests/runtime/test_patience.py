"""Waiting for what will pass."""

from __future__ import annotations

import threading
import time

import pytest

from riverrun.errors import Busy, Closed, Conflict, Transient
from riverrun.runtime import patience
from riverrun.runtime.patience import Patience


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch):
    monkeypatch.setattr(patience, "_FIRST", 0.001)
    monkeypatch.setattr(patience, "_LONGEST", 0.004)


def test_repeats_until_it_succeeds_and_says_why_it_waits():
    waiter, said = Patience("flow f"), []

    def act() -> str:
        said.append(waiter.waiting)
        if len(said) < 6:
            raise Busy(f"try {len(said)}")
        return "done"

    assert waiter.through(act) == "done"
    assert said == [None, "try 1", "try 2", "try 3", "try 4", "try 5"]
    assert waiter.waiting is None


def test_pauses_grow(monkeypatch):
    class Pauses(threading.Event):
        def wait(self, timeout=None):
            taken.append(timeout)
            return False

    taken: list[float] = []
    left = iter(range(5))

    def act() -> None:
        if next(left) < 4:
            raise Transient("away")

    Patience("flow f", Pauses()).through(act)
    assert taken == [0.001, 0.002, 0.004, 0.004]


def test_other_errors_are_raised_at_once():
    tried = []

    def act() -> None:
        tried.append(1)
        raise Conflict("no")

    with pytest.raises(Conflict):
        Patience("flow f").through(act)
    assert len(tried) == 1


def test_the_last_of_so_many_tries_is_raised():
    tried = []

    def act() -> None:
        tried.append(1)
        raise Busy(f"try {len(tried)}")

    with pytest.raises(Busy, match="try 3"):
        Patience("flow f", tries=3).through(act)


def test_stopping_ends_the_wait(monkeypatch):
    monkeypatch.setattr(patience, "_FIRST", 30)
    stopping = threading.Event()
    waiter = Patience("flow f", stopping)

    def act() -> None:
        raise Busy("locked")

    threading.Timer(0.05, stopping.set).start()
    started = time.monotonic()
    with pytest.raises(Closed, match="flow f was stopped while it waited: locked"):
        waiter.through(act)
    assert time.monotonic() - started < 5
    assert waiter.waiting is None
