"""Where a flow is, from what its store and its directory hold."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import polars as pl
import pytest

from riverrun.checksums import with_checksum
from riverrun.kernels.kernel import MAX_TIME, MIN_TIME
from riverrun.kernels.watermark import HEARD, Watermarks
from riverrun.position import Position
from riverrun.runtime.ledger import LedgerEntry
from riverrun.runtime.manifest import Manifest, SourceClock
from riverrun.runtime.status import Lag, NodeSize, SourceStatus, StateSize, StoredStatus
from riverrun.runtime.stored_status import read_status
from riverrun.views import Last

SECOND = 1_000_000
HOUR = 3600 * SECOND


def last(manifest: Manifest | None) -> Last:
    ledger = [
        {"node": "window-1", "input": "in", "read": 10, "accepted": 7, "late_dropped": 3, "late_aside": 0},
        {"node": "window-2", "input": "in", "read": 5, "accepted": 3, "late_dropped": 0, "late_aside": 2},
    ]
    positions = Position({"orders": {0: 10, 1: 4}, "users": {0: 9}})
    encoded = manifest.encode() if manifest else None
    return Last(7, 3, positions, encoded, ledger, committed=1_767_225_600 * SECOND, run="one")


def test_before_the_first_epoch(tmp_path: Path) -> None:
    lag = Lag(30, 2.5, {"orders": 21, "users": 9})
    assert read_status("shop", Last(0, 0, Position()), lag, str(tmp_path)) == StoredStatus(flow="shop", lag=lag)


def test_what_the_last_epoch_left(tmp_path: Path) -> None:
    status = read_status("shop", last(None), Lag(), str(tmp_path))
    assert (status.epoch, status.fence, status.run) == (7, 3, "one")
    assert status.committed == datetime(2026, 1, 1, tzinfo=UTC)
    assert status.positions == "orders@0:10,1:4;users@0:9"
    assert status.ledger[1] == LedgerEntry("window-2", "in", read=5, accepted=3, late_aside=2)
    assert status.late == 5


def test_who_holds_the_watermark_back(tmp_path: Path) -> None:
    now = time.time_ns() // 1000
    heard = [("fast", now, now), ("slow", now - HOUR, now), ("silent", now - 2 * HOUR, now - HOUR)]
    known = Watermarks(lateness=10 * SECOND, idle=60 * SECOND)
    for received in (now - HOUR, now):
        lines = [line for line in heard if line[2] == received]
        known = known.advance(pl.DataFrame(lines, schema=HEARD, orient="row"), received)
    (tmp_path / "planner").mkdir()
    (tmp_path / "planner/7-x").write_bytes(with_checksum(msgspec.msgpack.encode({"stream-1": known.to_bytes()})))
    clock = SourceClock("orders", known.watermark, 10 * SECOND, 60 * SECOND)
    manifest = Manifest(7, 2, {}, {}, sources={"stream-1": clock}, memory="7-x")
    (source,) = read_status("shop", last(manifest), Lag(), str(tmp_path)).sources
    assert (source.source, source.topic) == ("stream-1", "orders")
    assert [holder.producer for holder in source.held_by] == ["slow", "fast"]
    assert source.behind is not None and 3600 <= source.behind < 3700
    # without the planner's memory, the watermark is still known
    (alone,) = read_status("shop", last(manifest), Lag(), str(tmp_path / "elsewhere")).sources
    assert (alone.held_by, alone.watermark) == ((), source.watermark)


@pytest.mark.parametrize(("named", "who"), [(False, "partition 2 of orders"), (True, "2 of orders")])
def test_whoever_is_silent_and_holds_time_back_is_named(tmp_path: Path, named: bool, who: str) -> None:
    now = time.time_ns() // 1000
    before = pl.DataFrame([("0", now - HOUR, now - HOUR), ("2", now - HOUR, now - HOUR)], schema=HEARD, orient="row")
    slow = Watermarks().advance(before, now - HOUR)
    silent = slow.advance(pl.DataFrame([("0", now, now)], schema=HEARD, orient="row"), now)
    (tmp_path / "planner").mkdir()
    said = []
    for known in (slow, silent):
        (tmp_path / "planner/7-x").write_bytes(with_checksum(msgspec.msgpack.encode({"s": known.to_bytes()})))
        clock = SourceClock("orders", known.watermark, 0, None, named)
        manifest = Manifest(7, 2, {}, {}, sources={"s": clock}, memory="7-x")
        said.append(read_status("shop", last(manifest), Lag(), str(tmp_path)).sources[0].waits_for)
    assert said == [None, f"{who}, silent for 1 h"]


@pytest.mark.parametrize("watermark", [MIN_TIME, MAX_TIME, MAX_TIME // 2, MIN_TIME // 2])
def test_a_watermark_that_no_calendar_has_is_none(tmp_path: Path, watermark: int) -> None:
    """Before the first row, after the end of the input, and where a row says the year 70 000."""
    manifest = Manifest(7, 2, {}, {}, final=True, sources={"a": SourceClock("orders", watermark, 0, None)})
    status = read_status("shop", last(manifest), Lag(), str(tmp_path))
    assert status.sources == (SourceStatus("a", "orders"),)
    assert status.finished


def test_what_the_state_takes(tmp_path: Path) -> None:
    run = {"file": "f", "rows": 10, "size": 1000, "lo": 0, "hi": 1}
    tables = {
        "cells": {"low": None, "tail": b"A" * 40, "runs": [run, run]},
        "rest": {"low": 1, "tail": None, "runs": []},
    }
    nodes = {"window-1": {"0": {"version": 1, "tables": tables}, "1": {"version": 1, "tables": tables}}, "group-1": {}}
    size = read_status("shop", last(Manifest(7, 2, nodes, {})), Lag(), str(tmp_path)).state_size
    assert size == StateSize(4080, 4, {"window-1": NodeSize(4080, 4), "group-1": NodeSize(0, 0)})
