"""One Spark session per process, set up for one machine; every setting can be overridden for a cluster."""

from __future__ import annotations

import os
import sys
import tempfile
import threading
from typing import Any

from pyspark.sql import SparkSession

_CHECKPOINTS = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
_starting = threading.Lock()


def session(master: str | None = None, options: dict[str, str] | None = None) -> SparkSession:
    """The session of this process, started when first asked for."""
    with _starting:
        active = SparkSession.getActiveSession()
        if active is not None:
            return active
        # Workers import the packages of this environment, and kernels compute in one thread each.
        os.environ["PYSPARK_PYTHON"] = sys.executable
        os.environ.setdefault("POLARS_MAX_THREADS", "1")
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        builder: Any = SparkSession.builder.appName("riverrun").master(master or f"local[{cores()}]")
        for name, value in {**_defaults(), **(options or {})}.items():
            builder = builder.config(name, value)
        spark: SparkSession = builder.getOrCreate()
        spark.sparkContext.setLogLevel("OFF")
        return spark


def cores() -> int:
    """Processors this process may use."""
    return len(os.sched_getaffinity(0))


def _defaults() -> dict[str, str]:
    java = "-XX:+UseParallelGC -XX:TieredStopAtLevel=4 -Dio.netty.tryReflectionSetAccessible=true"
    return {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "2g",
        "spark.driver.extraJavaOptions": java,
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.shuffle.partitions": str(cores()),
        "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
        "spark.sql.streaming.checkpointFileManagerClass": _CHECKPOINTS,
        "spark.sql.streaming.minBatchesToRetain": "4",
        "spark.sql.warehouse.dir": os.path.join(tempfile.gettempdir(), "riverrun-warehouse"),
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.sql.execution.pyspark.udf.faulthandler.enabled": "true",
        "spark.log.level": "OFF",
    }
