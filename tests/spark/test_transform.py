"""`transform`: plain Spark in a flow, before and behind stateful nodes, with and without a declared schema."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from riverrun.errors import Invalid
from riverrun.flow import Flow
from riverrun.flow.aggregates import count
from riverrun.flow.aggregates import sum as total
from riverrun.flow.windows import tumbling
from riverrun.spark.transform import Siblings

pytestmark = pytest.mark.spark
KINDS = (pa.int32(), pa.int64(), pa.int8())

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


def test_one_row_may_become_several(river):
    from pyspark.sql import functions as F

    flow = Flow("words")
    lines = flow.stream("lines", "u string, line string")
    words = lines.union(lines).transform(lambda frame: frame.select("u", F.explode(F.split("line", " ")).alias("word")))
    flow.view("words", words.where("word <> 'b'"))
    flow.view("counts", words.group(["u", "word"]).agg(n=count()))
    flow.view("longest", words.top(3, "length(word) desc, word", per="u"))
    counted = lines.group("u").agg(n=count()).transform(lambda frame: frame.withColumn("m", F.col("n") * 2))
    flow.view("counted", counted)
    river.topic("lines", "u string, line string", fsync="os").append([{"u": "x", "line": "a b c"}])
    with river.run(flow) as run:
        run.process(timeout="90 seconds")
        river.topic("lines").append([{"u": "x", "line": "a ddd a"}])
        run.drain(timeout="90 seconds")
    assert sorted(row["word"] for row in river.view("words").rows()) == sorted(["a", "c", "a", "ddd", "a"] * 2)
    counts = {row["word"]: row["n"] for row in river.view("counts").rows()}
    assert counts == {"a": 6, "b": 2, "c": 2, "ddd": 2}
    assert sorted(row["word"] for row in river.view("longest").rows()) == ["a", "ddd", "ddd"]
    assert river.view("counted").rows() == [{"u": "x", "n": 2, "m": 4}]


def test_siblings_are_numbered_across_batches():
    def rows(*places):
        columns = [pa.array(column, kind) for column, kind in zip(zip(*places, strict=True), KINDS, strict=True)]
        return pa.RecordBatch.from_arrays(columns, names=["_partition", "_offset", "_weight"])

    siblings = Siblings()
    found = []
    for batch in (rows((0, 1, 1), (0, 1, 1), (0, 2, 1)), rows((0, 2, 1), (0, 2, -1), (1, 2, -1)), rows((1, 2, -1))):
        found += [divmod(place, 1 << 20) for place in siblings.told_apart(batch).column("_offset").to_pylist()]
    assert found == [(1, 0), (1, 1), (2, 0), (2, 1), (2, 0), (2, 0), (2, 1)]


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
