"""The Spark session that flows and Spark's own queries share."""

from __future__ import annotations

import os
from pathlib import Path

from pyspark import SparkContext
from pyspark.sql import SparkSession

from riverrun.spark.session import session

_PATIENCE = 60  # seconds
_OPTIONS = {
    # room for the state that Spark's own aggregation keeps in memory
    "spark.driver.memory": "6g",
    # its windows would take a second, empty epoch after each
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.streaming.numRecentProgressUpdates": "10000",
}


_computing: bool | None = None  # whether the session that was started here computes; None: there is none


def start(computes: bool = True) -> SparkSession:
    """Riverrun's own session, with these options; workers find this package. `computes`: for Spark's own queries.

    One of the other kind that was started here is ended first, with its JVM.
    """
    global _computing
    root = str(Path(__file__).parents[2])
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if root not in paths:
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [root, *paths]))
    if _computing is (not computes):
        _end(session())
    is_new = SparkContext._active_spark_context is None
    spark = session(options=_OPTIONS, computes=computes)
    if is_new:
        _computing = computes
    return spark


def _end(spark: SparkSession) -> None:
    process = spark.sparkContext._gateway.proc
    spark.stop()
    process.stdin.close()
    process.wait(_PATIENCE)
