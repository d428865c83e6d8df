"""A real MariaDB server of the tests' own: in a temporary directory, on a free port of loopback, stopped when it is removed."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import pymysql

_PROGRAMS = f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin"
BINLOG = (
    "--log-bin=bin",
    "--binlog-format=ROW",
    "--binlog-row-image=FULL",
    "--binlog-row-metadata=FULL",
    "--server-id=7",
)


def program(name: str) -> str | None:
    """Where a program of MariaDB is; None: it is not installed."""
    return shutil.which(name, path=_PROGRAMS)


class MariaServer:
    """Starts and stops one server; `url` connects as its superuser, who needs no password."""

    def __init__(self, *settings: str) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="rr-maria-"))
        self._settings = settings or BINLOG
        # MariaDB does not run as root.
        self._as: dict[str, Any] = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}
        if self._as:
            os.chown(self.directory, 65534, 65534)
        # A server that starts removes the temporary tables it finds: also those of one that starts beside it.
        self._temporary = f"--tmpdir={self.directory}"
        self._process: subprocess.Popen[bytes] | None = None
        self.port = _free_port()
        install = [str(program("mariadb-install-db")), "--no-defaults", f"--datadir={self.directory}/data"]
        done = subprocess.run(
            [*install, self._temporary, "--auth-root-authentication-method=normal", "--skip-test-db"],
            cwd=self.directory,
            capture_output=True,
            check=False,
            **self._as,
        )
        if done.returncode:
            raise RuntimeError(f"mariadb-install-db: {done.stderr.decode()}{done.stdout.decode()}")
        self.start()

    @property
    def url(self) -> str:
        return f"mariadb://root@127.0.0.1:{self.port}"

    def connect(self, **options: Any) -> Any:
        settings = {"host": "127.0.0.1", "port": self.port, "user": "root", "charset": "utf8mb4", **options}
        return pymysql.connect(autocommit=True, **settings)

    def start(self) -> None:
        files = {"datadir": "data", "socket": "socket", "pid-file": "pid"}
        with open(self.directory / "log", "ab") as log:
            self._process = subprocess.Popen(
                [
                    str(program("mariadbd")),
                    "--no-defaults",
                    *(f"--{name}={self.directory}/{file}" for name, file in files.items()),
                    self._temporary,
                    "--bind-address=127.0.0.1",
                    f"--port={self.port}",
                    # With 0 a killed server loses transactions that its binary log has: then its tables, not ours, are
                    # wrong. A restart test failed so 8 times of 8; without the stream's wait for an answer it passed.
                    "--innodb-flush-log-at-trx-commit=2",
                    "--innodb-buffer-pool-size=64M",
                    *self._settings,
                ],
                cwd=self.directory,
                stdout=log,
                stderr=log,
                **self._as,
            )
        deadline = time.monotonic() + 60
        while True:
            try:
                self.connect().close()
                return
            except pymysql.Error:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError((self.directory / "log").read_text()) from None
                time.sleep(0.05)

    def stop(self, how: int = signal.SIGTERM) -> None:
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(60)
            self._process = None

    def crash(self) -> None:
        self.stop(signal.SIGKILL)

    def remove(self) -> None:
        self.crash()
        shutil.rmtree(self.directory, ignore_errors=True)


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])
