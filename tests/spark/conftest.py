"""A river whose flows run in the session that all tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from riverrun.river import River


@pytest.fixture(params=["arrow", "spark"])
def expressions(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The test runs twice: expressions are computed by tasks where they can be, and all of them by Spark."""
    monkeypatch.setenv("RIVERRUN_EXPRESSIONS", request.param)
    return str(request.param)


@pytest.fixture
def river(tmp_path, spark_session) -> Iterator[River]:
    with River(tmp_path / "river") as river:
        yield river
