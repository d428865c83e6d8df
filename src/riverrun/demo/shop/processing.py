"""The process that runs the shop's flow: `python -m riverrun.demo.shop.processing RIVER`, until SIGTERM.

It tells what it does in a file of the river: the steps of its start with the time each took, then its status, twice a
second. It may be killed at any moment; the next one goes on where the last epoch was committed.
"""

from __future__ import annotations

import os
import signal
import sys
import time
import warnings
from types import FrameType
from typing import Any

import msgspec

from riverrun.demo.shop.news import PROCESSING, ProcessingNews, StartStep, tell
from riverrun.errors import RiverrunError

_EVERY = 0.5  # seconds between two reports
_PATIENCE = "3 seconds"  # for the epoch in progress


class ProcessingReport:
    """What the process says of itself."""

    def __init__(self, river: str) -> None:
        self._path = f"{river}/{PROCESSING}"
        self._news = ProcessingNews(os.getpid())

    def step(self, doing: str) -> None:
        """What it does now; the step before it is over."""
        self.put(steps=(*self._news.steps, StartStep(doing, time.time())))

    def put(self, **news: Any) -> None:
        """Tell everything anew."""
        self._news = msgspec.structs.replace(self._news, **news)
        tell(self._path, self._news)


class Ending:
    """SIGTERM, or the end of the demo however it ended. Before the flow runs there is nothing to finish; afterwards the
    epoch is."""

    def __init__(self) -> None:
        self.runs = False
        self._asked = False
        self._parent = os.getppid()
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, self._ask)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        self._asked = True
        if not self.runs:
            os._exit(0)  # the JVM ends when its input does

    @property
    def is_asked(self) -> bool:
        """Whether it is time to end."""
        return self._asked or os.getppid() != self._parent


def process(path: str, report: ProcessingReport, ending: Ending) -> None:
    """Run the flow until it is ended."""
    report.step("loading Python packages")
    from riverrun.river import River
    from riverrun.spark.session import Starting

    with River(path) as river:
        report.step("starting Spark and compiling the flow")
        Starting(river.master, river.settings, computes=False)  # beside what is loaded and compiled here
        from riverrun.demo.shop.shop_flow import flow

        run = river.run(flow)
        ending.runs = True
        report.step("computing the first epoch")
        fresh = True
        while not run.wait(_EVERY) and not ending.is_asked:
            status = run.observe()
            if fresh and status.times:
                fresh = False
                report.step("running")
            report.put(status=status, epochs=tuple(run.epochs()))
        run.stop(_PATIENCE)
        report.put(status=run.observe())


def main(path: str) -> int:
    ending, report = Ending(), ProcessingReport(path)
    if os.environ.get("RIVERRUN_DEBUG") != "1":
        warnings.simplefilter("ignore")
    try:
        process(path, report, ending)
    except RiverrunError as error:
        report.put(error=str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
