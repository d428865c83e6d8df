"""Flows over a log that tells nothing about its rows before they are read, as Kafka: the same results, an epoch later."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from log_without_headers import take_headers_away
from oracles.orders import ORDERS, at, examples, order
from riverrun.flow import Flow
from riverrun.flow.aggregates import count, sum
from riverrun.flow.windows import correct, tumbling
from riverrun.log.memory_backend import MemoryBackend
from riverrun.log.spec import TopicSpec
from riverrun.testing import Advance, Append, Crash, Process, Tick, assert_same_as_batch, run_flow
from runtime.test_windows import KINDS, windowed

NOW = datetime(2026, 1, 1, tzinfo=UTC)
READINGS = "device string, value bigint, at timestamp"


@pytest.fixture(autouse=True, scope="module")
def without_headers() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        take_headers_away(patch)
        yield


def readings(**options: Any) -> Flow:
    flow = Flow("sensors")
    stream = flow.stream("readings", READINGS, time="at", **options)
    flow.view("minutes", stream.window(tumbling("1 minute"), by="device").agg(rows=count(), total=sum("value")))
    return flow


def reading(device: str, seconds: float) -> dict[str, Any]:
    return {"device": device, "value": 1, "at": at(seconds)}


def closed(found: Any) -> list[tuple[str, int]]:
    rows = found.views["minutes"]
    return sorted((row["device"], int((row["window_start"] - at(0)).total_seconds() // 60)) for row in rows)


@given(ORDERS, st.sampled_from(sorted(KINDS)), st.sampled_from(["final", "update"]), st.integers(0, 99))
@examples(12)
def test_windows_equal_the_query(rows: list[Any], kind: str, emit: str, seed: int) -> None:
    window, query = KINDS[kind]
    flow = windowed(window, emit=emit)
    assert_same_as_batch(flow, {"orders": rows}, {"windows": query}, seed=seed, times=2, partitions=3)


@given(ORDERS, st.sampled_from(sorted(KINDS)), st.integers(0, 99))
@examples(8)
def test_corrections_make_up_for_any_order(rows: list[Any], kind: str, seed: int) -> None:
    window, query = KINDS[kind]
    flow = windowed(window, late=correct("2 minutes"))
    assert_same_as_batch(flow, {"orders": rows}, {"windows": query}, seed=seed, times=2, shuffle=False)


@pytest.mark.parametrize("crash", [None, "commit.begin", "commit.store", "plan.done"])
def test_what_was_heard_closes_windows_in_an_epoch_without_rows(crash: str | None) -> None:
    script = [{"readings": [reading("a", 10)]}, *([Crash(crash)] if crash else []), {"readings": [reading("a", 70)]}]
    found = run_flow(readings(), script, drain=False)
    assert closed(found) == [("a", 0)]
    assert [epoch.watermarks["readings"] for epoch in found.epochs][-2:] == [at(10), at(70)]
    assert len(found.epochs) == 4, "one follows each of the two that had rows"


def test_a_row_may_not_be_late_for_what_the_same_epoch_has_heard() -> None:
    found = run_flow(readings(), [{"readings": [reading("a", 70), reading("a", 10)]}], drain=False)
    assert closed(found) == [("a", 0)]


def test_epochs_without_rows_follow_only_where_time_changes_something() -> None:
    flow = Flow("f")
    flow.view("counts", flow.stream("readings", READINGS, time="at").group("device").agg(n=count()))
    found = run_flow(flow, [{"readings": [reading("a", 10)]}] * 3, drain=False)
    assert len(found.epochs) == 3


def test_silence_is_only_what_was_read_and_had_nothing() -> None:
    """The slow one speaks in every epoch, long after the last: it is never taken for silent while its rows are unread."""
    flow = readings(producers="device", idle="30 seconds")
    script: list[Any] = []
    for minute in range(4):
        script += [{"readings": [reading("fast", 60 * minute + 300), reading("slow", 60 * minute)]}, Tick("25 seconds")]
    found = run_flow(flow, script, now=NOW, drain=False)
    assert closed(found) == [("slow", 0), ("slow", 1), ("slow", 2)]
    found = run_flow(flow, [*script, Tick("40 seconds"), {"readings": [reading("fast", 700)]}], now=NOW, drain=False)
    assert [device for device, _ in closed(found)].count("fast") == 4


def test_promises_are_heard_by_reading_them() -> None:
    spec = TopicSpec("readings", READINGS, time="at", producers="device")
    script = [{"readings": [reading("a", 10)]}, Advance("readings", "a", at(100))]
    found = run_flow(readings(producers="device"), script, drain=False, topics=[spec])
    assert closed(found) == [("a", 0)]


def test_receive_time_passes_by_itself() -> None:
    flow = Flow("f")
    flow.view("rates", flow.stream("clicks", "user string").window(tumbling("10 seconds"), by="user").agg(n=count()))
    script = [{"clicks": [{"user": "ann"}, {"user": "bob"}]}, *[Tick("1 second")] * 12]
    found = run_flow(flow, script, drain=False, now=NOW, partitions=3)
    assert [(row["user"], row["n"]) for row in found.views["rates"]] == [("ann", 1), ("bob", 1)]


@pytest.mark.parametrize("max_rows", [1, 3, 100])
def test_a_backlog_is_cut_by_when_rows_came(max_rows: int) -> None:
    """Whatever the epochs, all rows are there once, and topics are read side by side."""
    flow = Flow("f")
    one, two = (flow.stream(name, "user string, n bigint, at timestamp", time="at") for name in ("one", "two"))
    flow.view("rows", one.union(two).group("user").agg(rows=count(), total=sum("n")))
    steps = [{name: [{"user": name, "n": i, "at": at(i)}]} for i in range(20) for name in ("one", "two")]
    found = run_flow(flow, [{"one": [row for step in steps for row in step.get("one", [])]}, *steps], max_rows=max_rows)
    assert {row["user"]: (row["rows"], row["total"]) for row in found.views["rows"]} == {
        "one": (40, 380),
        "two": (20, 190),
    }


def test_orders_of_several_partitions_and_crashes_come_to_the_same() -> None:
    flow = windowed(tumbling("10 seconds"))
    rows = [order("ada", second, n) for n, second in enumerate((0, 5, 3, 12, 11, 25, 24, 40))]
    expected = run_flow(flow, [{"orders": rows}], partitions=3).views["windows"]
    for crash in ("plan.begin", "plan.done", "commit.topics", "commit.aside", "commit.store"):
        script = [{"orders": rows[:3]}, Crash(crash), {"orders": rows[3:6]}, Crash(), {"orders": rows[6:]}]
        assert list(run_flow(flow, script, partitions=3).views["windows"]) == list(expected)


def counted(found: Any) -> dict[str, int]:
    rows: dict[str, int] = {}
    for row in found.views["minutes"]:
        rows[row["device"]] = rows.get(row["device"], 0) + row["rows"]
    return rows


@pytest.mark.parametrize("epoch", [10, 120])
def test_a_slow_producer_that_speaks_all_the_time_is_not_idle_however_long_an_epoch_is(epoch: int) -> None:
    script: list[Any] = []
    for second in range(240):
        script.append(Append("readings", [reading("slow", second - 300)], "0.7 seconds"))
        script.append(Append("readings", [reading("fast", second)], "0.3 seconds"))
        if (second + 1) % epoch == 0:
            script.append(Process())
    found = run_flow(readings(producers="device", idle="3 seconds"), script, now=NOW)
    assert counted(found) == {"slow": 240, "fast": 240}


def test_what_an_open_transaction_hides_is_not_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, ended = (int((NOW + timedelta(seconds=s)).timestamp() * 1e6) for s in (20, 35))
    ends, hidden = MemoryBackend.ends, dict[str, int]()

    def is_open(backend: MemoryBackend) -> bool:
        return backend.name == "readings" and begun <= backend._stored.clock() < ended

    def readable(backend: MemoryBackend) -> dict[int, int]:
        found = ends(backend)
        return {**found, 0: min(found[0], hidden.setdefault("0", found[0]))} if is_open(backend) else found

    def settled(backend: MemoryBackend) -> int:
        return begun if is_open(backend) else backend._stored.clock()

    monkeypatch.setattr(MemoryBackend, "ends", readable)
    monkeypatch.setattr(MemoryBackend, "settled", settled)
    spec = TopicSpec("readings", READINGS, key="device", time="at", partitions=2)
    script: list[Any] = []
    for second in range(60):
        rows = [reading(device, second) for device in "abcd"]
        script += [Append("readings", rows, "1 second"), Process()]
    flow = Flow("sensors")
    stream = flow.stream("readings", READINGS, time="at", key="device", idle="5 seconds")
    flow.view("minutes", stream.window(tumbling("10 seconds"), by="device").agg(rows=count()))
    assert counted(run_flow(flow, script, now=NOW, topics=[spec])) == dict.fromkeys("abcd", 60)
