"""Servers that benchmarks start: the ones of the tests, which find each other by their directory."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

_TESTS = str(Path(__file__).parents[1] / "tests")


def broker_missing() -> str | None:
    """Why there can be no Kafka broker; its jars are fetched if they are not there yet."""
    _find_tests()
    import kafka_jars

    if find_spec("confluent_kafka") is None:
        return "the Kafka client is not installed"
    return kafka_jars.fetch()


@contextmanager
def kafka_broker() -> Iterator[Any]:
    """A broker of its own, one process."""
    _find_tests()
    from kafka_server import new_kafka

    server = new_kafka()
    try:
        yield server
    finally:
        server.remove()


def postgres() -> Any:
    """A PostgreSQL of its own; whoever starts it removes it."""
    _find_tests()
    from postgres_server import logical_server

    return logical_server()


def spark_cluster(**options: Any) -> Any:
    """A master and two workers; whoever starts them stops them."""
    _find_tests()
    from spark_cluster import SparkCluster

    return SparkCluster(**options)


def _find_tests() -> None:
    if _TESTS not in sys.path:
        sys.path.append(_TESTS)
