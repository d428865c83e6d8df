"""The status of a flow as a value, and as the plain data that people and JSON get."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import msgspec
import pytest

from riverrun.runtime.ledger import LEDGER_PARTS, LedgerEntry
from riverrun.runtime.status import (
    AlertStatus,
    FlowStatus,
    Lag,
    NodeSize,
    RebuildProgress,
    SlowProducer,
    SourceStatus,
    StateSize,
    TimeSplit,
)

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
NOON_TEXT = "2026-01-31T12:00:00Z"
FULL = FlowStatus(
    flow="shop",
    epoch=7,
    positions="orders@0:17",
    committed=NOON,
    lag=Lag(5, 1.5, {"orders": 5}),
    sources=(SourceStatus("stream-orders", "orders", NOON, 2.5, (SlowProducer("till", NOON, NOON),)),),
    late=3,
    state_size=StateSize(100, 1, {"window-1": NodeSize(100, 1)}),
    fence=2,
    run="host 17",
    ledger=(LedgerEntry("stream-orders", "topic", read=30, accepted=27, late_dropped=3),),
    state="failing",
    reason="the store is away",
    next_try=NOON,
    rebuild=RebuildProgress(1, 2),
    rows_per_second=12.5,
    times=TimeSplit(0.1, 0.2, 0.3, 0.4),
    nodes={"window-1": 0.25},
    figures={"percolate-1": {"queries": 12}},
    alerts=(AlertStatus("large", sent=1, last_sent=NOON),),
)


def test_plain_data_is_what_json_has() -> None:
    plain = FULL.plain()
    assert json.loads(json.dumps(plain)) == plain
    assert msgspec.convert(plain, FlowStatus) == FULL


def test_people_find_in_it_what_the_pages_name() -> None:
    plain = FULL.plain()
    assert (plain["epoch"], plain["state"], plain["reason"]) == (7, "failing", "the store is away")
    assert plain["committed"] == plain["next_try"] == NOON_TEXT
    assert plain["lag"] == {"rows": 5, "seconds": 1.5, "topics": {"orders": 5}}
    assert plain["sources"][0]["held_by"] == [{"producer": "till", "time": NOON_TEXT, "heard": NOON_TEXT}]
    assert plain["sources"][0]["behind"] == 2.5
    assert plain["state_size"]["nodes"] == {"window-1": {"bytes": 100, "files": 1}}
    assert plain["rebuild"] == {"rows": 1, "of": 2}
    assert plain["times"] == {"plan": 0.1, "read": 0.2, "compute": 0.3, "commit": 0.4}
    assert plain["alerts"][0]["last_sent"] == NOON_TEXT


def test_before_the_first_epoch_times_are_empty() -> None:
    assert FlowStatus(flow="shop").plain()["times"] == {}


def test_the_slowest_watermark_is_the_flows() -> None:
    sources = (SourceStatus("a", "a", NOON, 2.5), SourceStatus("b", "b", NOON, 7.0), SourceStatus("c", "c"))
    assert FlowStatus(flow="shop", sources=sources).watermark_lag == 7.0
    assert FlowStatus(flow="shop", sources=sources[2:]).watermark_lag is None


def test_rows_are_read_from_topics_once() -> None:
    ledger = (LedgerEntry("stream-orders", "topic", read=30), LedgerEntry("window-1", "in", read=27))
    assert FlowStatus(flow="shop", ledger=ledger).rows_read == 30


@pytest.mark.parametrize("part", LEDGER_PARTS)
def test_a_row_that_is_not_accounted_for_is_missing(part: str) -> None:
    assert LedgerEntry("window-1", "in", read=3, **{part: 3}).missing == 0
    assert LedgerEntry("window-1", "in", read=3, **{part: 2}).missing == 1


def test_what_an_epoch_took_is_the_sum_of_its_parts() -> None:
    assert TimeSplit(plan=1.0, read=2.0, compute=3.0, commit=4.0).total == 10.0
