"""The two processes of the demo, seen from the one that people look at: started, killed, started again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from typing import IO, Any

import msgspec

from riverrun.demo.shop.family import await_end, list_descendants
from riverrun.demo.shop.news import PROCESSING, SENT, ProcessingNews, StartStep, hear
from riverrun.demo.shop.shop_flow import flow
from riverrun.errors import Unavailable
from riverrun.river import River
from riverrun.runtime.status import EpochTimes, FlowStatus

COMMAND = (sys.executable, "-m", "riverrun.demo.shop.processing")
_SENDING = (sys.executable, "-m", "riverrun.demo.shop.sending")
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
        said = hear(f"{self._river}/{SENT}", dict[str, Any]) or {}
        rows: dict[str, int] = said.get("rows", {})
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
    def steps(self) -> tuple[StartStep, ...]:
        """What the process has done since it started."""
        return self._news().steps

    @property
    def is_running(self) -> bool:
        """Whether the flow runs, and has committed an epoch since it was started."""
        steps = self.steps
        return self.process is not None and bool(steps) and steps[-1].doing == "running"

    def kill(self) -> int:
        """SIGKILL, without a warning; gives the id of the process that was."""
        self._left += list_descendants(self._process.pid)
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
                epoch = self._river.store.last(self.name).epoch
                return f"the processing is back after {self.outages[-1]:.1f} s, at epoch {epoch}"
            return None
        self.died = self.died or time.time()
        self._starts += 1
        if self._starts > (_TRIES if self._ran else 0):
            raise Unavailable(f"the demo's processing does not start: {self._reason()}", hint="See: riverrun doctor")
        self._process = self._begin()
        return "the processing is started again"

    def observe(self) -> FlowStatus:
        """As a run would: what the store says, and what the process has said of itself."""
        from riverrun.runtime.lag import measure_lag
        from riverrun.runtime.stored_status import read_status

        last = self._river.store.last(self.name)
        lag = measure_lag({name: self._river.topic(name) for name in self.flow.topics()}, last.positions)
        stored = msgspec.structs.asdict(read_status(self.name, last, lag, f"{self._river.checkpoints}/{self.name}"))
        if self.died is not None:
            ago = f"killed {time.time() - self.died:.0f} s ago, being started again"
            return FlowStatus(**stored, state="failing", reason=ago, rows_per_second=0.0)
        said = self._news().status
        if said is None or not self.is_running:
            return FlowStatus(**stored, state="starting", rows_per_second=0.0)
        return FlowStatus(**{**msgspec.structs.asdict(said), **stored})

    def epochs(self) -> list[EpochTimes]:
        """The last epochs of the process that lives, oldest first."""
        return list(self._news().epochs)

    def end(self, patience: float) -> None:
        """Finish the epoch, and end everything; a second call does nothing."""
        if self._log.closed:
            return
        self._left += list_descendants(self._process.pid)
        _end(self._process, patience)
        await_end(self._left, 3.0)
        self._log.close()

    def _begin(self) -> subprocess.Popen[bytes]:
        return _start([*COMMAND, self._river.path], self._log, self._environment)

    def _news(self) -> ProcessingNews:
        """What the process has said of itself; what the one before it said is no news."""
        said, process = hear(f"{self._river.path}/{PROCESSING}", ProcessingNews), self._process.pid
        return said if said and said.process == process else ProcessingNews(process)

    def _reason(self) -> str:
        error = self._news().error
        if error:
            return error
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
