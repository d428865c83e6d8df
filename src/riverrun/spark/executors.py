"""What the executors of a cluster have: `python -m riverrun.spark.executors MASTER [ARCHIVE]` asks them, for the doctor.

The question needs nothing but Python and Spark there, so it is answered by executors that lack everything else.
"""

from __future__ import annotations

import json
import sys
from importlib import metadata
from typing import Any

from pyspark import cloudpickle

from riverrun.environment_archive import needed_distributions
from riverrun.errors import RiverrunError
from riverrun.settings import Settings
from riverrun.spark.failures import cause
from riverrun.spark.session import executor_cores, session

_ROUNDS = 4  # tasks for each processor, so that every executor gets one


def ask(master: str, environment: str | None) -> dict[str, Any]:
    """Packages that tasks need, as the driver has them, and the executors with theirs."""
    needed = {one.name: one.version for one in needed_distributions(["riverrun"])}
    options = {"spark.python.daemon.module": "pyspark.daemon"}  # ours is one of the packages
    spark = session(master, Settings.load(), options, environment=environment)
    try:
        tasks = _ROUNDS * executor_cores(spark)
        names = sorted(needed)
        cloudpickle.register_pickle_by_value(sys.modules[__name__])
        answers = spark.sparkContext.parallelize(range(tasks), tasks).map(lambda _: describe(names)).collect()
    finally:
        spark.stop()
    return {"packages": needed, "executors": list({one["process"]: one for one in answers}.values())}


def describe(names: list[str]) -> dict[str, Any]:
    """What is installed where this runs."""
    import os
    import platform
    import socket
    import time

    time.sleep(0.2)  # so that one executor does not answer for all
    versions: dict[str, str | None] = {}
    for name in names:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = None
    host = socket.gethostname()
    return {
        "host": host,
        "process": f"{host} {os.getppid()}",
        "python": platform.python_version(),
        "packages": versions,
    }


def main() -> None:
    """Print it as JSON; a failure is one line."""
    master, environment = sys.argv[1], (sys.argv[2] if len(sys.argv) > 2 else None)
    try:
        sys.stdout.write(json.dumps(ask(master, environment)) + "\n")
    except RiverrunError as error:
        sys.exit(str(error))
    except Exception as error:  # of Spark: its text is long
        sys.exit(cause(error))


if __name__ == "__main__":
    main()
