"""A server that speaks S3, of the tests' own: moto, on a free port of this machine, stopped at exit. What it holds is in its
memory, so being away is played by a door before it, which is a process, too: some calls of
Delta keep Python's lock while they wait."""

from __future__ import annotations

import atexit
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from functools import cache
from pathlib import Path

import pytest

# An environment of its own: moto wants older versions of what Riverrun uses.
PROGRAM = Path(__file__).parent.parent / ".venv-s3" / "bin" / "moto_server"
DOOR = Path(__file__).parent / "programs" / "door.py"


class S3Server:
    """One server with one bucket. `bucket` is its address; clients find the server by the environment."""

    def __init__(self, program: str) -> None:
        self.bucket = "s3://lakes"
        self._port, self._behind = _free_port(), _free_port()
        self._moto = _started(program, "-H", "127.0.0.1", "-p", str(self._behind))
        self.start()
        os.environ.update(
            AWS_ENDPOINT_URL=f"http://127.0.0.1:{self._port}",
            AWS_ALLOW_HTTP="true",
            AWS_ACCESS_KEY_ID="tests",
            AWS_SECRET_ACCESS_KEY="tests",
            AWS_REGION="us-east-1",
        )

    def start(self) -> None:
        """Open the door, and wait until the bucket is there."""
        self._door = _started(sys.executable, str(DOOR), str(self._port), str(self._behind))
        end = time.monotonic() + 60
        while True:
            try:
                request = urllib.request.Request(f"http://127.0.0.1:{self._port}/lakes", method="PUT")
                with urllib.request.urlopen(request, timeout=30):
                    return
            except (urllib.error.URLError, ConnectionError):
                assert self._moto.poll() is None, "moto has ended"
                if time.monotonic() > end:
                    raise
                time.sleep(0.05)

    def stop(self) -> None:
        """Shut it, also for whoever is inside."""
        self._door.kill()
        self._door.wait()

    def remove(self) -> None:
        self.stop()
        self._moto.kill()
        self._moto.wait()


def _started(*command: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@cache
def shared_s3() -> S3Server:
    """The one server of a test run; a test that misses the program is left out, and says so."""
    program = str(PROGRAM) if PROGRAM.exists() else shutil.which("moto_server")
    if program is None:
        pytest.skip("moto_server is not installed: make servers")
    server = S3Server(program)
    atexit.register(server.remove)
    return server
