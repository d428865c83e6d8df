"""Matches through the public interface: published examples, late rows, silence, crashes."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

import riverrun as rr
from riverrun.errors import Invalid
from riverrun.testing import Advance, Crash, run_flow

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
LEAST, MOST = -(1 << 63), (1 << 63) - 1
DOWN = {"down": "price < prev(price)"}
DOWN_UP = {**DOWN, "up": "price > prev(price)"}


def at(second: float) -> datetime:
    return NOON + timedelta(seconds=second)


def ticks(prices: list[float], symbol: str = "ACME") -> list[dict[str, Any]]:
    return [{"symbol": symbol, "price": float(price), "at": at(second)} for second, price in enumerate(prices)]


def stream(flow: rr.Flow, **given: Any) -> Any:
    return flow.stream("ticks", "symbol string, price double, at timestamp", time="at", **given)


# The prices of one symbol that SQL's documentation of MATCH_RECOGNIZE has been explained with since it is there: 20 days.
ACME = [12, 17, 19, 21, 25, 12, 15, 20, 24, 25, 19, 15, 25, 25, 14, 12, 14, 24, 23, 22]


def test_the_v_shapes_of_the_published_example() -> None:
    flow = rr.Flow("f")
    found = stream(flow).match(
        "strt down+ up+",
        by="symbol",
        after="skip to last up",
        define=DOWN_UP,
        measures={"bottom": "last(down.price)", "top": "last(up.price)", "days": "count(*)"},
    )
    flow.view("v", found)
    result = run_flow(flow, [{"ticks": ticks(ACME)}]).views["v"]
    shown = [((r["match_start"] - NOON).seconds + 1, (r["match_end"] - NOON).seconds + 1, r["bottom"]) for r in result]
    assert sorted(shown) == [(5, 10, 12.0), (10, 13, 15.0), (14, 18, 12.0)]


def test_rows_of_a_match_with_running_measures() -> None:
    flow = rr.Flow("f")
    measures = {"so_far": "count(*)", "lowest": "min(price)", "mean": "avg(down.price)"}
    flow.view("v", stream(flow).match("start down+", by="symbol", define=DOWN, rows="all", measures=measures))
    result = run_flow(flow, [{"ticks": ticks([5, 4, 2])}, {"ticks": ticks([9], "B")}]).views["v"]
    rows = sorted(result, key=lambda row: row["row_number"])
    assert [(r["variable"], r["row_number"], r["so_far"], r["lowest"], r["mean"]) for r in rows] == [
        ("start", 1, 1, 5.0, None), ("down", 2, 2, 4.0, 4.0), ("down", 3, 3, 2.0, 3.0),
    ]  # fmt: skip
    assert len({row["match_id"] for row in rows}) == 1


def test_silence_is_told_when_time_has_passed() -> None:
    flow = rr.Flow("f")
    flow.view("silent", stream(flow).match("beat !beat", by="symbol", within="30 seconds"))
    script: list[Any] = [{"ticks": ticks([1])}, Advance("ticks", 0, at(30))]
    assert run_flow(flow, script, drain=False, partitions=1).views["silent"] == []
    script.append(Advance("ticks", 0, at(31)))
    (row,) = run_flow(flow, script, drain=False, partitions=1).views["silent"]
    assert (row["match_start"], row["match_end"]) == (at(0), at(0))


def test_a_timeout_tells_how_far_it_came() -> None:
    flow = rr.Flow("f")
    rows = stream(flow).match(
        "low -> high -> low",
        by="symbol",
        within="10 seconds",
        define={"low": "price < 2", "high": "price > 8"},
        measures={"high": "high.price"},
        on_timeout=True,
    )
    flow.view("v", rows)
    result = run_flow(flow, [{"ticks": ticks([1, 9, 5, 5])}]).views["v"]
    assert [(row["high"], row["timed_out"], row["match_end"]) for row in result] == [(9.0, True, at(1))]


def test_a_match_that_says_to_go_on_nowhere_is_put_aside() -> None:
    flow = rr.Flow("f")
    found = stream(flow).match("a b? c", by="symbol", define={"b": "price > 5"}, after="skip to last b")
    flow.view("v", found)
    result = run_flow(flow, [{"ticks": ticks([1, 6, 2, 1])}])
    (topic,) = [name for name in result.topics if name.endswith(".quarantine")]
    assert topic.startswith("f.match-")
    assert [row["match_start"] for row in result.views["v"]] == [at(0)]
    assert [row["match_start"] for row in result.topics[topic]] == [at(1), at(2)][: len(result.topics[topic])]
    assert "skip to last b" in result.topics[topic][0]["_error"]


def test_late_rows_are_dropped_put_aside_or_put_in_their_place() -> None:
    script = [
        {"ticks": ticks([5, 4])},
        {"ticks": [{**ticks([6])[0], "at": at(20)}]},
        {"ticks": [{**ticks([9])[0], "at": at(0.5)}]},
    ]
    results = {}
    for name, late in {"drop": rr.drop(), "side": rr.side("late-ticks"), "correct": rr.correct("1 minute")}.items():
        flow = rr.Flow("f")
        found = stream(flow).match("a down", by="symbol", define=DOWN, measures={"top": "a.price"}, late=late)
        flow.view("v", found)
        results[name] = run_flow(flow, script)
    assert [row["top"] for row in results["drop"].views["v"]] == [5.0]
    assert [row["price"] for row in results["side"].topics["late-ticks"]] == [9.0]
    assert [row["top"] for row in results["correct"].views["v"]] == [9.0]
    ledger = {name: result.ledger[-1] for name, result in results.items()}
    assert [ledger["drop"]["late_dropped"], ledger["side"]["late_aside"], ledger["correct"]["corrected"]] == [1, 1, 1]


def test_input_that_is_corrected_is_matched_as_it_is_in_the_end() -> None:
    flow = rr.Flow("f")
    rates = flow.table("rates", "symbol string, rate double, since timestamp", key="symbol", time="since")
    priced = stream(flow).as_of(rates, on="symbol").with_columns(price="price * rate")
    flow.view("v", priced.match("a down", by="symbol", define=DOWN, measures={"top": "a.price"}))
    script = [
        {"rates": [{"symbol": "ACME", "rate": 1.0, "since": at(-100)}]},
        {"ticks": ticks([5, 4, 3, 2])},
        {"rates": [{"symbol": "ACME", "rate": 0.5, "since": at(1)}]},
    ]
    assert sorted(row["top"] for row in run_flow(flow, script).views["v"]) == [1.5, 5.0]


def counted_shapes(flow: rr.Flow, late: rr.Late | None = None) -> None:
    found = stream(flow).match("start down+ up", by="symbol", define=DOWN_UP, measures={"n": "count(*)"}, late=late)
    flow.view("v", found.window(rr.tumbling("10 seconds"), by="symbol").agg(shapes=rr.count()))


def test_windows_after_a_match_close_when_no_attempt_before_their_end_is_open() -> None:
    flow = rr.Flow("f")
    counted_shapes(flow)
    script: list[Any] = [{"ticks": ticks([3, 2, 3, 3, 3])}, {"ticks": [{**ticks([3])[0], "at": at(30)}]}]
    assert run_flow(flow, script, drain=False, partitions=1).views["v"] == []  # the last 3 may begin one
    script.append({"ticks": [{**ticks([3])[0], "at": at(31)}]})
    script.append({"ticks": [{**ticks([3])[0], "at": at(32)}]})
    assert [row["shapes"] for row in run_flow(flow, script, drain=False, partitions=1).views["v"]] == [1]


def test_a_key_with_an_open_attempt_holds_what_follows() -> None:
    flow = rr.Flow("f")
    counted_shapes(flow)
    script: list[Any] = [{"ticks": ticks([3, 2, 3, 3]) + ticks([3, 2, 1], "SLOW")}]
    script += [{"ticks": [{**ticks([3])[0], "at": at(second)}]} for second in (30, 31, 32)]
    assert run_flow(flow, script, drain=False, partitions=1).views["v"] == []
    script.append({"ticks": [{**ticks([5], "SLOW")[0], "at": at(40)}, {**ticks([6], "SLOW")[0], "at": at(41)}]})
    script += [{"ticks": [{**ticks([3], name)[0], "at": at(50 + n)} for name in ("SLOW", "ACME")]} for n in range(4)]
    result = run_flow(flow, script, drain=False, partitions=1).views["v"]
    assert sorted((row["symbol"], row["window_start"]) for row in result) == [("ACME", at(0)), ("SLOW", at(40))]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("late", [rr.drop(), rr.correct("6 seconds")])
def test_windows_after_a_match_miss_nothing(seed: int, late: rr.Late) -> None:
    rng = random.Random(seed)
    rows = [{"symbol": rng.choice("ab"), "price": float(rng.randrange(4)), "at": at(n / 2)} for n in range(80)]
    rows.sort(key=lambda row: (row["at"] - NOON).total_seconds() + rng.random() * 4)
    script: list[Any] = []
    for start in range(0, len(rows), 4):
        if rng.random() < 0.2:
            script.append(Crash(at=rng.choice(["host.stepped", "host.committed", "commit.begin", "commit.store"])))
        script.append({"ticks": rows[start : start + 4]})
    flow, whole = rr.Flow("f"), rr.Flow("f")
    for made in (flow, whole):
        found = stream(made, lateness="5 seconds" if late == rr.drop() else "0 seconds").match(
            "start down+ up*", by="symbol", define=DOWN_UP, measures={"n": "count(*)"}, late=late
        )
        made.view("v", found.window(rr.tumbling("3 seconds")).agg(matches=rr.count(), rows=rr.sum("n")))
    result, expected = run_flow(flow, script, partitions=1), run_flow(whole, [{"ticks": rows}], partitions=1)
    assert not any(entry["late_dropped"] for entry in result.ledger)
    assert result.views["v"] == expected.views["v"]
    assert sum(map(len, result.changes["v"][:-1])) > len(result.views["v"]) / 2  # most close before the end


@pytest.mark.parametrize(
    ("condition", "values"),
    [
        ("x + a.x is null", (MOST, 1)),
        ("a.x + x = -1", (MOST, LEAST)),
        ("a.x - x is null", (LEAST, 1)),
        ("a.x - x = 0", (LEAST, LEAST)),
        ("a.x * x is null", (1 << 32, 1 << 31)),
        ("a.x * x = -9223372036854775807 - 1", (1 << 32, -(1 << 31))),
        ("a.x * x is null", (LEAST, -1)),
        ("x * a.x is null", (LEAST, -1)),
        ("-(a.x + x) is null and abs(a.x + x) is null", (LEAST, 0)),
        ("a.x div x is null and a.x % x = 0", (LEAST, -1)),
        ("a.x div x = -4611686018427387904 and a.x % x = 0", (LEAST, 2)),
        ("a.x div x = -2 and a.x % x = -1", (-7, 3)),
        ("sum(x) is null and avg(x) is null and count(x) = 2 and max(x) = a.x", (MOST, 1)),
        ("coalesce(x + a.x, 5) = 5", (MOST, MOST)),
    ],
)
def test_numbers_of_more_than_64_bits_are_null_in_conditions(condition: str, values: tuple[int, int]) -> None:
    flow = rr.Flow("f")
    source = flow.stream("r", "x bigint, at timestamp", time="at")
    flow.view("v", source.match("a b", define={"b": condition}))
    rows = [{"x": x, "at": at(second)} for second, x in enumerate(values)]
    assert len(run_flow(flow, [{"r": rows}]).views["v"]) == 1


def test_sums_of_more_than_64_bits_are_null_in_measures() -> None:
    flow = rr.Flow("f")
    source = flow.stream("r", "x bigint, at timestamp", time="at")
    measures = {"total": "sum(x)", "n": "count(x)", "most": "max(x)"}
    flow.view("v", source.match("a b c", measures=measures, rows="all"))
    rows = [{"x": x, "at": at(second)} for second, x in enumerate([MOST, 1, -2])]
    found = sorted(run_flow(flow, [{"r": rows}]).views["v"], key=lambda row: row["row_number"])
    assert [(row["total"], row["n"], row["most"]) for row in found] == [
        (MOST, 1, MOST),
        (None, 2, MOST),
        (None, 3, MOST),
    ]


def test_sums_of_decimals_are_exact_in_measures() -> None:
    flow = rr.Flow("f")
    source = flow.stream("r", "x decimal(18,2), y decimal(3,1), at timestamp", time="at")
    measures = {"total": "sum(x)", "mean": "avg(y)", "most": "max(x)", "more": "sum(a.y) + 1"}
    flow.view("v", source.match("a b", measures=measures))
    largest = Decimal("9999999999999999.99")
    rows = [
        {"x": x, "y": y, "at": at(second)}
        for second, (x, y) in enumerate([(largest, Decimal("1.5")), (Decimal("0.02"), None)])
    ]
    (found,) = run_flow(flow, [{"r": rows}]).views["v"]
    assert (found["total"], found["most"]) == (largest + Decimal("0.02"), largest)
    assert (found["mean"], found["more"]) == (1.5, Decimal("2.5"))
    with pytest.raises(Invalid, match="total: sum over the rows of a match adds up numbers of 64 bits, and"):
        flow.stream("w", "x decimal(19,2), at timestamp", time="at").match("a b", measures={"total": "sum(x)"})


def test_an_attempt_with_more_rows_than_may_be_open_is_given_up() -> None:
    for open_rows, starts, given_up in ((10_000, [at(0)], 0), (3, [at(2)], 2)):
        flow = rr.Flow("f")
        flow.view("v", stream(flow).match("start down+ up", by="symbol", define=DOWN_UP, open_rows=open_rows))
        result = run_flow(flow, [{"ticks": ticks([5, 4, 3, 2, 9])}])
        assert [row["match_start"] for row in result.views["v"]] == starts
        assert result.ledger_of("match").get("given_up", 0) == given_up


def test_a_name_is_the_matchs_own() -> None:
    flow = rr.Flow("f")
    found = stream(flow).match("a b? c", by="symbol", define={"b": "price > 5"}, after="skip to last b").named("bumps")
    flow.view("v", found)
    result = run_flow(flow, [{"ticks": ticks([1, 6, 2, 1])}])
    assert [row["match_start"] for row in result.topics["f.bumps.quarantine"]] == [at(1), at(2)]
    with pytest.raises(Invalid, match="cannot be the name of a match"):
        stream(rr.Flow("f")).match("a b? c", after="skip to last b").named("bumps and dents")
