"""Times that a datetime cannot say: refused where rows come in, harmless where there are some already."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pytest

from contracts.conftest import Log
from riverrun.durations import FIRST, LAST
from riverrun.errors import Invalid
from riverrun.log.topic import Topic

SCHEMA = (
    "user string, at timestamp, day date, local timestamp_ntz, seen array<timestamp>, visits map<string, timestamp>"
)
BEFORE, AFTER = "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59"
EARLIEST, LATEST = datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, 999_999, UTC)


@pytest.mark.parametrize("text", [BEFORE, AFTER])
@pytest.mark.parametrize("column", ["at", "seen", "visits", "_time"])
@pytest.mark.parametrize("rows", [1, 100])
@pytest.mark.parametrize("as_text", [True, False])
def test_a_time_outside_the_years_1_to_9999_is_refused_by_row_and_column(
    log: Log, text: str, column: str, rows: int, as_text: bool
) -> None:
    topic = log.topic(schema=SCHEMA)
    moment: Any = text if as_text else datetime.fromisoformat(text)
    value = {"seen": [None, moment], "visits": {"a": moment}}.get(column, moment)
    good = {"user": "ada", "at": LATEST, "seen": [EARLIEST]}
    with pytest.raises(Invalid, match=rf"row {rows - 1}, column '{column}': a time outside the years 1 to 9999"):
        topic.append([*[good] * (rows - 1), {**good, column: value}])
    assert topic.read().num_rows == 0


@pytest.mark.parametrize("column", ["at", "day", "local", "seen", "visits"])
def test_an_arrow_table_with_a_time_outside_the_years_1_to_9999_is_refused(log: Log, column: str) -> None:
    topic = log.topic(schema=SCHEMA)
    kind = topic.schema.field(column).type
    with pytest.raises(Invalid, match=rf"row 1, column '{column}': a time outside"):
        topic.append(pa.table({"user": ["ada", "bob"], column: poison(kind)}))
    assert topic.read().num_rows == 0


@pytest.mark.parametrize("column", ["at", "seen", "visits"])
def test_a_producer_refuses_a_time_outside_the_years_1_to_9999_when_it_is_sent(log: Log, column: str) -> None:
    topic = log.topic(schema=SCHEMA)
    moment = datetime.fromisoformat(BEFORE)
    with topic.producer() as producer:
        with pytest.raises(Invalid, match=rf"column '{column}': a time outside"):
            producer.send({"user": "ada", column: {"seen": [moment], "visits": {"a": moment}}.get(column, moment)})
        producer.send({"user": "ada", "at": EARLIEST, "seen": [LATEST]})
    assert topic.read().num_rows == 1


def test_a_promise_of_a_time_outside_the_years_1_to_9999_is_refused(log: Log) -> None:
    with pytest.raises(Invalid, match="outside the years 1 to 9999"):
        log.topic(schema=SCHEMA, partitions=1).advance(0, datetime.fromisoformat(BEFORE))


def test_times_outside_the_years_1_to_9999_that_a_log_has_already_are_read_as_the_first_and_the_last(log: Log) -> None:
    topic = log.topic(schema=SCHEMA, time="at", partitions=1)
    topic.append({"user": "ada", "at": datetime(2026, 1, 1, tzinfo=UTC)})
    topic.backend.append(planted(topic), None)
    for found in (topic, log.reopened()):
        _, early, late = found.read().to_pylist(maps_as_pydicts="strict")
        assert early["at"] == early["_time"] == EARLIEST
        assert late["at"] == late["_time"] == LATEST
        assert (early["day"], late["day"]) == (date(1, 1, 1), date(9999, 12, 31))
        assert (early["local"], late["local"]) == (EARLIEST.replace(tzinfo=None), LATEST.replace(tzinfo=None))
        assert (early["seen"], late["visits"]) == ([EARLIEST], {"a": LATEST})
        assert [row["user"] for row in found.read(columns=["user"]).to_pylist()] == ["ada", "early", "late"]
        found.describe()
        if "offsets_at" not in log.ways.refused:
            found.offsets_at(LATEST)


@pytest.mark.uses("queue")
def test_a_queue_hands_out_rows_whose_times_are_outside_the_years_1_to_9999(log: Log) -> None:
    topic = log.topic(schema=SCHEMA, partitions=1)
    topic.backend.append(planted(topic), None)
    with topic.queue("workers") as queue:
        messages = [queue.receive(timeout=5) for _ in range(2)]
        assert [message.row["at"] for message in messages if message] == [EARLIEST, LATEST]
        for message in messages:
            assert message
            message.ack()


def planted(topic: Topic) -> pa.RecordBatch:
    """Rows as an older version took them."""
    columns = [
        pa.array(["early", "late"]) if field.name == "user" else poison(field.type, both=True) for field in topic.schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=topic.schema)


def poison(kind: pa.DataType, both: bool = False) -> pa.Array:
    """Two values, one before the first time (or 1970) and one behind the last."""
    if pa.types.is_map(kind):
        inner = poison(kind.item_type, both)
        return pa.MapArray.from_arrays([0, 1, 2], pa.array(["a", "a"]), inner).cast(kind)
    if pa.types.is_list(kind):
        return pa.ListArray.from_arrays([0, 1, 2], poison(kind.value_type, both)).cast(kind)
    if pa.types.is_date(kind):
        return pa.array([-719_163 if both else 0, 2_932_897], pa.int32()).cast(kind)
    return pa.array([FIRST - 1 if both else 0, LAST + 1], pa.int64()).cast(kind)
