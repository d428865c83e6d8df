"""Whether the parts of a river that may be elsewhere are reached: log, views, checkpoints, Spark's master and its executors.
For each, what it promises."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from riverrun.doctor import Check
from riverrun.errors import NotFound, RiverrunError

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


def check_views(river: River) -> Iterator[Check]:
    """The store of views. A file is whole and of the format that is known; a server answers, and its logins may do no more
    than they need."""
    if "//" not in river.views_address:
        if os.path.exists(river.views_address):
            from riverrun.doctor_flows import store_trouble

            trouble = store_trouble(river)
            found = f"{river.views_address}: an epoch is one transaction, for processes of this machine"
            yield Check("views", "failed", *trouble) if trouble else Check("views", "ok", found)
        return
    from riverrun.views import open_store

    try:
        with open_store(river.views_address, create=False, read=river.views_read) as store:
            concerns = store.concerns()
    except NotFound as error:
        yield Check("views", "ok", error.message)
    except RiverrunError as error:
        yield Check("views", "failed", error.message, error.hint or "Correct RIVERRUN_VIEWS")
    else:
        yield Check("views", "ok", "the view store answers: an epoch is one transaction, for every machine")
        yield from (Check("views", "warning", found, fix) for found, fix in concerns)


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
