"""Event time: producers that disagree, fall silent, run ahead or promise; wrong clocks; the time a row was received."""

from __future__ import annotations

import random
from builtins import sum as sum_of
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracles.orders import at, examples
from riverrun.flow import Flow
from riverrun.flow.aggregates import count, rate, sum
from riverrun.flow.windows import tumbling
from riverrun.log.spec import TopicSpec
from riverrun.testing import END, Advance, Append, Crash, Process, Tick, assert_same_batching, run_flow

SCHEMA = "device string, value bigint, at timestamp"


def readings(**options: Any) -> Flow:
    flow = Flow("sensors")
    stream = flow.stream("readings", SCHEMA, time="at", producers="device", **options)
    flow.view("minutes", stream.window(tumbling("1 minute"), by="device").agg(rows=count(), total=sum("value")))
    return flow


def reading(device: str, seconds: float, value: int = 1) -> dict[str, Any]:
    return {"device": device, "value": value, "at": at(seconds)}


def windows(found: Any) -> set[tuple[str, int]]:
    return {(row["device"], int((row["window_start"] - at(0)).total_seconds() // 60)) for row in found.views["minutes"]}


def test_one_device_a_year_ahead_and_one_that_stops_speaking() -> None:
    """No other device loses a row, or waits longer than `idle`."""
    flow = readings(lateness="5 seconds", idle="30 seconds", max_skew="5 minutes")
    script: list[Any] = []
    for second in range(0, 300, 5):
        rows = [reading(f"good-{i}", second + random.Random(second * i).uniform(-4, 0)) for i in (1, 2)]
        rows.append(reading("ahead", second + 365 * 86400))
        if second < 60:
            rows.append(reading("silent", second))
        script += [{"readings": rows}, Tick("5 seconds")]
    found = run_flow(flow, script, now=at(0), drain=False)
    assert found.ledger_of("stream-readings")["quarantined"] == 60
    assert found.ledger_of("window")["late_dropped"] == 0
    assert {row["device"] for row in found.topics["readings.quarantine"]} == {"ahead"}
    assert found.watermarks["readings"] >= at(285)
    closed = {(device, minute) for device in ("good-1", "good-2") for minute in range(4)}
    assert {(device, minute) for device, minute in windows(found) if device != "silent" and minute >= 0} == closed
    # The silent one held minute 1 back, until it had been silent for 30 seconds and not a step longer.
    held = [epoch for epoch in found.epochs if epoch.watermarks["readings"] == at(50)]
    released = next(epoch for epoch in found.epochs if (epoch.watermarks["readings"] or at(-1)) > at(50))
    assert released.number == held[-1].number + 1
    assert released.watermarks["readings"] >= at(55 + 30 - 5 - 4 - 5)


def test_quarantined_rows_say_where_they_stand_and_what_is_wrong() -> None:
    flow = readings(max_skew="5 minutes")
    found = run_flow(flow, [{"readings": [reading("a", 1), reading("b", 302), reading("c", 300)]}], now=at(0))
    (row,) = found.topics["readings.quarantine"]
    assert row == {**reading("b", 302), "_error": row["_error"], "_position": "readings@0:1"}
    assert row["_error"] == "at is more than 5 min ahead of the time the row was received"
    assert found.ledger_of("stream-readings") == {
        "read": 3,
        "accepted": 2,
        "late_dropped": 0,
        "late_aside": 0,
        "duplicates": 0,
        "quarantined": 1,
        "corrected": 0,
        "deleted": 0,
    }
    assert windows(found) == {("a", 0), ("c", 5)}


def test_a_quarantine_topic_can_be_read_by_another_flow() -> None:
    found = run_flow(readings(max_skew="5 minutes"), {"readings": [reading("b", 302)]}, now=at(0))
    flow = Flow("doctor")
    rows = flow.stream("readings.quarantine", f"{SCHEMA}, _error string, _position string")
    flow.view("sick", rows.group("device").agg(rows=count()))
    again = run_flow(flow, {"readings.quarantine": found.topics["readings.quarantine"]})
    assert again.views["sick"] == [{"device": "b", "rows": 1}]


def test_silence_closes_windows_only_where_it_may() -> None:
    rows = [reading("a", 10), reading("b", 200)]
    waiting = run_flow(readings(), [{"readings": rows}, Tick("1 day")], now=at(200), drain=False)
    assert waiting.watermarks["readings"] == at(10)
    assert windows(waiting) == set()
    heard = [{"readings": rows}, Tick("20 seconds"), {"readings": [reading("b", 220)]}, Tick("9 seconds")]
    flow = readings(idle="30 seconds")
    before = run_flow(flow, heard, now=at(200), drain=False)
    assert before.watermarks["readings"] == at(10)
    after = run_flow(flow, [*heard, Tick("1 second")], now=at(200), drain=False)
    assert after.watermarks["readings"] == at(220)
    assert windows(after) == {("a", 0)}
    # It counts again when it speaks; what it says then may be late.
    back = run_flow(flow, [*heard, Tick("1 second"), {"readings": [reading("a", 30), reading("a", 190)]}], now=at(200))
    assert back.ledger_of("window")["late_dropped"] == 1


def test_a_promise_counts_as_a_time_heard() -> None:
    script = [{"readings": [reading("a", 10), reading("b", 200)]}, Advance("readings", "a", at(125))]
    found = run_flow(readings(), script, drain=False)
    assert found.watermarks["readings"] == at(125)
    assert windows(found) == {("a", 0)}
    assert run_flow(readings(), script).watermarks["readings"] == END


def test_promises_too_far_ahead_and_of_others_producers_count_for_nothing() -> None:
    script = [{"readings": [reading("a", 10), reading("b", 20)]}, Advance("readings", "a", at(86400))]
    skewed = run_flow(readings(max_skew="5 minutes"), script, now=at(30), drain=False)
    assert skewed.watermarks["readings"] == at(10)
    flow = Flow("sensors")
    flow.view("all", flow.stream("readings", SCHEMA, time="at").window(tumbling("1 minute")).agg(rows=count()))
    spec = TopicSpec("readings", SCHEMA, time="at", producers="device")
    by_partition = run_flow(flow, script, topics=[spec], drain=False)
    assert by_partition.watermarks["readings"] == at(20)


def by_partition(**options: Any) -> Flow:
    flow = Flow("sensors")
    stream = flow.stream("readings", SCHEMA, time="at", key="device", **options)
    flow.view("all", stream.window(tumbling("1 minute")).agg(rows=count()))
    return flow


def test_a_silent_partition_stops_holding_time_back_after_a_minute() -> None:
    first = [reading(device, 10) for device in "abcdefgh"]
    silent = [{"readings": first}, Append("readings", [reading("a", 40)], after="59 seconds"), Process()]
    later = [*silent, Append("readings", [reading("a", 70)], after="2 seconds"), Process()]
    options: dict[str, Any] = {"partitions": 4, "drain": False, "now": at(100)}
    assert run_flow(by_partition(), silent, **options).watermarks["readings"] == at(10)
    assert run_flow(by_partition(), later, **options).watermarks["readings"] == at(70)
    assert run_flow(by_partition(idle=None), later, **options).watermarks["readings"] == at(10)


def test_a_producer_with_a_name_is_waited_for() -> None:
    script = [{"readings": [reading("a", 10), reading("b", 10)]}, {"readings": [reading("a", 5000)]}]
    assert run_flow(readings(), script, drain=False).watermarks["readings"] == at(10)


def test_partitions_are_producers_where_nobody_names_others() -> None:
    flow = by_partition(idle=None)
    script = [{"readings": [reading(device, 10) for device in "abcdefgh"]}, {"readings": [reading("a", 500)]}]
    assert run_flow(flow, script, partitions=4, drain=False).watermarks["readings"] == at(10)
    assert run_flow(flow, script, partitions=1, drain=False).watermarks["readings"] == at(500)


def test_the_flow_may_name_another_time_than_the_topic() -> None:
    flow = Flow("sensors")
    stream = flow.stream("readings", SCHEMA, time="at", producers="device", max_skew="1 minute")
    flow.view("minutes", stream.window(tumbling("1 minute"), by="device").agg(rows=count()))
    plain = [TopicSpec("readings", SCHEMA)]
    rows = [reading("a", 10), reading("a", 3000), reading("b", 70), {"device": "b", "value": 3}]
    found = run_flow(flow, [{"readings": rows}], topics=plain, now=at(80), drain=False)
    assert found.watermarks["readings"] == at(10)
    assert [row["device"] for row in found.topics["readings.quarantine"]] == ["a"]
    drained = run_flow(flow, [{"readings": rows}], topics=plain, now=at(80))
    assert {(row["device"], row["rows"]) for row in drained.views["minutes"]} == {("a", 1), ("b", 2)}


def test_received_time_is_event_time() -> None:
    flow = Flow("sensors")
    flow.view("minutes", flow.stream("readings", SCHEMA).window(tumbling("1 minute")).agg(rows=count()))
    flow.view("late", flow.stream("readings", SCHEMA).where("_received - at > interval 1 minute").select("device"))
    late = [
        {"readings": [reading("a", -100)]},
        Tick("70 seconds"),
        {"readings": [reading("b", 65)]},
        Tick("40 seconds"),
    ]
    found = run_flow(flow, late, now=at(0), drain=False)
    assert [row["rows"] for row in found.views["minutes"]] == [1]
    assert found.views["late"] == [{"device": "a"}]
    found = run_flow(flow, [*late, Tick("20 seconds")], now=at(0), drain=False)  # nothing came, but time has
    assert [row["rows"] for row in found.views["minutes"]] == [1, 1]


CLOCKS = "device string, value bigint, occurred timestamp, sent timestamp"
EVENTS = st.lists(
    st.tuples(st.sampled_from("ab"), st.integers(0, 200), st.integers(0, 20), st.integers(0, 3)), max_size=15
)


@given(EVENTS, st.integers(0, 99))
@examples(6)
def test_clocks_that_are_wrong_do_not_matter(events: list[tuple[str, int, int, int]], seed: int) -> None:
    """Event time is when it happened by the log's clock, but for the time on the wire."""
    flow = Flow("sensors")
    stream = flow.stream("readings", CLOCKS, lateness="30 seconds").clock("occurred", "sent", by="device")
    flow.view("minutes", stream.window(tumbling("1 minute"), by="device").agg(rows=count(), total=sum("value")))
    wrong = {"a": timedelta(days=365), "b": timedelta(hours=-3)}
    script: list[Any] = []
    true: dict[Any, int] = {}
    now = at(0)
    for device, gap, waited, value in events:
        script += [Tick(gap)]
        now += timedelta(seconds=gap)
        clock = now + wrong[device]
        script.append(
            Append(
                "readings",
                [{"device": device, "value": value, "occurred": clock - timedelta(seconds=waited), "sent": clock}],
            )
        )
        happened = (now - timedelta(seconds=waited) - at(0)).total_seconds()
        true[device, int(happened // 60)] = true.get((device, int(happened // 60)), 0) + value
        if random.Random(seed).random() < 0.5:
            script += [Process(), Crash()]
    found = run_flow(flow, script, now=at(0))
    assert windows(found) == true.keys()
    assert {
        (row["device"], int((row["window_start"] - at(0)).total_seconds() // 60)): row["total"]
        for row in found.views["minutes"]
    } == true


HEARD = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 40), st.integers(0, 99)), max_size=15)


@given(HEARD, st.integers(0, 99))
@examples(8)
def test_a_backlog_ends_at_the_watermark_that_live_had_reached(heard: list[tuple[str, int, int]], start: int) -> None:
    """Idleness follows the times rows were received, not the speed they are read at."""
    flow = readings(lateness="3 seconds", idle="20 seconds", max_skew="1 minute")
    backlog = [Append("readings", [reading(device, second)], after=gap) for device, gap, second in heard]
    live = [step for appended in backlog for step in (appended, Process())]
    runs = [run_flow(flow, script, now=at(start), drain=False) for script in ([*backlog, Process()], live)]
    runs.append(run_flow(flow, [*backlog, Process()], now=at(start), drain=False, max_rows=2))
    assert runs[0].watermarks == runs[1].watermarks == runs[2].watermarks
    sources = [run.ledger[0] if run.ledger else None for run in runs]
    assert sources[0] == sources[1] == sources[2]


def test_a_day_of_backlog_has_the_rates_of_live() -> None:
    flow = Flow("sensors")
    flow.view("minutes", flow.stream("readings", SCHEMA).window(tumbling("1 minute")).agg(pace=rate("minute")))
    backlog = [Append("readings", [reading("ab"[i % 2], i)], after=7 * (i % 5)) for i in range(40)]
    live = [step for appended in backlog for step in (appended, Process())]
    views = [run_flow(flow, script, now=at(0)).views["minutes"] for script in (backlog, live)]
    assert views[0] == views[1]
    assert sum_of(row["pace"] for row in views[0]) == 40
    assert len(views[0]) > 5
    assert_same_batching(flow, {"readings": [reading("a", 0)] * 30})


@pytest.mark.parametrize("max_rows", [1, 3, 100])
def test_epochs_cut_by_rows_lose_nothing(max_rows: int) -> None:
    flow = readings(lateness="1 minute")
    script = [Append("readings", [reading("ab"[i % 2], i), reading("c", i)]) for i in range(12)]
    found = run_flow(flow, [*script, Process()], max_rows=max_rows)
    assert {(row["device"], row["rows"]) for row in found.views["minutes"]} == {("a", 6), ("b", 6), ("c", 12)}
    assert len(found.epochs) == {1: 13, 3: 7, 100: 2}[max_rows]
