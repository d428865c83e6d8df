"""Times beyond the calendar that a flow computes, or finds in its topics, end nothing."""

from __future__ import annotations

from datetime import UTC, datetime

from riverrun.flow import Flow
from riverrun.testing import run_flow

LATEST = datetime(9999, 12, 31, 23, 59, 59, 999_999, UTC)


def test_a_time_that_a_flow_computes_is_written_as_the_last_there_is() -> None:
    flow = Flow("shop")
    orders = flow.stream("orders", "user string, at timestamp", time="at")
    flow.topic("expiries", orders.select("user", "at + interval 9000 years as ends"))
    flow.view("latest", orders.select("user", "at + interval 9000 years as ends"), key="user")
    result = run_flow(flow, {"orders": [{"user": "ada", "at": "2026-01-01T00:00:00Z"}]})
    assert [row["ends"] for row in result.topics["expiries"]] == [LATEST]
    assert [row["ends"] for row in result.views["latest"]] == [LATEST]
