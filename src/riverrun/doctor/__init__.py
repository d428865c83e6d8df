"""Whether this machine and this river are fit: one `Check` after the other, and a fix for each that fails.

Looking changes nothing: no river is made, no Spark is started (unless asked for). Read `machine`, `file_system`, `river`,
`places`, `views`; `flows` is what needs more than the log to look at.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from riverrun.doctor.check import Check
from riverrun.doctor.file_system import check_directory, nearest_directory
from riverrun.doctor.machine import (
    check_java,
    check_packages,
    check_port,
    check_python,
    check_settings,
    check_spark,
    check_spark_job,
)
from riverrun.doctor.places import check_executors
from riverrun.doctor.river import check_river, check_topic
from riverrun.doctor.views import check_stores

__all__ = ["PORT", "Check", "check_stores", "check_topic", "examine"]

PORT = 8400


def examine(
    river: str, spark: bool = False, port: int = PORT, places: Mapping[str, Any] | None = None
) -> Iterator[Check]:
    """Every check, in the order in which they build on each other. `places` are those of `River`, but for its directory."""
    yield check_python()
    yield from check_packages()
    yield from check_settings()
    yield check_spark()
    yield from check_java()
    if spark:
        yield check_spark_job()
        yield from check_executors(places or {})
    yield from check_directory(nearest_directory(river))
    yield check_port(port)
    yield from check_river(river, places or {})
