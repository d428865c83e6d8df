"""What is refused before anything is opened."""

from __future__ import annotations

from pathlib import Path

import pytest

from riverrun.errors import Invalid, Unavailable
from riverrun.flow import Flow
from riverrun.river import River
from riverrun.runtime.opening import open_inputs


def test_a_flow_without_results_or_with_a_store_of_another_kind(tmp_path: Path) -> None:
    with River(tmp_path / "river") as river:
        flow = Flow("shop")
        orders = flow.stream("orders", "user string")
        with pytest.raises(Invalid, match=r"flow shop has no results. Add a flow.view\(…\)"):
            open_inputs(river, flow)
        flow.view("cached", orders, to="redis://host/0")
        with pytest.raises(
            Unavailable, match=r"test_opening.py:\d+: view 'cached': to='redis://host/0' cannot be used"
        ):
            open_inputs(river, flow)
        assert river.topics() == []
