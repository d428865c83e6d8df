"""Epochs that several tasks read: rows go from task to task between the stages, by reference and inside Spark's shuffle."""

from __future__ import annotations

import os
import shutil

import numpy as np
import polars as pl
import pytest

from riverrun.flow import Flow
from riverrun.flow.aggregates import count
from riverrun.flow.aggregates import sum as total
from riverrun.flow.windows import tumbling
from riverrun.runtime.commit import Committer
from riverrun.spark import query
from riverrun.spark.source import _LEAST

pytestmark = pytest.mark.spark

ROWS = 4 * _LEAST  # an epoch with less for each task is computed by one
EVENTS = "user int, item int, amount bigint, at timestamp"
ITEMS = "item int, kind int"
ITEM_TYPES = {"item": pl.Int32, "kind": pl.Int32}
START = 1_767_225_600_000_000  # 2026-01-01


def events() -> pl.DataFrame:
    random = np.random.default_rng(7)
    times = START + np.arange(ROWS, dtype=np.int64) * 1_000
    return pl.DataFrame(
        {
            "user": random.integers(0, 5_000, ROWS).astype(np.int32),
            "item": random.integers(0, 300, ROWS).astype(np.int32),
            "amount": random.integers(-50, 1_000, ROWS),
            "at": pl.Series(times).cast(pl.Datetime("us", "UTC")),
        }
    )


def shop() -> Flow:
    """Stages one after the other: a window; a lookup, then a group of what it gives, then a top of the groups."""
    flow = Flow("shop")
    sold = flow.stream("events", EVENTS, time="at", key="user").where("amount >= 0")
    items = flow.table("items", ITEMS, key="item")
    flow.view("minutes", sold.window(tumbling("1 minute"), by="user").agg(n=count(), total=total("amount * 2")))
    kinds = sold.join(items, on="item").group("kind").agg(n=count(), total=total("amount"))
    flow.view("kinds", kinds)
    flow.view("best", kinds.top(2, by="total desc, kind"))
    return flow


@pytest.fixture(params=["shared", "inline"])
def exchange(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How rows travel: through files in shared memory, or inside Spark, as between machines."""
    if request.param == "inline":
        monkeypatch.setattr(query, "ExchangeDirectory", lambda *_: None)
    return str(request.param)


def test_an_epoch_whose_rows_are_removed_on_their_way_is_computed_again(river, monkeypatch):
    apply, removed = Committer.apply, []

    def removing(self, result):
        if not removed and os.listdir(result.exchange._directory):
            removed.append(result.control.epoch)
            shutil.rmtree(result.exchange._directory)
        apply(self, result)

    monkeypatch.setattr(Committer, "apply", removing)
    rows = events()
    flow = Flow("shop")
    flow.view("users", flow.stream("events", EVENTS, time="at", key="user").group("user").agg(n=count()))
    river.topic("events", EVENTS, key="user", time="at", fsync="os").append(rows)
    with river.run(flow) as run:
        run.process(timeout="2 minutes")
    assert removed
    assert sum(row["n"] for row in river.view("users").rows()) == ROWS


def test_rows_between_tasks_are_all_there_however_they_travel(exchange, river):
    rows, kinds = events(), pl.DataFrame({"item": range(300), "kind": [i % 7 for i in range(300)]}, ITEM_TYPES)
    river.topic("items", ITEMS, key="item", fsync="os").append(kinds)
    topic = river.topic("events", EVENTS, key="user", time="at", fsync="os")
    topic.append(rows[: ROWS // 2])
    with river.run(shop()) as run:
        run.process(timeout="2 minutes")
        topic.append(rows[ROWS // 2 :])
        run.process(timeout="2 minutes")
        assert (run.status()["exchange_bytes"] > ROWS) == (exchange == "shared")
        run.drain(timeout="2 minutes")
    sold = rows.filter(pl.col("amount") >= 0)
    minutes = sold.group_by("user", window_start=pl.col("at").dt.truncate("1m"), maintain_order=True).agg(
        n=pl.len().cast(pl.Int64), total=(pl.col("amount") * 2).sum()
    )
    found = pl.from_arrow(river.view("minutes").arrow()).select("user", "window_start", "n", "total")
    assert found.sort("user", "window_start").equals(minutes.sort("user", "window_start"))
    by_kind = sold.join(kinds, on="item").group_by("kind").agg(n=pl.len().cast(pl.Int64), total=pl.col("amount").sum())
    by_kind = by_kind.sort("kind")
    assert river.view("kinds").rows() == by_kind.to_dicts()
    best = by_kind.sort("total", "kind", descending=[True, False]).head(2)
    assert sorted(row["kind"] for row in river.view("best").rows()) == sorted(best["kind"])
