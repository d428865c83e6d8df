"""What flows and the log need of this machine: Python, packages, settings, Spark and its Java, a port."""

from __future__ import annotations

import platform
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib import metadata
from typing import Literal

from riverrun.doctor.check import Check
from riverrun.errors import RiverrunError, Unavailable, how_to_install
from riverrun.java import find_java
from riverrun.settings import Settings

_PYTHON = (3, 11)
_SPARK = "4.3"


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


def check_port(port: int) -> Check:
    """Nothing listens there yet."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            return Check("port", "warning", f"{port} is taken ({error.strerror})", "Stop what uses it")
    return Check("port", "ok", f"{port} is free")
