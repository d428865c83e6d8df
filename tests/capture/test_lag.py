"""How far a capture is behind is seen within a second, also while it is stuck, by everybody who looks."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from captured_ledger import CapturedLedger
from riverrun import failpoints
from riverrun.serve.server import serve_in_background
from waiting import until


class Stuck:
    """Whoever comes to this failpoint stays there until it is let go."""

    def __init__(self, place: str) -> None:
        self._place = place
        self._there, self._free = threading.Event(), threading.Event()

    def __call__(self, name: str) -> None:
        if name == self._place:
            self._there.set()
            self._free.wait(60)

    def wait(self) -> None:
        assert self._there.wait(20), f"nobody comes to {self._place}"

    def let_go(self) -> None:
        self._free.set()


@contextmanager
def stuck_at(place: str) -> Iterator[Stuck]:
    with pytest.MonkeyPatch.context() as patched:
        stuck = Stuck(place)
        patched.setattr(failpoints, "_active", stuck)
        try:
            yield stuck
        finally:
            stuck.let_go()


def seconds_until(seen: Callable[[], object]) -> float:
    begun = time.monotonic()
    until(seen)
    return time.monotonic() - begun


@pytest.mark.parametrize("any_shop", ["postgresql", "mariadb", "sqlite"], indirect=True)
def test_the_lag_of_a_capture_that_is_stuck_is_seen_within_a_second(any_shop):
    loaded = CapturedLedger(any_shop)
    with any_shop.capture("accounts", "ledger", "tags") as capture:
        until(lambda: capture.status()["state"] == "streaming" and capture.status()["lag_bytes"] == 0)
        took = []
        for _ in range(3):  # of a machine that is busy, the best of three
            with stuck_at("capture.append") as stuck:
                loaded.write()
                stuck.wait()
                loaded.write()
                took.append(seconds_until(lambda: capture.status()["lag_bytes"] and capture.status()["lag_seconds"]))
                until(lambda: any_shop.river.captures()[0]["lag_bytes"] > 0)
                (told,) = any_shop.river.captures()
                assert 0 < told["lag_seconds"] < 20
            until(lambda: capture.status()["lag_bytes"] == 0)
            assert capture.status()["lag_seconds"] == 0
        assert min(took) < 1.0
    loaded.complete()
    loaded.check()


def test_bytes_and_seconds_grow_while_it_is_stuck(file_shop):
    loaded = CapturedLedger(file_shop)
    with file_shop.capture("accounts", "ledger", "tags") as capture, stuck_at("capture.append") as stuck:
        capture.wait_until_it_runs()
        loaded.write()
        stuck.wait()
        until(lambda: capture.status()["lag_bytes"])
        first = capture.status()
        for _ in range(20):
            loaded.write()
        until(lambda: capture.status()["lag_bytes"] > 3 * first["lag_bytes"])
        until(lambda: capture.status()["lag_seconds"] > first["lag_seconds"] + 1)


def test_a_source_that_was_silent_for_long_is_not_long_ahead(file_shop, monkeypatch):
    """The age of the last transaction says nothing when there was none for hours."""
    now = time.time_ns() // 1000
    loaded = CapturedLedger(file_shop)
    loaded.write()
    with file_shop.capture("accounts", "ledger", "tags") as capture:
        until(lambda: capture.status()["state"] == "streaming" and capture.status()["lag_bytes"] == 0)
        hours = 3 * 3600 * 1_000_000
        monkeypatch.setattr("riverrun.capture.captured.wall_clock", lambda: now + hours)
        time_told(file_shop)
        with stuck_at("capture.append"):
            loaded.write()
            until(lambda: capture.status()["lag_bytes"])
            assert capture.status()["lag_seconds"] < 60


def time_told(shop: Any) -> None:
    """Wait until a capture has told something anew, twice: the second time it has begun to look since."""
    for _ in range(2):
        before = reported(shop)
        until(lambda: reported(shop) != before)  # noqa: B023


def reported(shop: Any) -> int:
    with shop.river._coordination.reading() as db:
        return int(db.execute("select reported from captures").fetchone()[0])


def test_a_capture_that_comes_back_knows_since_when(file_shop):
    loaded = CapturedLedger(file_shop)
    loaded.write()
    file_shop.once("accounts", "ledger", "tags")
    ended = time.monotonic()
    time.sleep(1.5)
    loaded.write()
    with stuck_at("capture.append") as stuck, file_shop.capture("accounts", "ledger", "tags") as capture:
        stuck.wait()
        until(lambda: capture.status()["lag_bytes"])
        assert 1.5 <= capture.status()["lag_seconds"] < time.monotonic() - ended + 5
        stuck.let_go()


def test_the_page_and_the_metrics_show_it(file_shop):
    loaded = CapturedLedger(file_shop)
    with (
        serve_in_background(file_shop.river, port=0) as server,
        httpx.Client(base_url=server.url, timeout=20) as http,
        file_shop.capture("accounts", "ledger", "tags") as capture,
    ):
        until(lambda: capture.status()["state"] == "streaming" and capture.status()["lag_bytes"] == 0)
        until(lambda: "up to date" in http.get("/ui/captures").text)
        assert gauge(http, "lag_bytes") == gauge(http, "lag_seconds") == 0
        with stuck_at("capture.append") as stuck:
            loaded.write()
            stuck.wait()
            loaded.write()
            until(lambda: gauge(http, "lag_bytes") > 0 and gauge(http, "lag_seconds") > 0)
            until(lambda: "behind" in http.get("/ui/captures").text)
        until(lambda: gauge(http, "lag_bytes") == gauge(http, "lag_seconds") == 0)
        until(lambda: "up to date" in http.get("/ui/captures").text)


def gauge(http: httpx.Client, name: str) -> float:
    (line,) = [line for line in http.get("/metrics").text.splitlines() if line.startswith(f"riverrun_capture_{name}{{")]
    return float(line.split()[-1])
