"""Reading: by position, by time, by column; tombstones and promises; what is known without reading; waiting."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from contracts.conftest import Log
from riverrun.durations import to_micros
from riverrun.errors import Conflict, Invalid, NotFound, OutOfRange
from riverrun.log.codec import HIDDEN
from riverrun.log.topic import Topic
from riverrun.position import Position

AT = datetime(2024, 1, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def row(n: int, user: str = "ada", at: datetime | None = None) -> dict[str, Any]:
    return {"user": user, "n": n, "at": at or AT + n * MINUTE}


def numbers(table: pa.Table) -> list[int]:
    return table.column("n").to_pylist()


@pytest.fixture
def ten(log: Log) -> Topic:
    """Rows 0 to 9 in one partition, a minute apart, in four batches."""
    topic = log.topic(key="user", time="at", partitions=1)
    for batch in ([0], [1, 2, 3], [4, 5, 6, 7, 8], [9]):
        topic.append([row(n) for n in batch])
    return topic


def offsets(topic: Topic) -> list[int]:
    """Of every row of a topic with one partition, and the end."""
    return [*topic.read(columns=["_offset"]).column(0).to_pylist(), topic.ends()[0]]


def test_from_and_to_every_offset(ten: Topic) -> None:
    at = offsets(ten)
    for start in range(at[-1] + 1):
        for end in range(start, at[-1] + 1):
            inside = [n for n in range(10) if start <= at[n] < end]
            assert numbers(ten.read(Position({"t": {0: start}}), Position({"t": {0: end}}))) == inside


def test_positions_may_be_strings_and_mappings(ten: Topic) -> None:
    at = offsets(ten)
    assert numbers(ten.read(f"t@0:{at[8]}")) == numbers(ten.read({"t": {0: at[8]}})) == [8, 9]
    assert ten.read("latest").num_rows == 0
    assert numbers(ten.read("earliest", f"t@0:{at[2]}")) == [0, 1]


def test_a_partition_that_a_position_leaves_out_is_read_from_its_beginning(log: Log) -> None:
    topic = log.topic(key="user", partitions=4)
    topic.append([row(n, f"u{n}") for n in range(40)])
    assert topic.read("t@2:0").num_rows == 40


def test_an_end_before_the_start_reads_nothing(ten: Topic) -> None:
    assert ten.read("t@0:5", "t@0:3").num_rows == 0


def test_beyond_the_end_is_an_error_with_the_range(ten: Topic) -> None:
    end = ten.ends()[0]
    with pytest.raises(OutOfRange, match=rf"topic t, partition 0: offset {end + 1} is beyond the end, which is {end}"):
        ten.read(f"t@0:{end + 1}")


def test_other_positions_are_refused(ten: Topic) -> None:
    with pytest.raises(Invalid, match="says nothing about topic t"):
        ten.read("other@0:1")
    with pytest.raises(Invalid, match="not a position"):
        ten.read("sometime")
    with pytest.raises(Invalid, match="not a position or a time"):
        ten.read(5)  # type: ignore[arg-type]


def test_hidden_columns(ten: Topic) -> None:
    before, at = datetime.now(UTC), offsets(ten)
    end = ten.append(row(10))["t"][0]
    table = ten.read(f"t@0:{at[9]}")
    assert table.column_names == ["user", "n", "at", *HIDDEN]
    assert [table.schema.field(name).type for name in HIDDEN] == list(HIDDEN.values())
    (_, last) = table.to_pylist()
    assert (last["_partition"], last["_offset"], last["_key"], last["_deleted"]) == (0, end - 1, "ada", False)
    assert last["_time"] == last["at"]
    assert before - MINUTE < last["_received"] < datetime.now(UTC) + MINUTE


def test_without_a_time_column_the_receive_time_is_the_time(log: Log) -> None:
    topic = log.topic(schema="n bigint")
    topic.append({"n": 1})
    topic.append({"n": 2, "_time": AT})
    by_number = {r["n"]: r for r in topic.read().to_pylist()}
    assert by_number[1]["_time"] == by_number[1]["_received"]
    assert by_number[2]["_time"] == AT
    topic.append([{"n": 3, "_time": AT}, {"n": 4}])
    with topic.producer() as producer:
        producer.send({"n": 5, "_time": AT})
        producer.send({"n": 6})
    times = {r["n"]: r["_time"] for r in topic.read().to_pylist()}
    assert times[3] == times[5] == AT
    assert all(abs(times[n] - datetime.now(UTC)) < MINUTE for n in (4, 6))
    with pytest.raises(Invalid, match="_time"):
        log.topic("timed", time="at").append({**row(1), "_time": AT})


def test_columns_can_be_chosen(ten: Topic) -> None:
    assert ten.read(columns=["_offset", "n"]).to_pydict() == {"_offset": offsets(ten)[:-1], "n": list(range(10))}
    assert ten.read(columns=[]).num_rows in (0, 10)
    with pytest.raises(NotFound, match=r"no column 'm'"):
        ten.read(columns=["m"])


def test_offset_ranges_can_be_split(ten: Topic) -> None:
    end = ten.ends()[0]
    pieces = [ten.batches({0: at}, {0: min(at + 3, end)}, ["n"]) for at in range(0, end, 3)]
    assert [n for piece in pieces for batch in piece for n in batch.column("n").to_pylist()] == list(range(10))


def test_a_partition_that_start_leaves_out_is_not_read(log: Log) -> None:
    topic = log.topic(key="user", partitions=4)
    end = topic.append([row(n, f"u{n}") for n in range(40)])["t"]
    read = [b.column("_partition").to_pylist() for b in topic.batches({2: 0}, end)]
    assert {p for batch in read for p in batch} == {2}
    with pytest.raises(Invalid, match="no partition 7"):
        list(topic.batches({7: 0}, end))


@pytest.mark.uses("offsets_at")
def test_offsets_at_a_time(ten: Topic) -> None:
    assert ten.offsets_at(AT) == ten.earliest
    for n in range(1, 10):
        assert ten.offsets_at(AT + n * MINUTE)["t"][0] == n
        assert ten.offsets_at(AT + n * MINUTE - timedelta(microseconds=1))["t"][0] == n
    assert ten.offsets_at(AT + 10 * MINUTE) == ten.latest
    assert numbers(ten.read(start=AT + 8 * MINUTE)) == [8, 9]
    assert numbers(ten.read(end=AT + 2 * MINUTE)) == [0, 1]
    with pytest.raises(Invalid, match="not a time: '2026'"):
        ten.offsets_at("2026")  # type: ignore[arg-type]


@pytest.mark.uses("offsets_at")
def test_offsets_at_is_the_first_row_not_before_it_also_out_of_order(log: Log) -> None:
    topic = log.topic(time="at", partitions=1)
    for minutes in ([5, 1], [9, 2], [3, 7]):
        topic.append([row(0, at=AT + m * MINUTE) for m in minutes])
    found = {m: topic.offsets_at(AT + m * MINUTE)["t"][0] for m in range(11)}
    assert found == {0: 0, 1: 0, 2: 0, 3: 0, 4: 0, 5: 0, 6: 2, 7: 2, 8: 2, 9: 2, 10: 6}


@pytest.mark.uses("offsets_at")
def test_offsets_at_looks_at_each_partition_by_itself(log: Log) -> None:
    topic = log.topic(key="user", time="at", partitions=3)
    for n in range(30):
        topic.append(row(n, f"u{n}"))
    moment = AT + 17 * MINUTE
    early = topic.read(end=topic.offsets_at(moment))
    late = topic.read(start=topic.offsets_at(moment))
    assert sorted(numbers(early)) == list(range(17))
    assert sorted(numbers(late)) == list(range(17, 30))


def test_a_tombstone_has_its_key_only(log: Log) -> None:
    topic = log.topic(
        schema="user string, city string, n bigint NOT NULL, at timestamp", key=["user", "city"], time="at"
    )
    topic.append({"user": "ada", "city": "Rome", "n": 1, "at": AT})
    topic.delete(["ada", "Rome"])
    last = sorted(topic.read().to_pylist(), key=lambda r: r["_offset"])[-1]
    assert (last["user"], last["city"], last["n"], last["at"]) == ("ada", "Rome", None, None)
    assert last["_deleted"] is True
    assert last["_key"] == '["ada","Rome"]'
    assert last["_time"] == last["_received"]


def test_a_tombstone_has_no_event_time_where_a_column_holds_it(log: Log) -> None:
    topic = log.topic(key="user", time="at", partitions=1)
    topic.append([row(1), {"user": "bob", "_deleted": True}, row(3)])
    topic.delete("ada")
    summaries = list(topic.summaries({0: 0}, topic.ends()))
    assert max(s.max_time for s in summaries) == to_micros(AT + 3 * MINUTE)
    assert min(s.min_time for s in summaries) == to_micros(AT + 1 * MINUTE)


@pytest.mark.uses("offsets_at")
def test_a_tombstone_is_at_no_time_where_a_column_holds_it(log: Log) -> None:
    topic = log.topic(key="user", time="at", partitions=1)
    topic.append([row(1), {"user": "bob", "_deleted": True}, row(3)])
    topic.delete("ada")
    assert topic.offsets_at(AT + 2 * MINUTE)["t"][0] == 2
    assert topic.offsets_at(AT + 4 * MINUTE) == topic.latest


def test_rows_beside_a_tombstone_are_none(log: Log) -> None:
    topic = log.topic(key="user", partitions=1)
    topic.append([{"user": "bob", "_deleted": True}, row(1)])
    assert [r["_deleted"] for r in topic.read().to_pylist()] == [True, False]


def test_a_part_of_a_key_may_be_null(log: Log) -> None:
    topic = log.topic("pairs", "a int, b int, n int", key=["a", "b"], compact=True)
    topic.append([{"a": 1, "b": None, "n": 1}, {"a": None, "b": 1, "n": 2}, {"a": 1, "n": 3}, {"a": 2, "b": 2, "n": 4}])
    topic.delete([None, 1])
    found = {r["_key"]: (r["a"], r["b"], r["n"]) for r in topic.read().to_pylist()}
    assert found == {"[1,null]": (1, None, 3), "[null,1]": (None, 1, None), "[2,2]": (2, 2, 4)}
    with pytest.raises(Invalid, match="column 'a': a value is required"):
        log.topic("strict", "a int not null, b int, n int", key=["a", "b"]).append({"b": 1})


def test_a_tombstone_goes_where_its_key_is(log: Log) -> None:
    topic = log.topic(key="user", partitions=8)
    for n in range(20):
        topic.append(row(n, f"u{n}"))
        topic.delete(f"u{n}")
    for n in range(20):
        mine = [r for r in topic.read().to_pylist() if r["user"] == f"u{n}"]
        assert [r["_deleted"] for r in mine] == [False, True]
        assert len({r["_partition"] for r in mine}) == 1


def test_delete_wants_the_key(log: Log) -> None:
    with pytest.raises(Invalid, match="no key"):
        log.topic("keyless").delete("x")
    topic = log.topic(key=["user", "n"])
    with pytest.raises(Invalid, match=r"the key is \['user', 'n'\], 1 values"):
        topic.delete("ada")
    with pytest.raises(Invalid, match="column 'n'"):
        topic.delete(["ada", "one"])
    with pytest.raises(Invalid, match="column 'user': a value is required"):
        log.topic("one", key="user").delete(None)
    assert topic.latest == topic.earliest


def test_a_promise_takes_an_offset_and_has_no_row(log: Log) -> None:
    topic = log.topic(key="user", time="at", producers="user", partitions=1)
    topic.append(row(1))
    promised = topic.advance("ada", AT + 5 * MINUTE)["t"][0] - 1
    topic.append(row(9))
    first, last, _ = offsets(topic)
    assert first < promised < last
    assert log.ways.gaps or (first, promised, last) == (0, 1, 2)
    assert numbers(topic.read({"t": {0: promised}})) == [9]
    summaries = list(topic.summaries({0: promised}, {0: promised + 1}))
    assert [(s.rows, s.span, dict(s.maxima)) for s in summaries] == [(0, 1, {"ada": to_micros(AT + 5 * MINUTE)})]


def test_without_a_producers_column_a_promise_is_for_a_partition(log: Log) -> None:
    topic = log.topic(key="user", time="at", partitions=3)
    assert topic.advance(2, AT) == Position.parse("t@0:0,1:0,2:1")
    assert topic.advance("0", AT)["t"][0] == 1
    assert topic.read().num_rows == 0
    for producer in (3, "ada", -1):
        with pytest.raises(Invalid, match="from 0 to 2"):
            topic.advance(producer, AT)
    with pytest.raises(Invalid, match="needs a datetime"):
        topic.advance(1, "noon")  # type: ignore[arg-type]


def test_summaries_tell_what_watermarks_need(log: Log) -> None:
    topic = log.topic(time="at", producers="user", partitions=1)
    topic.append([row(3, "ada"), row(1, "bob"), row(2, "ada")])
    topic.append([row(7, "bob")])
    summaries = list(topic.summaries({0: 0}, topic.ends()))
    assert sum(s.rows for s in summaries) == 4
    assert min(s.min_time for s in summaries) == to_micros(AT + 1 * MINUTE)
    assert max(s.max_time for s in summaries) == to_micros(AT + 7 * MINUTE)
    largest: dict[str, int] = {}
    for summary in summaries:
        for name, moment in summary.maxima.items():
            largest[name] = max(largest.get(name, moment), moment)
    assert largest == {"ada": to_micros(AT + 3 * MINUTE), "bob": to_micros(AT + 7 * MINUTE)}
    received = topic.read().column("_received").cast(pa.int64()).to_pylist()
    assert min(s.first_received for s in summaries) == min(received)
    assert max(s.received for s in summaries) == max(received)


def test_summaries_without_a_time_column_have_the_receive_time(log: Log) -> None:
    topic = log.topic(schema="n bigint", partitions=1)
    topic.append([{"n": 1}, {"n": 2}])
    (summary,) = topic.summaries({0: 0}, {0: 2})
    assert summary.min_time == summary.max_time == summary.received


def test_a_schema_grows_by_nullable_columns(log: Log) -> None:
    old = log.topic(schema="user string", key="user", partitions=1)
    old.append({"user": "ada"})
    new = log.topic(schema="user string, age int, tags array<string>", key="user")
    new.append({"user": "bob", "age": 3, "tags": ["x"]})
    new.append({"user": "cy"})
    shown = new.read().select(["user", "age", "tags"]).to_pylist()
    assert shown == [
        {"user": "ada", "age": None, "tags": None},
        {"user": "bob", "age": 3, "tags": ["x"]},
        {"user": "cy", "age": None, "tags": None},
    ]
    assert log.reopened().schema.names == ["user", "age", "tags"]


def test_a_handle_from_before_goes_on_with_the_columns_it_knows(log: Log) -> None:
    old = log.topic(schema="user string", key="user", partitions=1)
    log.topic(schema="user string, age int", key="user").append({"user": "bob", "age": 3})
    old.append({"user": "ada"})
    assert old.read().select(["user"]).to_pylist() == [{"user": "bob"}, {"user": "ada"}]
    assert "age" not in old.read().column_names


@pytest.mark.parametrize(
    "declared", ["n bigint", "user int, n bigint", "user string, x int NOT NULL, n bigint", "n bigint, user string"]
)
def test_any_other_change_of_the_schema_is_refused(log: Log, declared: str) -> None:
    log.topic(schema="user string, n bigint")
    with pytest.raises(Conflict):
        log.topic(schema=declared)
    assert log.reopened().spec.schema == "user string, n bigint"


def test_a_handle_from_before_reads_rows_of_every_later_version(log: Log) -> None:
    first = log.topic(schema="user string", key="user", partitions=1)
    log.topic(schema="user string, age int", key="user")
    log.topic(schema="user string, age int, tags array<string>", key="user").append({"user": "bob", "tags": ["x"]})
    assert first.read().column("user").to_pylist() == ["bob"]
    assert first.backend.newest_schema() == "user string, age int, tags array<string>"


def test_begins_and_ends_are_the_offsets_of_the_positions(log: Log) -> None:
    topic = log.topic(key="user", partitions=4)
    assert topic.begins() == topic.ends() == {0: 0, 1: 0, 2: 0, 3: 0}
    topic.append([row(n, f"u{n}") for n in range(40)])
    assert sum(topic.ends().values()) == 40 or log.ways.gaps
    assert (topic.earliest["t"], topic.latest["t"]) == (topic.begins(), topic.ends())
    topic.begins()[0] = topic.ends()[0] = 99  # they are the caller's own
    assert 99 not in (topic.begins()[0], topic.ends()[0])


def test_offsets_of_some_partitions_can_be_read(log: Log) -> None:
    topic = log.topic(key="user", partitions=4)
    topic.append([row(n, f"u{n}") for n in range(40)])
    ends, placed = topic.ends(), topic.read(columns=["_partition"]).column(0).to_pylist()
    table = topic.read_offsets({2: 1, 3: 0}, {2: ends[2], 3: ends[3] + 100}, ["n", "_partition"])
    assert table.column_names == ["n", "_partition"]
    assert set(table.column("_partition").to_pylist()) == {2, 3}
    assert table.num_rows == placed.count(2) - 1 + placed.count(3)


def test_offsets_that_nobody_can_read_are_refused(ten: Topic) -> None:
    end = ten.ends()[0]
    ten.check_range({0: end})
    with pytest.raises(OutOfRange, match="beyond the end"):
        ten.check_range({0: end + 1})
    with pytest.raises(Invalid, match="topic t has no partition 1; it has 1"):
        ten.check_range({1: 0})
    with pytest.raises(Invalid, match="no partition 1"):
        ten.read_offsets({1: 0}, {1: 1})


def test_a_topic_that_was_closed_is_opened_again(log: Log) -> None:
    with log.topic() as topic:
        topic.append(row(1))
        assert topic.backend.is_open
    assert not topic.backend.is_open
    assert log.reopened().backend.is_open
    assert log.reopened().read().num_rows == 1


def test_waiting_ends_when_rows_arrive(log: Log) -> None:
    topic, other = log.topic(), log.reopened()
    arrived: list[bool] = []
    waiter = threading.Thread(target=lambda: arrived.append(topic.wait(topic.latest, "20 seconds")))
    waiter.start()
    other.append(row(1))
    waiter.join(20)
    assert arrived == [True]


def test_waiting_for_what_is_there_returns_at_once(log: Log) -> None:
    topic = log.topic()
    topic.append(row(1))
    assert topic.wait(Position(), 0)
    assert topic.wait(topic.earliest, 0)


def test_waiting_ends_when_the_time_is_up(log: Log) -> None:
    topic = log.topic()
    began = time.monotonic()
    assert not topic.wait(topic.latest, "50 ms")
    assert time.monotonic() - began >= 0.05


def test_describe_says_what_there_is(ten: Topic) -> None:
    told = ten.describe()
    assert told["name"] == "t"
    assert told["schema"] == "user string, n bigint, at timestamp"
    assert (told["key"], told["time"], told["producers"]) == (["user"], "at", None)
    assert told["partitions"] == {0: {"earliest": 0, "latest": offsets(ten)[-1]}}
    assert told["rows_per_second"] == pytest.approx(told["offsets"] / 60)  # which are rows, where there are no gaps


def test_offsets_by_when_rows_were_received(ten: Topic) -> None:
    received = ten.read().column("_received")
    assert ten.backend.offsets_received(received[0].value) == ten.begins()
    assert ten.backend.offsets_received(received[9].value + 60_000_000) == ten.ends()
