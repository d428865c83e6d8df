"""The Spark session that flows and Spark's own queries share."""

from __future__ import annotations

import os
from pathlib import Path

from pyspark.sql import SparkSession

from riverrun.spark.session import session

_OPTIONS = {
    # room for the state that Spark's own aggregation keeps in memory
    "spark.driver.memory": "6g",
    # its windows would take a second, empty epoch after each
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.streaming.numRecentProgressUpdates": "10000",
}


def start() -> SparkSession:
    """Riverrun's own session, with these options; workers find this package."""
    root = str(Path(__file__).parents[2])
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if root not in paths:
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [root, *paths]))
    return session(options=_OPTIONS)
