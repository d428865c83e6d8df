"""Spark tests share one session: it takes longer to start than most tests to run."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import pytest

from riverrun.river import River


@pytest.fixture(scope="session")
def spark_session() -> Iterator[object]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from riverrun.spark.session import session

        spark = session()
    yield spark
    spark.stop()


@pytest.fixture
def river(tmp_path, spark_session) -> Iterator[River]:
    with River(tmp_path / "river") as river:
        yield river
