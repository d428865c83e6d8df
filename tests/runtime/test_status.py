"""Where a flow is, from what its store and its directory hold."""

from __future__ import annotations

import json
import time
from pathlib import Path

import msgspec
import polars as pl

from riverrun.kernels.kernel import MAX_TIME, MIN_TIME
from riverrun.kernels.watermark import HEARD, Watermarks
from riverrun.position import Position
from riverrun.runtime.manifest import Manifest, SourceClock
from riverrun.runtime.status import flow_status
from riverrun.views import Last

SECOND = 1_000_000
HOUR = 3600 * SECOND
ENDS = {"orders": {0: 17, 1: 4}, "users": {0: 9}}


def last(manifest: Manifest | None, received: int = 0) -> Last:
    ledger = [
        {"node": "window-1", "input": "in", "late_dropped": 3, "late_aside": 0},
        {"node": "window-2", "input": "in", "late_dropped": 0, "late_aside": 2},
    ]
    positions = Position({"orders": {0: 10, 1: 4}, "users": {0: 9}})
    encoded = manifest.encode() if manifest else None
    return Last(7, 3, positions, encoded, ledger, received, committed=1_767_225_600 * SECOND)


def test_before_the_first_epoch(tmp_path: Path) -> None:
    status = flow_status("shop", Last(0, 0, Position()), ENDS, str(tmp_path))
    assert status["lag"] == {"rows": 30, "seconds": 0.0, "topics": {"orders": 21, "users": 9}}
    assert (status["epoch"], status["committed"], status["sources"], status["finished"]) == (0, None, [], False)
    json.dumps(status)


def test_lag_in_rows_and_in_time(tmp_path: Path) -> None:
    received = time.time_ns() // 1000 - 5 * SECOND
    status = flow_status("shop", last(None, received), ENDS, str(tmp_path))
    assert status["lag"]["topics"] == {"orders": 7, "users": 0}
    assert 5 <= status["lag"]["seconds"] < 60
    assert status["committed"] == "2026-01-01T00:00:00Z"
    assert status["late"] == 5
    done = flow_status("shop", last(None, received), {"orders": {0: 10, 1: 4}, "users": {0: 9}}, str(tmp_path))
    assert (done["lag"]["rows"], done["lag"]["seconds"]) == (0, 0.0)


def test_who_holds_the_watermark_back(tmp_path: Path) -> None:
    now = time.time_ns() // 1000
    heard = [("fast", now, now), ("slow", now - HOUR, now), ("silent", now - 2 * HOUR, now - HOUR)]
    known = Watermarks(lateness=10 * SECOND, idle=60 * SECOND)
    for received in (now - HOUR, now):
        lines = [line for line in heard if line[2] == received]
        known = known.advance(pl.DataFrame(lines, schema=HEARD, orient="row"), received)
    (tmp_path / "planner").mkdir()
    (tmp_path / "planner/7-x").write_bytes(msgspec.msgpack.encode({"stream-1": known.to_bytes()}))
    clock = SourceClock("orders", known.watermark, 10 * SECOND, 60 * SECOND)
    manifest = Manifest(7, 2, {}, {}, sources={"stream-1": clock}, memory="7-x")
    (source,) = flow_status("shop", last(manifest), ENDS, str(tmp_path))["sources"]
    assert (source["source"], source["topic"]) == ("stream-1", "orders")
    assert [holder["producer"] for holder in source["held_by"]] == ["slow", "fast"]
    assert 3600 <= source["behind"] < 3700
    # without the planner's memory, the watermark is still known
    (source,) = flow_status("shop", last(manifest), ENDS, str(tmp_path / "elsewhere"))["sources"]
    assert (source["held_by"], source["behind"] > 3600) == ([], True)


def test_no_watermark_yet_and_the_end_of_the_input(tmp_path: Path) -> None:
    clocks = {"a": SourceClock("orders", MIN_TIME, 0, None), "b": SourceClock("users", MAX_TIME, 0, None)}
    manifest = Manifest(7, 2, {}, {}, final=True, sources=clocks)
    status = flow_status("shop", last(manifest), ENDS, str(tmp_path))
    assert [(source["watermark"], source["behind"]) for source in status["sources"]] == [(None, None), (None, None)]
    assert status["finished"]


def test_what_the_state_takes(tmp_path: Path) -> None:
    run = {"file": "f", "rows": 10, "size": 1000, "lo": 0, "hi": 1}
    tables = {
        "cells": {"low": None, "tail": "A" * 40, "runs": [run, run]},
        "rest": {"low": 1, "tail": None, "runs": []},
    }
    nodes = {"window-1": {"0": {"version": 1, "tables": tables}, "1": {"version": 1, "tables": tables}}, "group-1": {}}
    size = flow_status("shop", last(Manifest(7, 2, nodes, {})), ENDS, str(tmp_path))["state_size"]
    assert size["nodes"] == {"window-1": {"bytes": 4060, "files": 4}, "group-1": {"bytes": 0, "files": 0}}
    assert (size["bytes"], size["files"]) == (4060, 4)
