"""The two processes of the demo, seen from the one that people look at: started, killed, started again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from typing import IO, Any

from riverrun.cli.shop.family import await_end, family
from riverrun.cli.shop.flow import flow
from riverrun.cli.shop.report import PROCESSING, SENT, told
from riverrun.errors import Unavailable
from riverrun.river import River

COMMAND = (sys.executable, "-m", "riverrun.cli.shop.processing")
_SENDING = (sys.executable, "-m", "riverrun.cli.shop.sending")
_TRIES = 3  # starts in a row that come to nothing, once it has run; what never ran will not by trying again


class Sending:
    """The process in which the shop happens."""

    def __init__(self, river: str, rate: float, seed: int) -> None:
        self._river = river
        self._process = _start([*_SENDING, river, str(rate), str(seed)], subprocess.DEVNULL)

    def check(self) -> None:
        """Raise when it has ended by itself."""
        if self._process.poll() is not None:
            raise Unavailable(f"the demo's process that sends events has ended (exit code {self._process.returncode})")

    def end(self) -> dict[str, int]:
        """No more events; gives what was acknowledged, by topic."""
        _end(self._process, 10)
        rows: dict[str, int] = told(f"{self._river}/{SENT}").get("rows", {})
        return rows


class Processing:
    """The process that runs the flow; another one takes its place when it dies. Stands in for the run when the river is
    served: it answers for the flow while nobody runs it, too."""

    flow = flow
    name = flow.name

    def __init__(self, river: River, environment: Mapping[str, str]) -> None:
        self.kills = 0
        self.died: float | None = None  # when, if nobody runs the flow now
        self.outages: list[float] = []  # seconds from each death to the next epoch
        self._river = river
        self._environment = environment
        self._ran = False
        self._starts = 0  # in a row, that came to nothing
        self._left: list[str] = []
        self._log: IO[bytes] = open(f"{river.path}/demo.log", "ab")  # noqa: SIM115 (closed by `end`)
        self._process = self._begin()

    @property
    def process(self) -> int | None:
        """Its id, while it lives."""
        return self._process.pid if self._process.poll() is None else None

    @property
    def steps(self) -> list[dict[str, Any]]:
        """What the process has done since it started: {"doing", "at"}."""
        said = self._said()
        return list(said.get("steps", ())) if said.get("process") == self._process.pid else []

    @property
    def is_running(self) -> bool:
        """Whether the flow runs, and has committed an epoch since it was started."""
        steps = self.steps
        return self.process is not None and bool(steps) and steps[-1]["doing"] == "running"

    def kill(self) -> int:
        """SIGKILL, without a warning; gives the id of the process that was."""
        self._left += family(self._process.pid)
        self._process.kill()
        self._process.wait()
        self.kills += 1
        self.died = time.time()
        self._starts = -1  # the next start is nobody's failure
        return self._process.pid

    def look(self) -> str | None:
        """See to it that the flow runs; gives what has happened, if something has."""
        if self._process.poll() is None:
            self._ran = self._ran or self.is_running
            if self.died is not None and self.is_running:
                self.outages.append(time.time() - self.died)
                self.died = None
                self._starts = 0
                return f"the processing is back after {self.outages[-1]:.1f} s, at epoch {self._last_epoch()}"
            return None
        self.died = self.died or time.time()
        self._starts += 1
        if self._starts > (_TRIES if self._ran else 0):
            raise Unavailable(f"the demo's processing does not start: {self._reason()}", hint="See: riverrun doctor")
        self._process = self._begin()
        return "the processing is started again"

    def status(self) -> dict[str, Any]:
        """As of a run: what the store says, and what the process has said of itself."""
        from riverrun.runtime.status import flow_status

        last = self._river.store.last(self.name)
        ends = {name: self._river.topic(name).ends() for name in self.flow.topics()}
        said = (self._said().get("status") or {}) if self.process is not None and self.steps else {}
        own = {
            name: said.get(name)
            for name in ("state", "reason", "next_try", "fence", "rows_per_second", "times", "nodes", "alerts")
        }
        found = {**flow_status(self.name, last, ends, f"{self._river.checkpoints}/{self.name}"), **own}
        if self.died is not None:
            ago = f"killed {time.time() - self.died:.0f} s ago, being started again"
            found.update(state="failing", reason=ago, rows_per_second=0.0)
        elif not self.is_running:
            found.update(state="starting", reason=None, rows_per_second=0.0)
        return {**found, "fence": last.fence, "times": found["times"] or {}, "nodes": found["nodes"] or {}}

    def epochs(self) -> list[dict[str, Any]]:
        """The last epochs of the process that lives, oldest first."""
        said = self._said()
        return list(said.get("epochs", ())) if said.get("process") == self._process.pid else []

    def ledger(self) -> list[dict[str, Any]]:
        """Where every row went, in total."""
        return [dict(entry) for entry in self._river.store.last(self.name).ledger or []]

    def end(self, patience: float) -> None:
        """Finish the epoch, and end everything; a second call does nothing."""
        if self._log.closed:
            return
        self._left += family(self._process.pid)
        _end(self._process, patience)
        await_end(self._left, 3.0)
        self._log.close()

    def _begin(self) -> subprocess.Popen[bytes]:
        return _start([*COMMAND, self._river.path], self._log, self._environment)

    def _said(self) -> dict[str, Any]:
        return told(f"{self._river.path}/{PROCESSING}")

    def _last_epoch(self) -> int:
        return self._river.store.last(self.name).epoch

    def _reason(self) -> str:
        said = self._said()
        if said.get("process") == self._process.pid and said.get("error"):
            return str(said["error"])
        with open(self._log.name, encoding="utf-8", errors="replace") as log:
            lines = [line for line in log.read().splitlines() if line.strip()]
        return f"exit code {self._process.returncode}{''.join(f', {line.strip()}' for line in lines[-1:])}"


def _start(command: list[str], output: Any, environment: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command,
        env={**os.environ, **(environment or {})},
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        start_new_session=True,  # Ctrl-C is for the demo, which ends them itself
    )


def _end(process: subprocess.Popen[bytes], patience: float) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    try:
        process.wait(patience)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
