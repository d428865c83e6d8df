"""`transform`: plain Spark in a flow, before and behind stateful nodes, with and without a declared schema."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from riverrun.errors import Invalid
from riverrun.flow import Flow
from riverrun.flow.aggregates import count
from riverrun.flow.aggregates import sum as total
from riverrun.flow.windows import tumbling

pytestmark = pytest.mark.spark

BASE = datetime(2026, 1, 1, tzinfo=UTC)
COLUMNS = "u string, n bigint, at timestamp"
ROWS = [{"u": f"{'ab'[i % 2]}{i % 3}", "n": i, "at": BASE + timedelta(seconds=i)} for i in range(100)]


def test_transforms_keep_what_rows_carry(river):
    from pyspark.sql import functions as F

    flow = Flow("shouting")
    rows = flow.stream("events", COLUMNS, time="at")
    even = rows.where("n < 90").transform(lambda frame: frame.withColumn("loud", F.upper("u")).where("n % 2 = 0"))
    flow.view("even", even)
    flow.view("loud", even.group("loud").agg(n=count(), total=total("n")))
    double = rows.transform(lambda frame: frame.select("u", (F.col("n") * 2).alias("m")), schema="u string, m bigint")
    flow.view("double", double.window(tumbling("10 seconds"), by="u").agg(m=total("m")))
    flow.view("more", rows.group("u").agg(n=count()).transform(lambda frame: frame.withColumn("more", F.col("n") + 1)))
    topic = river.topic("events", COLUMNS, time="at", fsync="os")
    topic.append(ROWS[:60])
    with river.run(flow) as run:
        run.process(timeout="90 seconds")
        topic.append(ROWS[60:])
        run.drain(timeout="90 seconds")
    chosen = [row for row in ROWS if row["n"] < 90 and row["n"] % 2 == 0]
    assert sorted(row["n"] for row in river.view("even").rows()) == [row["n"] for row in chosen]
    loud: dict[str, tuple[int, int]] = {}
    windows: dict[tuple[str, datetime], int] = {}
    counts: dict[str, int] = {}
    for row in chosen:
        n, sum_ = loud.get(row["u"].upper(), (0, 0))
        loud[row["u"].upper()] = (n + 1, sum_ + row["n"])
    for row in ROWS:
        start = row["at"].replace(second=row["at"].second // 10 * 10)
        windows[row["u"], start] = windows.get((row["u"], start), 0) + 2 * row["n"]
        counts[row["u"]] = counts.get(row["u"], 0) + 1
    assert {row["loud"]: (row["n"], row["total"]) for row in river.view("loud").rows()} == loud
    assert {(row["u"], row["window_start"]): row["m"] for row in river.view("double").rows()} == windows
    assert {row["u"]: row["more"] for row in river.view("more").rows()} == {u: n + 1 for u, n in counts.items()}


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda frame: frame.groupBy("u").count(), "lost the column _row"),
        (lambda frame: frame.select("nothing"), "Spark refuses"),
        (lambda frame: 1, "gave int, not a DataFrame"),
    ],
)
def test_what_is_not_row_by_row_is_refused(river, function, message):
    flow = Flow("wrong")
    flow.view("v", flow.stream("events", COLUMNS, time="at").transform(function))
    with pytest.raises(Invalid, match=message) as error:
        river.run(flow)
    assert "test_transform.py:" in str(error.value)
