"""The check at the end of the demo must be able to fail."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from riverrun.demo.shop.balance import check_balance
from riverrun.demo.shop.events import KINDS, SECOND, Shop
from riverrun.demo.shop.shop_flow import TOPICS
from riverrun.river import River
from riverrun.views import Epoch, ViewSpec

NOTHING = {"accepted": 0, "late_dropped": 0, "late_aside": 0, "duplicates": 0, "quarantined": 0}


def committed(path: Path, more: int = 0, unaccounted: int = 0, unsent: int = 0) -> list[bool]:
    """Which claims hold after one epoch, in which the view counts `more` orders than there were, …"""
    with River(path) as river:
        for spec in TOPICS:
            river.topic(spec)
        rows = Shop(1_790_000_000 * SECOND).until(1_790_000_002 * SECOND)
        for name, table in rows.items():
            river.topic(name).append(table)
        counts = {kind: rows[topic].num_rows for topic, kind in KINDS.items()}
        counts["order"] += more
        river.store.declare(ViewSpec("events", "shop", "kind string, events bigint", ("kind",), topics=tuple(KINDS)))
        fence = river.store.take_fence("shop")
        changes = pa.table({"kind": list(counts), "events": list(counts.values()), "_weight": [1] * len(counts)})
        read = sum(counts.values())
        ledger = [{"node": "group-1", "input": "in", "read": read, **NOTHING, "accepted": read - unaccounted}]
        positions = {topic: river.topic(topic).ends() for topic in KINDS}
        river.store.commit(Epoch("shop", fence, 1, positions, {"events": changes}, ledger=ledger))
        sent = {name: table.num_rows for name, table in rows.items()}
        sent["clicks"] += unsent
        return [claim.held for claim in check_balance(river, "shop", sent)]


def test_all_is_well(tmp_path: Path) -> None:
    assert committed(tmp_path) == [True, True, True, True]


@pytest.mark.parametrize("more", [-1, 1])
def test_an_event_lost_or_doubled(tmp_path: Path, more: int) -> None:
    assert committed(tmp_path, more=more) == [True, False, True, True]


def test_a_row_unaccounted_for(tmp_path: Path) -> None:
    assert committed(tmp_path, unaccounted=1) == [True, True, False, True]


def test_an_acknowledged_row_that_is_not_in_the_log(tmp_path: Path) -> None:
    assert committed(tmp_path, unsent=1) == [False, True, True, True]
