"""`time="_time"`: the event time that the rows of a topic have, whether a column holds it or a flow gave it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from riverrun.flow import Flow
from riverrun.flow.aggregates import count
from riverrun.flow.aggregates import sum as total
from riverrun.flow.windows import side, tumbling
from riverrun.log.spec import TopicSpec
from riverrun.river import River
from riverrun.testing import END, Advance, Tick, assert_same_batching, run_flow
from riverrun.testing.result import Rows

BASE = datetime(2026, 1, 1, tzinfo=UTC)
TENS = "shop string, window_start timestamp, window_end timestamp, n bigint"


def at(seconds: float) -> datetime:
    return BASE + timedelta(seconds=seconds)


def tens() -> Rows:
    """A derived topic: sums of ten seconds, whose time is the end of the window."""
    flow = Flow("tens")
    sales = flow.stream("sales", "shop string, n int, at timestamp", time="at")
    sums = sales.window(tumbling("10 seconds"), by="shop").agg(n=total("n"))
    flow.topic("tens", sums, key=["shop", "window_start", "window_end"])
    rows = [{"shop": "a", "n": 1, "at": at(second)} for second in range(120)]
    return run_flow(flow, {"sales": rows}, now=at(1000)).topics["tens"]


def minutes(**options: Any) -> Flow:
    flow = Flow("minutes")
    stream = flow.stream("tens", TENS, time="_time", **options)
    flow.view("minutes", stream.window(tumbling("1 minute"), by="shop").agg(tens=count(), n=total("n")))
    flow.view("times", stream.select("window_end", "_time as t"), key="window_end")
    return flow


def test_a_derived_topic_is_read_in_its_own_time() -> None:
    rows = tens()
    open_end = run_flow(minutes(), {"tens": rows}, drain=False, now=at(2000))
    assert open_end.watermarks == {"tens": at(120)}
    assert [(row["window_end"], row["t"]) for row in open_end.views["times"]] == [
        (at(n), at(n)) for n in range(10, 130, 10)
    ]
    expected = [(at(0), 5, 50), (at(60), 6, 60), (at(120), 1, 10)]
    found = run_flow(minutes(), {"tens": rows})
    assert [(row["window_start"], row["tens"], row["n"]) for row in found.views["minutes"]] == expected
    assert found.watermarks == {"tens": END}
    assert open_end.views["minutes"] == found.views["minutes"][:2]


def test_it_comes_to_the_same_in_any_epochs() -> None:
    assert_same_batching(minutes(lateness="30 seconds"), {"tens": tens()}, shuffle=True, max_rows=1)


def test_headers_and_rows_say_the_same(tmp_path: Any) -> None:
    """An epoch that ends inside of a frame hears rows, one that takes it whole hears its header; tombstones too."""
    from riverrun.runtime.compile.compiler import compile_flow
    from riverrun.runtime.plan import Limit
    from riverrun.runtime.planner import Planner

    rows = [{"shop": "a", "n": n, "window_end": at(n), "_time": at(n), "_deleted": n % 3 == 2} for n in range(9)]
    heard = []
    with River(tmp_path / "river") as river:
        topic = river.topic("tens", TENS, key=["shop", "window_end"], partitions=1, fsync="os")
        topic.append(rows)
        job = compile_flow(minutes(), 1)
        for end in range(1, 10):
            planner = Planner(job, {"tens": topic}, f"{tmp_path}/planner", Limit())
            plan = planner.next(planner.first(), until={"tens": {0: end}})
            assert plan is not None
            heard.append(plan.watermarks["stream-tens"][1])
    assert heard == [int(at(n).timestamp()) * 1_000_000 for n in range(9)]


def test_a_column_may_hold_it() -> None:
    rows = [{"shop": "a", "window_end": at(second), "n": 1} for second in (5, 65, 125)]
    spec = TopicSpec("tens", TENS, time="window_end")
    for now in (None, at(1000)):
        found = run_flow(minutes(), {"tens": rows}, topics=[spec], drain=False, now=now)
        assert [row["t"] for row in found.views["times"]] == [at(5), at(65), at(125)]
        assert [row["window_start"] for row in found.views["minutes"]] == [at(0), at(60)]
        assert found.watermarks == {"tens": at(125)}


def test_without_any_it_is_when_rows_came_in() -> None:
    rows = [{"shop": "a", "window_end": at(second), "n": 1} for second in (5, 65)]
    found = run_flow(minutes(), [{"tens": rows[:1]}, Tick("90 seconds"), {"tens": rows[1:]}], now=at(0), drain=False)
    assert [row["t"].replace(microsecond=0) for row in found.views["times"]] == [at(0), at(90)]
    assert [row["window_start"] for row in found.views["minutes"]] == [at(0)]


def clicks() -> Flow:
    flow = Flow("f")
    stream = flow.stream("clicks", "user string", time="_time", producers="user", idle="1 minute")
    flow.view("n", stream.window(tumbling("10 seconds"), by="user", late=side("late")).agg(n=count()))
    return flow


def test_rows_may_give_it() -> None:
    script = [
        {"clicks": [{"user": "ann", "_time": at(1)}, {"user": "ann", "_time": at(12)}]},
        {"clicks": [{"user": "ann", "_time": at(2)}]},
        Advance("clicks", "ann", at(20)),
    ]
    found = run_flow(clicks(), script, drain=False, now=at(30))
    assert [(row["window_start"], row["n"]) for row in found.views["n"]] == [(at(0), 1), (at(10), 1)]
    assert [row["_watermark"] for row in found.topics["late"]] == [at(12)]


def test_producers_of_rows_without_it_are_heard_when_they_come_in() -> None:
    script = [{"clicks": [{"user": "ann"}]}, Tick("2 minutes"), {"clicks": [{"user": "bob"}]}]
    found = run_flow(clicks(), script, now=at(0), drain=False)
    assert [(row["user"], row["window_start"]) for row in found.views["n"]] == [("ann", at(0))]


def test_a_table_has_it_too() -> None:
    flow = Flow("f")
    prices = flow.table("prices", "item string, price int", key="item", time="_time")
    sales = flow.stream("sales", "item string, at timestamp", time="at")
    flow.view("sold", sales.as_of(prices, on="item"))
    known = [{"item": "tea", "price": n, "_time": at(n * 10)} for n in (1, 2, 3)]
    found = run_flow(flow, [{"prices": known}, {"sales": [{"item": "tea", "at": at(25)}]}])
    assert [row["price"] for row in found.views["sold"]] == [2]
