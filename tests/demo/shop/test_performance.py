"""What a demo says at its end."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from riverrun.demo.shop import performance
from riverrun.demo.shop.performance import Performance
from riverrun.river import River
from riverrun.runtime.status import FlowStatus, Lag


def test_rows_that_are_left_at_the_end_are_said_to_be_left_and_no_next_run_is_promised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody presses Ctrl-C while rows wait. The river may go with the demo: there is no next run."""
    monkeypatch.setattr(performance, "_HURRY", 0.0)
    said: list[str] = []
    with River(tmp_path / "river") as river:
        keys: Any = SimpleNamespace()
        demo = Performance(river, SimpleNamespace(say=lambda text, style="": said.append(text)), keys, begun=0.0)  # type: ignore[arg-type]
        demo._stopped = True
        demo._sending = SimpleNamespace(end=lambda: {"orders": 500})  # type: ignore[assignment]
        demo._processing = SimpleNamespace(  # type: ignore[assignment]
            is_running=True, observe=lambda: FlowStatus(flow="shop", lag=Lag(238)), end=lambda patience: None
        )
        demo._finish()
    assert said == [
        "500 rows were sent; the processing has 0 s for the last ones",
        "238 rows are in the log, and were not processed any more",
    ]
