"""The shop's events: the same for the same seed, however often somebody asks, and as wrong as they are meant to be."""

from __future__ import annotations

import collections
from functools import cache

import polars as pl
import pyarrow as pa

from riverrun.ddl import arrow_schema, parse
from riverrun.demo.shop.events import DEVICES, KINDS, SECOND, SLOT, TOPICS, Shop
from riverrun.demo.shop.shop_flow import TOPICS as SPECS
from riverrun.durations import to_micros

START = 1_790_000_000 * SECOND
LENGTH = 50


@cache
def events(rate: float = 200) -> dict[str, list[dict]]:
    return {name: table.to_pylist() for name, table in Shop(START, rate=rate).until(START + LENGTH * SECOND).items()}


def test_the_same_seed_gives_the_same_rows_however_it_is_asked() -> None:
    whole = Shop(START, seed=7).until(START + 20 * SECOND)
    parts: dict[str, list[pa.Table]] = collections.defaultdict(list)
    shop = Shop(START, seed=7)
    for moment in [*range(0, 20 * SECOND, 7 * SLOT // 3), 20 * SECOND]:
        for name, table in shop.until(START + moment).items():
            parts[name].append(table)
    assert {name: pa.concat_tables(tables).to_pylist() for name, tables in parts.items()} == {
        name: table.to_pylist() for name, table in whole.items()
    }
    assert Shop(START, seed=8).until(START + 20 * SECOND)["orders"].to_pylist() != whole["orders"].to_pylist()


def test_rows_fit_the_topics_of_the_flow() -> None:
    tables = Shop(START).until(START + 5 * SECOND)
    assert set(tables) == set(TOPICS) == {spec.name for spec in SPECS}
    assert set(KINDS) < set(TOPICS)
    for spec in SPECS:
        assert tables[spec.name].schema.equals(arrow_schema(parse(str(spec.schema)))), spec.name


def test_the_rate_is_about_what_was_asked_for() -> None:
    sent = sum(len(events()[name]) for name in KINDS)
    assert 0.85 < sent / LENGTH / 200 < 1.15


def test_clicks_follow_their_searches_and_some_are_doubled() -> None:
    searches = {row["search"]: row["at"] for row in events()["searches"]}
    clicks = events()["clicks"]
    waits = [(row["at"] - searches[row["search"]]).total_seconds() for row in clicks]
    assert min(waits) >= 0
    assert max(waits) < 10
    doubled = len(clicks) - len({row["search"] for row in clicks})
    assert 0 < doubled < len(clicks) / 5


def test_some_orders_are_sent_twice_and_are_the_same() -> None:
    by_order = collections.defaultdict(list)
    for row in events()["orders"]:
        by_order[row["order"]].append(row)
    assert {len(rows) for rows in by_order.values()} == {1, 2}
    assert all(row == rows[0] for rows in by_order.values() for row in rows)


def test_some_page_views_are_late_and_no_row_comes_before_it_happened() -> None:
    shop, late = Shop(START), 0
    for number in range(LENGTH * SECOND // SLOT):
        end = START + (number + 1) * SLOT
        arrived = shop.until(end)
        for name in ("page_views", "searches", "clicks", "orders", "prices"):
            times = [
                to_micros(row["since" if name == "prices" else "at"])
                for row in arrived.get(name, pa.table({})).to_pylist()
            ]
            assert all(at < end for at in times)
            late += sum(at < end - 5 * SECOND for at in times) if name == "page_views" else 0
    assert 0.01 < late / len(events()["page_views"]) < 0.03


def test_every_device_has_its_own_fault() -> None:
    rows = pl.DataFrame(Shop(START, rate=200).until(START + LENGTH * SECOND)["readings"].to_pydict())
    micros = rows.with_columns(pl.col("measured").dt.epoch("us"), pl.col("sent").dt.epoch("us"))
    by_name = {str(name): group for (name,), group in micros.group_by("device", maintain_order=True)}
    assert set(by_name) == {device.name for device in DEVICES}
    for device in DEVICES:
        happened = by_name[device.name]["measured"] - device.clock - START
        assert 0 <= happened.min() < 5 * SECOND  # type: ignore[operator]
        assert happened.max() < LENGTH * SECOND  # type: ignore[operator]
        assert (happened.max() < 20 * SECOND) == (device.silent_after is not None)  # type: ignore[operator]
        assert by_name[device.name]["sent"].null_count() == (0 if device.stamps else len(happened))
    kept = (by_name["gate"]["sent"] - by_name["gate"]["measured"]).to_list()  # by its own clock, which is right
    assert max(kept) > 11 * SECOND
    assert min(kept) == 0
    assert [device.name for device in DEVICES if not device.stamps] == ["attic"]
