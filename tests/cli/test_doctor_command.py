"""`riverrun doctor`: exit code 0 when well, 1 when not."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def test_well(orders: Any) -> None:
    result = orders("doctor", "--json")
    assert (result.code, result.json["ok"]) == (0, True)
    shown = orders("doctor").out
    assert "✓ topic orders" in shown
    assert "checks passed" in shown


def test_not_well(orders: Any, tmp_path: Path) -> None:
    (tmp_path / "river" / "river.json").write_text('{"format": 99}')
    result = orders("doctor", "--json")
    assert (result.code, result.json["ok"]) == (1, False)
    shown = orders("doctor").out
    assert "✗ river" in shown
    assert "→ Upgrade Riverrun" in shown
    assert "1 of" in shown
