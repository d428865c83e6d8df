"""Whether this machine and this river are fit: one `Check` after the other, and a fix for each that fails.

Looking changes nothing: no river is made, no Spark is started (unless asked for).
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import platform
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from importlib import metadata
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from riverrun import durable
from riverrun.durations import to_micros, wall_clock
from riverrun.errors import RiverrunError, Unavailable, from_system, how_to_install
from riverrun.java import find_java
from riverrun.log.receive_clock import AHEAD, describe_lead
from riverrun.settings import Settings

if TYPE_CHECKING:
    from riverrun.river import River

PORT = 8400
_PYTHON = (3, 11)
_SPARK = "4.3"
_LITTLE_ROOM = 1 << 30
_NO_ROOM = 64 << 20
_REMOTE = ("nfs", "nfs4", "cifs", "smb3", "fuse.sshfs", "9p")


@dataclass(frozen=True)
class Check:
    """One thing that was looked at. Only `failed` makes the doctor unhappy; `fix` says what to do."""

    name: str
    status: Literal["ok", "warning", "failed"]
    found: str
    fix: str | None = None


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
    yield from check_directory(_nearest_directory(river))
    yield check_port(port)
    yield from check_river(river, places or {})


def check_python() -> Check:
    version = platform.python_version()
    if tuple(map(int, version.split(".")[:2])) < _PYTHON:
        fix = f"Riverrun needs Python {'.'.join(map(str, _PYTHON))} or newer"
        return Check("python", "failed", version, fix)
    return Check("python", "ok", f"{version} ({sys.executable})")


def check_packages() -> Iterator[Check]:
    """The packages that Riverrun itself needs; extras are not asked for."""
    there, absent = [], []
    for requirement in metadata.requires("riverrun") or ():
        name, _, marker = requirement.partition(";")
        if "extra ==" in marker or ("linux" in marker and sys.platform != "linux"):
            continue
        name = re.split(r"[<>=!~\[ ]", name.strip(), maxsplit=1)[0]
        try:
            there.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            absent.append(name)
    if absent:
        yield Check("packages", "failed", f"missing: {', '.join(absent)}", f"pip install {' '.join(absent)}")
    else:
        yield Check("packages", "ok", f"riverrun {metadata.version('riverrun')}, {', '.join(there)}")


def check_settings() -> Iterator[Check]:
    """The settings of the environment can be read, and none is misspelt."""
    try:
        Settings.load()
    except RiverrunError as error:
        yield Check("settings", "failed", error.message, error.hint or "Correct it")


def check_spark() -> Check:
    try:
        version = metadata.version("pyspark")
    except metadata.PackageNotFoundError:
        return Check("spark", "warning", "not installed; the log needs none", how_to_install("spark"))
    if not version.startswith(f"{_SPARK}."):
        return Check("spark", "failed", f"pyspark {version}", f"pip install 'pyspark>={_SPARK},<4.4'")
    return Check("spark", "ok", f"pyspark {version}")


def check_java() -> Iterator[Check]:
    """Which Java Spark would run on."""
    try:
        java = find_java()
    except Unavailable as error:
        # Without Spark nobody needs Java.
        status: Literal["warning", "failed"] = "failed" if check_spark().status == "ok" else "warning"
        yield Check("java", status, error.message, error.hint)
        return
    yield Check("java", "ok", f"{java.version} from {java.found_by} ({java.home})")
    for passed_over in java.passed_over:
        fix = "Correct or unset JAVA_HOME" if passed_over.startswith("JAVA_HOME") else None
        yield Check(
            "java", "warning", f"passed over: {passed_over}", fix or "Upgrade it, or leave it: another one is used"
        )


def check_spark_job() -> Check:
    """Run a small flow on Spark, in a process of its own. The first time, that makes later starts faster, too."""
    try:
        java = find_java()
    except Unavailable as error:
        return Check("spark job", "failed", error.message, error.hint)
    begun = time.monotonic()
    try:
        ran = subprocess.run(
            [sys.executable, "-m", "riverrun.spark.trial"], capture_output=True, text=True, timeout=600, check=False
        )
    except subprocess.TimeoutExpired:
        return Check("spark job", "failed", "no answer within 10 min", "Is the machine out of memory? Spark needs 3 GB")
    if ran.returncode:
        last = [line for line in ran.stderr.splitlines() if line.strip()][-1:] or ["no output"]
        fix = f"Try another Java ({java.home} was used)"
        if "ModuleNotFoundError" in last[0]:
            fix = f"Install it: {how_to_install('spark')}"
        return Check("spark job", "failed", last[0].strip()[:300], fix)
    return Check("spark job", "ok", f"a flow ran in {time.monotonic() - begun:.1f} s; {ran.stdout.strip()}")


def check_executors(places: Mapping[str, Any]) -> Iterator[Check]:
    """What executors of a cluster have, by asking them, in a process of its own."""
    master = places.get("master")
    if master and not master.startswith("local"):
        from riverrun.doctor_places import ask_executors

        yield from ask_executors(master, places.get("environment"))


def check_directory(place: str) -> Iterator[Check]:
    """Where the river is (or would be): room, and what the log asks of a file system."""
    free = shutil.disk_usage(place).free
    room = f"{free / 1e9:.1f} GB free in {place}"
    if free < _NO_ROOM:
        yield Check("disk", "failed", room, "Free some space, or put the river elsewhere: --river DIR")
    elif free < _LITTLE_ROOM:
        yield Check("disk", "warning", room, "Free some space soon; a full disk refuses appends")
    else:
        yield Check("disk", "ok", room)
    try:
        with tempfile.NamedTemporaryFile(dir=place, prefix=".riverrun-doctor-") as file:
            file.write(bytes(mmap.PAGESIZE))
            file.flush()
            begun = time.perf_counter()
            durable.sync(file.fileno())
            yield Check("writable", "ok", f"a durable write takes {(time.perf_counter() - begun) * 1e3:.1f} ms")
            yield check_locks(file.name, place)
            yield check_wake(file.name)
    except OSError as error:
        hint = "Make it writable for you, or give another directory: --river DIR"
        refused = from_system(error, f"{place} cannot be written", hint=hint)
        yield Check("writable", "failed", refused.message, refused.hint)


def check_locks(path: str, place: str) -> Check:
    """flock excludes, a shared map shows what others write, and the file system belongs to this machine."""
    kind = _file_system(place)
    fix = "Put the river on a local file system (ext4, xfs, apfs, tmpfs …): --river DIR"
    one, two = os.open(path, os.O_RDWR), os.open(path, os.O_RDWR)
    try:
        fcntl.flock(one, fcntl.LOCK_EX | fcntl.LOCK_NB)
        try:
            fcntl.flock(two, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return Check("file system", "failed", f"{kind}: flock does not exclude", fix)
        except BlockingIOError:
            pass
        with mmap.mmap(one, mmap.PAGESIZE) as first, mmap.mmap(two, mmap.PAGESIZE) as second:
            first[0] = 7
            if second[0] != 7:
                return Check("file system", "failed", f"{kind}: mapped files are not shared", fix)
    except OSError as error:
        return Check("file system", "failed", f"{kind}: {error.strerror}", fix)
    finally:
        os.close(one)
        os.close(two)
    if kind in _REMOTE:
        return Check("file system", "warning", f"{kind} is shared between machines; a river belongs to one", fix)
    return Check("file system", "ok", f"{kind}: flock and shared maps work")


def check_wake(path: str) -> Check:
    """Readers are woken by inotify; without it they look every 5 ms."""
    if sys.platform != "linux":
        return Check("wake-up", "ok", "no inotify on this system: readers look every 5 ms")
    try:
        from inotify_simple import INotify, flags

        with INotify() as inotify:
            inotify.add_watch(path, flags.MODIFY)
            with open(path, "r+b") as file:
                file.write(b"\1")
            if inotify.read(timeout=2000):
                watches = _limit("max_user_watches")
                return Check(
                    "wake-up", "ok", f"inotify works ({watches} watches, {_limit('max_user_instances')} readers)"
                )
        problem = "inotify says nothing about this file system"
        fix = "Put the river on a local file system; meanwhile readers look every 5 ms"
    except (ImportError, OSError) as error:
        problem = f"inotify cannot be used ({error})"
        fix = "Readers look every 5 ms instead"
        if getattr(error, "errno", None) in (errno.EMFILE, errno.ENOSPC):
            fix = "Raise the limit (sysctl fs.inotify.max_user_instances=512); meanwhile readers look every 5 ms"
    return Check("wake-up", "warning", problem, fix)


def check_port(port: int) -> Check:
    """Nothing listens there yet."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            return Check("port", "warning", f"{port} is taken ({error.strerror})", "Stop what uses it")
    return Check("port", "ok", f"{port} is free")


def check_river(path: str, places: Mapping[str, Any] = MappingProxyType({})) -> Iterator[Check]:
    """The river's format, every topic, every group."""
    if "log" not in places and not os.path.exists(f"{path}/river.json"):
        if os.path.isdir(path) and os.listdir(path):
            yield Check(
                "river", "failed", f"{path} has files, but is not a river", "Give the river's directory: --river DIR"
            )
        else:
            yield Check("river", "ok", f"none in {path} yet")
        return
    from riverrun.doctor_places import check_places
    from riverrun.river import River

    try:
        with River(path, **places) as river:
            names, where = river.topics(), f" on {river.log_address}" if river.log_address else ""
            yield Check("river", "ok", f"{river.path} with {len(names)} topics{where}")
            yield from check_privacy(river)
            yield from check_places(river)
            yield from check_flows(river)
            yield from check_stores(river)
            for name in names:
                yield check_topic(river, name)
            for group in river.groups.list():
                yield check_group(river, group["group"])
            for capture in river.captures():
                yield check_capture(capture)
    except RiverrunError as error:
        yield Check("river", "failed", error.message, error.hint or "Restore the river from a copy")


def check_privacy(river: River) -> Iterator[Check]:
    """Nobody else on this machine can read what is in it, or hold its locks."""
    views = [] if "//" in river.views_address else [os.path.abspath(river.views_address)]
    inside = f"{river.path}/"
    for path in [river.path, *(p for p in (os.path.abspath(river.checkpoints), *views) if not p.startswith(inside))]:
        found = durable.exposure(path) if os.path.exists(path) else None
        if found is not None:
            fix = f"Let it belong to who runs the flows, and to nobody else: chmod go= {shlex.quote(path)}"
            yield Check("privacy", "warning", f"{path}: {found}", fix)


def check_flows(river: River) -> Iterator[Check]:
    """What every flow has left: its checkpoint can be read, and belongs to its views."""
    from riverrun.doctor_flows import flow_states

    if "//" not in river.views_address and not os.path.exists(river.views_address):
        return
    try:
        for flow, state in flow_states(river):
            if isinstance(state, RiverrunError):
                yield Check(f"flow {flow}", "failed", state.message, state.hint or "Rebuild it")
            else:
                yield Check(f"flow {flow}", "ok", state)
    except RiverrunError:  # which has been said of the views
        return


def check_stores(river: River) -> Iterator[Check]:
    """Other stores that views are in: each answers."""
    from riverrun.doctor_flows import ask_stores

    for place, error in ask_stores(river):
        if error is None:
            yield Check("stores", "ok", f"{place} answers")
        else:
            fix = error.hint or "Start it, or correct the address in the flow; epochs wait for it meanwhile"
            yield Check("stores", "failed", error.message, fix)


def check_topic(river: River, name: str) -> Check:
    """It opens (which checks its tail) and accepts writes."""
    title = f"topic {name}"
    try:
        with river.briefly(name) as topic:
            described = topic.describe()
            failed = topic.backend.has_failed
    except RiverrunError as error:
        return Check(title, "failed", error.message, error.hint or f"Try: riverrun topic repair {name}")
    if failed:
        fix = f"Check the disk, then run: riverrun topic repair {name}"
        return Check(title, "failed", "accepts no writes: an fsync failed", fix)
    received, now = described["received"], wall_clock()
    if received and (last := to_micros(datetime.fromisoformat(received))) > now + AHEAD:
        fix = "Set the clock right. If it is, wait until then, or copy the rows into a new topic"
        return Check(title, "warning", describe_lead(last, now), fix)
    size = "" if described["bytes"] is None else f", {described['bytes'] / 1e6:.1f} MB"  # Kafka does not tell
    return Check(title, "ok", f"{described['offsets']} offsets{size}")


def check_capture(told: dict[str, Any]) -> Check:
    """It captures what it should, or was stopped in order."""
    name, state, fix = f"capture {told['name']}", told["state"], "riverrun capture … goes on where it stopped"
    if state in ("failed", "gone"):
        return Check(name, "failed", f"{state}: {told['reason']}", fix)
    stopped = {table: one["reason"] for table, one in told.get("tables", {}).items() if one["state"] == "stopped"}
    if stopped:
        return Check(
            name, "warning", "; ".join(f"{table}: {why}" for table, why in stopped.items()), "As the reason says"
        )
    return Check(name, "ok", f"{state} at {told.get('position')}")


def check_group(river: River, name: str) -> Check:
    """What it will read next is still there."""
    try:
        lag = river.lag(name)
    except RiverrunError as error:
        return Check(f"group {name}", "failed", error.message, error.hint or f"riverrun group lag {name} says more")
    for topic, part in lag["topics"].items():
        lost = sum(one["lost"] for one in part["partitions"].values())
        if lost:
            fix = f"Keep rows longer, and let it go on: riverrun group reset {name} {topic} --to earliest"
            return Check(f"group {name}", "failed", f"{lost} rows of {topic} were removed before it read them", fix)
    return Check(f"group {name}", "ok", f"{lag['rows']} rows, {lag['seconds']:.0f} s behind")


def _nearest_directory(path: str) -> str:
    path = os.path.abspath(path)
    while not os.path.isdir(path):
        path = os.path.dirname(path)
    return path


def _file_system(place: str) -> str:
    try:
        with open("/proc/self/mounts", encoding="utf-8", errors="replace") as file:
            mounts = [line.split()[1:3] for line in file]
    except OSError:
        return "file system"
    real = os.path.realpath(place)
    inside = [(len(at), kind) for at, kind in mounts if real == at or real.startswith(at.rstrip("/") + "/")]
    return max(inside)[1] if inside else "file system"


def _limit(name: str) -> str:
    try:
        with open(f"/proc/sys/fs/inotify/{name}", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return "?"
