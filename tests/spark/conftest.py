"""A river whose flows run in the session that all tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from riverrun.river import River


@pytest.fixture
def river(tmp_path, spark_session) -> Iterator[River]:
    with River(tmp_path / "river") as river:
        yield river
