"""Times as rows have them: with a zone always; without one, or as numbers, only where the topic says what they are."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from contracts.conftest import Log
from riverrun.errors import Conflict, Invalid
from riverrun.log.topic import Topic

NAIVE = datetime(2026, 1, 31, 12)
AWARE = NAIVE.replace(tzinfo=UTC)
MILLIS, SECONDS = 1_769_860_800_000, 1_769_860_800
WAYS_TO_SAY_IT = r'Give it one, as in datetime\.now\(UTC\).*or make the topic with naive="utc"'


def times(topic: Topic) -> list[Any]:
    return topic.read().sort_by("_offset")["at"].to_pylist()


WITHOUT_ZONE = [
    pytest.param({"user": "ada", "at": NAIVE}, id="dict"),
    pytest.param({"user": "ada", "at": "2026-01-31T12:00:00"}, id="text"),
    pytest.param({"user": "ada", "at": pd.Timestamp(NAIVE)}, id="pandas scalar"),
    pytest.param({"user": "ada", "at": np.datetime64(NAIVE)}, id="numpy scalar"),
    pytest.param(pd.DataFrame({"user": ["ada"], "at": [pd.Timestamp(NAIVE)]}), id="pandas"),
    pytest.param(pl.DataFrame({"user": ["ada"], "at": [NAIVE]}), id="polars"),
    pytest.param(pa.table({"user": ["ada"], "at": pa.array([NAIVE], pa.timestamp("us"))}), id="arrow"),
]


@pytest.mark.parametrize("rows", WITHOUT_ZONE)
def test_a_time_without_a_zone_is_refused_with_the_two_ways_to_say_it(log: Log, rows: Any) -> None:
    topic = log.topic("t", "user string, at timestamp", partitions=1)
    with pytest.raises(Invalid, match=f"topic t, row 0, column 'at': .*without a zone. {WAYS_TO_SAY_IT}"):
        topic.append(rows)
    assert times(topic) == []


@pytest.mark.parametrize("rows", WITHOUT_ZONE)
def test_a_topic_may_say_that_times_without_a_zone_are_utc(log: Log, rows: Any) -> None:
    topic = log.topic("t", "user string, at timestamp", partitions=1, naive="utc")
    topic.append(rows)
    with topic.producer() as producer:
        if isinstance(rows, dict):
            producer.send(rows)
    assert set(times(topic)) == {AWARE}


def test_a_single_row_that_is_sent_is_refused_alike(log: Log) -> None:
    with (
        log.topic("t", "user string, at timestamp").producer() as producer,
        pytest.raises(Invalid, match=WAYS_TO_SAY_IT),
    ):
        producer.send({"user": "ada", "at": NAIVE})


@pytest.mark.parametrize(
    "rows",
    [
        {"visits": [{"at": NAIVE}]},
        pa.table({"visits": pa.array([[{"at": NAIVE}]], pa.list_(pa.struct([("at", pa.timestamp("us"))])))}),
    ],
    ids=["dict", "arrow"],
)
def test_times_inside_other_values_need_a_zone_too(log: Log, rows: Any) -> None:
    with pytest.raises(Invalid, match=r"row 0, column 'visits"):
        log.topic("t", "visits array<struct<at:timestamp>>").append(rows)


def test_columns_without_a_zone_are_for_times_without_one(log: Log) -> None:
    topic = log.topic("t", "at timestamp_ntz", partitions=1)
    topic.append([{"at": NAIVE}, {"at": "2026-01-31T12:00:00"}])
    topic.append(pa.table({"at": pa.array([NAIVE], pa.timestamp("ms"))}))
    assert times(topic) == [NAIVE] * 3


def test_a_column_with_no_time_in_it_says_nothing_about_a_zone(log: Log) -> None:
    topic = log.topic("t", "user string, at timestamp", partitions=1)
    topic.append(pd.DataFrame({"user": ["ada"], "at": [pd.NaT]}))
    topic.append({"user": "ada", "at": pd.NaT})
    assert times(topic) == [None, None]


@pytest.mark.parametrize(
    "use",
    [
        lambda topic: topic.advance(0, NAIVE),
        pytest.param(lambda topic: topic.offsets_at(NAIVE), marks=pytest.mark.uses("offsets_at")),
        pytest.param(lambda topic: topic.read(NAIVE), marks=pytest.mark.uses("offsets_at")),
    ],
)
def test_promises_and_positions_by_time_need_a_zone(log: Log, use: Any) -> None:
    with pytest.raises(Invalid, match="2026-01-31 12:00:00 is a time without a zone"):
        use(log.topic("t", "at timestamp", time="at"))
    use(log.topic("u", "at timestamp", time="at", naive="utc"))


@pytest.mark.parametrize(("unit", "count"), [("ms", MILLIS), ("s", SECONDS)])
def test_numbers_are_times_where_the_topic_says_what_they_count(log: Log, unit: str, count: int) -> None:
    topic = log.topic("t", "user string, at timestamp", partitions=1, times=unit)
    topic.append([{"user": "ada", "at": count}, {"user": "bob", "at": float(count)}, {"user": "cy", "at": AWARE}])
    topic.append([{"user": "ada", "at": count}, {"user": "bob", "at": None}])
    topic.append(pa.table({"user": ["ada", "bob"], "at": pa.array([count, None], pa.int64())}))
    topic.append(pd.DataFrame({"user": ["ada"], "at": [float(count)]}))
    with topic.producer() as producer:
        producer.send({"user": "ada", "at": count})
        producer.send({"user": "ada", "at": "2026-01-31T12:00:00Z"})
    assert [at for at in times(topic) if at is not None] == [AWARE] * 8
    with pytest.raises(Invalid, match="without a zone"):
        topic.append({"user": "ada", "at": NAIVE})


@pytest.mark.parametrize("number", [MILLIS * 1_000_000, MILLIS * 1000, float("nan"), float("inf"), 10**30])
def test_numbers_that_are_no_times_are_refused_however_they_come(log: Log, number: float) -> None:
    """Nanoseconds and microseconds for milliseconds, above all; a producer goes on after them."""
    topic = log.topic("t", "at timestamp", partitions=1, times="ms")
    with topic.producer() as producer:
        for refuse in (topic.append, producer.send):
            with pytest.raises(Invalid, match="row 0, column 'at'"):
                refuse({"at": number})
        producer.send({"at": MILLIS})
    assert times(topic) == [AWARE]


def test_fractions_of_seconds_are_kept(log: Log) -> None:
    topic = log.topic("t", "at timestamp", partitions=1, times="s")
    topic.append([{"at": SECONDS + 0.25}, {"at": -0.5}])
    topic.append(pa.table({"at": [SECONDS + 0.25]}))
    exact = AWARE.replace(microsecond=250_000)
    assert times(topic) == [exact, datetime(1969, 12, 31, 23, 59, 59, 500_000, tzinfo=UTC), exact]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (SECONDS, f"{SECONDS} is a number, not a time.*times="),
        ("2026-01-01 10:00", "'2026-01-01 10:00' is not a time. Write it as \"2026-01-31T12:00:00Z\""),
        ("tomorrow", "'tomorrow' is not a time"),
        (True, "True is not a time"),
    ],
)
def test_what_is_no_time_is_shown_with_how_to_write_one(log: Log, value: Any, said: str) -> None:
    with pytest.raises(Invalid, match=f"topic t, row 1, column 'at': {said}"):
        log.topic("t", "at timestamp").append([{"at": AWARE}, {"at": value}])


@pytest.mark.parametrize("number", [float("nan"), float("inf"), 10**19])
def test_numbers_that_are_no_time_are_refused(log: Log, number: float) -> None:
    topic = log.topic("t", "at timestamp", times="s")
    with pytest.raises(Invalid, match="row 0, column 'at'"):
        topic.append({"at": number})
    with pytest.raises(Invalid, match="row 1, column 'at'"):
        topic.append(pa.table({"at": [0.0, float(number)]}))


def test_values_of_numpy_and_pandas_are_taken_in_rows(log: Log) -> None:
    topic = log.topic("t", "user string, n int, amount double, ok boolean, at timestamp, tags array<int>", partitions=1)
    frame = pd.DataFrame({"user": ["ada"], "n": [7], "amount": [9.5], "ok": [True], "at": [pd.Timestamp(AWARE)]})
    for row in frame.to_dict("records"):
        topic.append({**row, "tags": np.array([1, 2])})
    other = {"user": np.str_("ada"), "n": np.int16(7), "amount": np.float32(9.5), "ok": np.True_, "at": pd.NaT}
    topic.append([other])
    with topic.producer() as producer:
        producer.send({**other, "at": pd.Timestamp("2026-01-31 13:00", tz="Europe/Oslo"), "n": pd.NA})
    rows = topic.read().select(["user", "n", "amount", "ok", "at", "tags"]).to_pylist()
    same = {"user": "ada", "amount": 9.5, "ok": True}
    assert rows == [
        {**same, "n": 7, "at": AWARE, "tags": [1, 2]},
        {**same, "n": 7, "at": None, "tags": None},
        {**same, "n": None, "at": AWARE, "tags": None},
    ]


@pytest.mark.parametrize(
    "value", [pd.Timestamp("2026-01-31T12:00:00.000000001Z"), np.datetime64("2026-01-31T12", "ns") + 1]
)
def test_nanoseconds_are_not_cut_off_unasked(log: Log, value: Any) -> None:
    with pytest.raises(Invalid, match="row 0, column 'at': .* has nanoseconds, and times are microseconds"):
        log.topic("t", "at timestamp", naive="utc").append({"at": value})


def test_what_a_topic_takes_for_a_time_stays_with_it(log: Log) -> None:
    log.topic("t", "at timestamp", naive="utc", times="ms")
    again = log.reopened("t")
    assert (again.spec.naive, again.spec.times) == ("utc", "ms")
    assert (again.describe()["naive"], again.describe()["times"]) == ("utc", "ms")
    with pytest.raises(Conflict, match="topic t exists with times='ms', not 's'"):
        log.topic("t", "at timestamp", times="s")


@pytest.mark.parametrize("option", [{"naive": "local"}, {"times": "us"}])
def test_other_ways_are_refused(log: Log, option: dict[str, Any]) -> None:
    with pytest.raises(Invalid, match="topic t: (naive is None or 'utc'|times is None or 's' or 'ms'), not"):
        log.topic("t", "at timestamp", **option)
