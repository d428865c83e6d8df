"""Real processes that capture a real database, killed at every step, while two other processes write to it."""

from __future__ import annotations

from typing import Any

import pytest

from captured_ledger import CapturedLedger

# Where a capture begins to be safe: its slot or triggers are there, or a place in the log is noted.
BEGINNINGS = {
    "postgresql": ("capture.slot", "capture.slotted"),
    "mariadb": ("capture.placed",),
    "sqlite": ("capture.slot", "capture.slotted"),
}
PLACES = (
    "capture.progress",
    "capture.noted",
    "capture.fenced",
    "capture.append",
    "capture.appended",
    "capture.record",
    "capture.recorded",
    "capture.chunk",
    "capture.chunked",
    "capture.finished",
    "capture.confirm",
)
FEW = ("capture.chunked:2", "capture.append", "capture.appended:2", "capture.confirm")


@pytest.fixture
def loaded(any_shop: Any) -> CapturedLedger:
    return CapturedLedger(any_shop)


@pytest.mark.parametrize("any_shop", BEGINNINGS, indirect=True)
def test_killed_at_some_steps(loaded):
    places = (BEGINNINGS[loaded.shop.dialect][-1], *FEW)
    assert [place for place in places if not loaded.killed_at(place)] == []
    loaded.complete()
    loaded.check()


@pytest.mark.recovery
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("any_shop", "place"),
    [(dialect, place) for dialect, own in BEGINNINGS.items() for place in (*own, *PLACES)],
    indirect=["any_shop"],
)
def test_killed_at_every_passage(loaded, place):
    killed = []
    for passage in range(1, 8):
        killed.append(loaded.killed_at(f"{place}:{passage}"))
        if not killed[-1] and passage > 3:
            break
    assert any(killed), f"never came to {place}"
    loaded.complete()
    loaded.check()
