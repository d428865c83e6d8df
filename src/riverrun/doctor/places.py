"""Whether the parts of a river that may be elsewhere are reached: log, views, checkpoints, Spark's master and its executors.
For each, what it promises."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from riverrun.doctor.check import Check
from riverrun.doctor.views import check_views
from riverrun.errors import RiverrunError

if TYPE_CHECKING:
    from riverrun.river import River

_PATIENCE = 300  # seconds until executors that do not come are given up
_DIAL = 5


def check_places(river: River) -> Iterator[Check]:
    """Every part, as far as it can be reached without starting Spark."""
    yield check_log(river)
    yield from check_views(river)
    yield check_checkpoints(river)
    if river.master is not None and not river.master.startswith("local"):
        yield check_master(river.master)
        if river.log_address is None:
            fix = 'Or put the log on Kafka: log = "kafka://HOST:9092"'
            yield Check("log", "warning", f"every machine of {river.master} must see {river.path}", fix)


def check_log(river: River) -> Check:
    """It was reached, or there would be no river."""
    if river.log_address is None:
        return Check("log", "ok", "in the river: appends are whole and durable, for processes of this machine")
    return Check("log", "ok", f"{river.log_address} answers: appends are transactions, for every machine")


def check_checkpoints(river: River) -> Check:
    """A bucket is written to, read and cleaned up; of a directory it is said who has to see it."""
    if river.bucket is None:
        found = f"{river.checkpoints}: state is as durable as this disk"
        if river.master is not None and not river.master.startswith("local"):
            fix = 'If not all do: checkpoints = "s3://BUCKET/PREFIX"'
            return Check("checkpoints", "warning", f"every machine must see {river.checkpoints}", fix)
        return Check("checkpoints", "ok", found)
    from riverrun.object_folder import ObjectFolder

    begun = time.perf_counter()
    try:
        ObjectFolder(river.bucket).check()
    except RiverrunError as error:
        return Check("checkpoints", "failed", error.message, error.hint or "Start it, or correct AWS_ENDPOINT_URL")
    taken = (time.perf_counter() - begun) * 1e3
    found = f"{river.bucket} was written, read and cleaned up in {taken:.0f} ms: a driver on another disk goes on"
    return Check("checkpoints", "ok", found)


def check_master(master: str) -> Check:
    """Somebody listens at a standalone master's port; of others only Spark knows."""
    if not master.startswith("spark://"):
        return Check("master", "ok", f"{master}: riverrun doctor --spark asks its executors")
    for address in master.removeprefix("spark://").split(","):
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host, int(port)), _DIAL).close()
        except (OSError, ValueError) as error:
            return Check("master", "failed", f"spark://{address}: {error}", "Start it, or correct RIVERRUN_MASTER")
    return Check("master", "ok", f"{master} answers: riverrun doctor --spark asks its executors")


def check_executors(places: Mapping[str, Any]) -> Iterator[Check]:
    """What executors of a cluster have, by asking them, in a process of its own."""
    master = places.get("master")
    if master and not master.startswith("local"):
        yield from ask_executors(master, places.get("environment"))


def ask_executors(master: str, environment: str | None) -> Iterator[Check]:
    """Which Python and which packages executors have, and what is missing there."""
    command = [sys.executable, "-m", "riverrun.spark.executors", master, *([environment] if environment else [])]
    try:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE, check=False)
    except subprocess.TimeoutExpired:
        fix = "Are there workers with free cores and memory? Spark's master says so"
        yield Check("executors", "failed", f"no executor of {master} came within {_PATIENCE} s", fix)
        return
    if ran.returncode:
        last = [line for line in ran.stderr.splitlines() if line.strip()][-1:] or ["no output"]
        fix = 'Executors need the Python of the driver: riverrun pack, then environment = "environment.tar.gz"'
        yield Check("executors", "failed", last[0].strip()[:300], fix)
        return
    told = json.loads(ran.stdout)
    for one in told["executors"]:
        missing = {name: version for name, version in told["packages"].items() if one["packages"].get(name) != version}
        who = f"{one['host']}: Python {one['python']}"
        if not missing:
            yield Check("executors", "ok", f"{who} with the driver's packages")
            continue
        named = [
            f"{name} {version} (there: {one['packages'].get(name) or 'none'})" for name, version in missing.items()
        ]
        fix = 'riverrun pack makes an archive of the driver\'s: environment = "environment.tar.gz"'
        yield Check("executors", "failed", f"{who} lacks {', '.join(named)}", fix)
