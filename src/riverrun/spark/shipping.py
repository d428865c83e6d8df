"""How executors of a cluster get the Python environment that `riverrun pack` made: Spark carries the archive, unpacks it in
the directory that an executor works in, and runs its Python by a path relative to that.

Spark runs the same path on the driver, for the planner. So the driver's JVM works in a directory where it leads to the
driver's own Python.
"""

from __future__ import annotations

import os
import shlex
import sys

from riverrun import durable
from riverrun.environment_archive import PYTHON
from riverrun.errors import NotFound
from riverrun.spark.private_directory import private_directory

_NAME = "riverrun-environment"
EXECUTOR_PYTHON = f"./{_NAME}/{PYTHON}"


def archive_options(archive: str) -> dict[str, str]:
    """Options of Spark with which executors get an archive: a file here, or an address that Spark can read."""
    if "://" not in archive:
        archive = os.path.abspath(archive)
        if not os.path.isfile(archive):
            raise NotFound(f"there is no archive {archive}", hint=f"Make it: riverrun pack {shlex.quote(archive)}")
    return {"spark.archives": f"{archive}#{_NAME}"}


def driver_directory() -> str:
    """A directory in which `EXECUTOR_PYTHON` is this Python."""
    place = f"{private_directory()}/driver"
    program = os.path.join(place, EXECUTOR_PYTHON)
    durable.make_directory(os.path.dirname(os.path.normpath(program)))
    durable.write_file(program, f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n')
    os.chmod(program, 0o700)
    return place
