"""A small flow, run once: to see whether Spark works here, and to have seen what a flow makes Spark load.

`python -m riverrun.spark.trial` runs it, and makes the archive of classes if there is none.
"""

from __future__ import annotations

import os
import sys
import tempfile
from datetime import UTC, datetime, timedelta
from typing import Any

from riverrun.flow import Flow
from riverrun.flow.aggregates import count
from riverrun.flow.aggregates import sum as total
from riverrun.flow.windows import tumbling
from riverrun.river import River
from riverrun.settings import PLACES

_SCHEMA = "user string, amount double, at timestamp"
_BASE = datetime(2026, 1, 1, tzinfo=UTC)


def run_small_flow() -> int:
    """How many orders the views of a shop have seen; 200 if all is well. In a process of its own, on this machine: it leaves
    alone what the environment says of where logs, views and executors are, which would not see its files."""
    for place in PLACES:
        os.environ.pop(f"RIVERRUN_{place.upper()}", None)
    with tempfile.TemporaryDirectory(prefix="riverrun-trial-") as directory, River(directory) as river:
        orders = river.topic("orders", _SCHEMA, key="user", time="at", fsync="os")
        orders.append(_orders(0))
        with river.run(_shop()) as run:
            run.process(timeout="3 minutes")
            orders.append(_orders(100))
            run.drain(timeout="3 minutes")
        return sum(row["n"] for row in river.view("minutes").rows())


def _shop() -> Flow:
    flow = Flow("shop")
    orders = flow.stream("orders", _SCHEMA, key="user", time="at", lateness="10 seconds")
    windows = orders.where("amount >= 0").window(tumbling("1 minute"), by="user")
    flow.view("minutes", windows.agg(n=count(), total=total("amount * 2")))
    flow.view("large", orders.where("amount > 8"))
    # The loops behind patterns are compiled once, and kept on disk.
    flow.view("rising", orders.match("low high", by="user", define={"high": "amount > low.amount"}, within="1 minute"))
    return flow


def _orders(start: int) -> list[dict[str, Any]]:
    return [
        {"user": f"u{i % 3}", "amount": float(i % 10), "at": _BASE + timedelta(seconds=i)}
        for i in range(start, start + 100)
    ]


def main() -> str:
    """Run it, and say how Spark will start the next time."""
    from riverrun.java import find_java
    from riverrun.spark import archive
    from riverrun.spark.session import spark_home

    path = archive.location(find_java(), spark_home())
    try:
        if not os.path.exists(path):
            archive.make()
            return f"later starts will be faster ({path}, {os.path.getsize(path) >> 20} MB)"
    except OSError as error:
        return f"no archive of classes ({path}: {error.strerror})"
    assert run_small_flow() == 200
    return f"started with {path}"


if __name__ == "__main__":
    sys.stdout.write(main() + "\n")
