"""Processing time as event time: what comes later was received later, so the epoch's cut is the watermark."""

from __future__ import annotations

from datetime import UTC, datetime

from riverrun.flow import Flow
from riverrun.flow.aggregates import count
from riverrun.flow.windows import tumbling
from riverrun.testing import Tick, run_flow

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_windows_of_processing_time_close_when_anything_comes_in_later():
    flow = Flow("f")
    flow.view("rates", flow.stream("clicks", "user string").window(tumbling("10 seconds"), by="user").agg(n=count()))
    flow.view("others", flow.stream("others", "user string"))
    clicks = [{"user": "ann"}, {"user": "ann"}, {"user": "bob"}]
    script = [{"clicks": clicks}, Tick("15 seconds"), {"others": [{"user": "eve"}]}]
    result = run_flow(flow, script, drain=False, now=NOW, partitions=3)
    assert [(row["user"], row["n"]) for row in result.views["rates"]] == [("ann", 2), ("bob", 1)]
