"""Numbers and times as people read them, the same wherever they are shown."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from riverrun import figures
from riverrun.serve.pages import quantities as pages


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0, "0"),
        (7, "7"),
        (0.04, "0.04"),
        (0.000_01, "0"),
        (999.4, "999"),
        (999.6, "1 k"),
        (12_400, "12.4 k"),
        (-3_000_000, "-3 M"),
        (123_456, "123 k"),
        (1e18, "1000 P"),
    ],
)
def test_counts(value: float, shown: str) -> None:
    assert figures.count(value) == shown
    assert f">{shown}<" in str(pages.number(value))


def test_sizes() -> None:
    for value, shown in ((512, "512 B"), (3_200_000, "3.2 MB")):
        assert figures.size(value) == shown
        assert f">{shown}<" in str(pages.size(value))


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0.2, "now"), (-0.2, "now"), (1.5, "1.5 s ago"), (192, "3 min 12 s ago"), (-61, "in 1 min 1 s")],
)
def test_how_long_ago(seconds: float, shown: str) -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    moment = now - timedelta(seconds=seconds)
    assert figures.ago(moment, now) == shown
    assert f">{shown}<" in str(pages.ago(moment, now))


def test_never() -> None:
    assert figures.ago(None) == "–"
    assert "unknown" in str(pages.ago(None))
