"""What is due when time passes: kernels say where it is, so that an epoch with much of it is shared by several tasks."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest

import riverrun as rr
from riverrun.flow import Flow
from riverrun.runtime import task
from riverrun.runtime.due import due_rows
from riverrun.state.directory import StateDirectory
from riverrun.testing import Append, Process, local, run_flow

SCHEMA = "user string, n bigint, at timestamp"
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
USERS = 200
Make = Callable[[Flow], Any]


def events(flow: Flow, name: str = "events") -> Any:
    return flow.stream(name, SCHEMA, time="at", key="user")


def windows(window: Any, **options: Any) -> Make:
    return lambda flow: events(flow).window(window, by="user", **options).agg(n=rr.count(), m=rr.max("n"))


def matches(**options: Any) -> Make:
    return lambda flow: events(flow).match("a b", {"b": "n > 1"}, by="user", **options)


def prices(flow: Flow) -> Any:
    return flow.table("prices", "user string, price bigint, at timestamp", key="user", time="at", idle="1 second")


HOUR = "1 hour"
# When the rows of noon are due: ten minutes later, three hours later, or in the end.
TIMED: dict[str, tuple[Make, set[str]]] = {
    "tumbling": (windows(rr.tumbling(HOUR)), {"+3 hours"}),
    "shown at once": (windows(rr.tumbling(HOUR), emit="update"), set()),
    "corrected": (windows(rr.tumbling(HOUR), late=rr.correct(HOUR)), {"+3 hours"}),
    "hopping": (windows(rr.hopping(HOUR, "10 minutes")), {"+10 minutes", "+3 hours"}),
    "sliding": (windows(rr.sliding(HOUR)), {"+10 minutes"}),
    "sessions": (windows(rr.session(HOUR)), {"+3 hours"}),
    "sessions of rows": (lambda f: events(f).window(rr.session(HOUR), by="user").agg(n=rr.distinct("n")), {"+3 hours"}),
    "match": (matches(within=HOUR), {"+10 minutes", "+3 hours"}),
    "match without a limit": (matches(), {"+10 minutes", "the end"}),
    "left join": (lambda f: events(f).join(events(f, "others"), on="user", within=HOUR, how="left"), {"the end"}),
    "inner join": (lambda f: events(f).join(events(f, "others"), on="user", within=HOUR), set()),
    "as of": (lambda f: events(f).as_of(prices(f), on="user", late=rr.drop()), {"the end"}),
}


@pytest.mark.parametrize("name", TIMED)
def test_rows_are_due_when_their_time_is_over(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make, expected = TIMED[name]
    flow = Flow("due")
    flow.view("out", make(flow))
    found: list[int] = []

    def computed(tasks: Any, topics: Any, parts: Any, control: Any) -> Any:
        found.append(due_rows(tasks.job, control))
        return local_compute(tasks, topics, parts, control)

    local_compute = local.compute_epoch
    monkeypatch.setattr(local, "compute_epoch", computed)
    monkeypatch.setattr(task, "StateDirectory", partial(StateDirectory, inline_bytes=0))
    everybody = [{"user": f"u{n}", "n": n, "at": NOON} for n in range(USERS)]
    later = [[{"user": "u0", "n": 1, "at": NOON + after}] for after in (timedelta(minutes=10), timedelta(hours=3))]
    script = [step for rows in (everybody, *later) for step in (Append("events", rows), Process())]
    run_flow(flow, script, partitions=1)
    first, ten_minutes, three_hours, end = found
    assert first == 0
    times = {"+10 minutes": ten_minutes, "+3 hours": three_hours, "the end": end}
    assert {when for when, rows in times.items() if rows >= USERS} == expected
    assert all(rows < 10 for when, rows in times.items() if when not in expected), times
