"""The stage: starts the tour's processes, kills them when the story says so, and keeps what was checked."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from riverrun.demo.tour.screen import Screen
from riverrun.errors import TimedOut
from riverrun.river import River

_PATIENCE = 60.0  # seconds that anything may take before the tour gives up


@dataclass(frozen=True)
class Finding:
    """A claim, and whether it held."""

    scene: str
    claim: str
    held: bool
    detail: str


class Actor:
    """A process of the tour. It writes what it did into a file, line by line, so a kill loses nothing of it."""

    def __init__(self, name: str, process: subprocess.Popen[bytes], report: str) -> None:
        self.name = name
        self.process = process
        self._report = report

    def read_report(self) -> list[dict[str, Any]]:
        """What it has reported so far."""
        try:
            with open(self._report, encoding="utf-8") as file:
                return [json.loads(line) for line in file if line.endswith("\n")]
        except FileNotFoundError:
            return []

    def kill(self) -> None:
        """SIGKILL: no warning, no last words."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def end(self) -> int:
        """Wait for it to finish."""
        return self.process.wait(_PATIENCE)


class Stage:
    """One performance, in one river."""

    def __init__(self, river: River, scratch: str, screen: Screen, seconds: float) -> None:
        self.river = river
        self.screen = screen
        self.seconds = seconds
        self.findings: list[Finding] = []
        self._scratch = scratch
        self._scene = ""
        self._actors: list[Actor] = []

    def scene(self, title: str, about: str) -> None:
        """The next part begins."""
        self._scene = title
        self.screen.heading(title, about)

    def start(self, role: str, name: str, *arguments: object, failpoints: str = "") -> Actor:
        """Start a process that plays a role; `failpoints` is where it will be killed."""
        report = os.path.join(self._scratch, f"{name}.{len(self._actors)}.jsonl")
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "riverrun.demo.tour.roles",
                role,
                self.river.path,
                report,
                name,
                *map(str, arguments),
            ],
            env={**os.environ, "RIVERRUN_FAILPOINTS": failpoints},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for the tour, which ends them itself
        )
        actor = Actor(name, process, report)
        self._actors.append(actor)
        return actor

    def stop_file(self, name: str) -> str:
        """A file whose appearance tells actors to come to an end. They end when the story says so, not by the clock."""
        return os.path.join(self._scratch, f"{name}.stop")

    def tell_to_stop(self, name: str) -> None:
        with open(self.stop_file(name), "w", encoding="utf-8"):
            pass

    def until(self, happened: Callable[[], bool], what: str, showing: Callable[[], str] | None = None) -> float:
        """Wait for something, show how far it is, and give the seconds it took."""
        begun = time.monotonic()
        while not happened():
            if time.monotonic() - begun > _PATIENCE:
                raise TimedOut(f"the tour waited {_PATIENCE:.0f} s for {what}")
            for actor in self._actors:
                if actor.process.poll() not in (None, 0, -signal.SIGKILL):
                    raise TimedOut(f"the tour's process {actor.name} failed (exit code {actor.process.returncode})")
            self.screen.moving(showing() if showing else what)
            time.sleep(0.05)
        return time.monotonic() - begun

    def check(self, claim: str, held: bool, detail: str = "") -> None:
        """Note whether a claim held, and show it."""
        self.findings.append(Finding(self._scene, claim, bool(held), detail))
        self.screen.mark(bool(held), f"{claim}{f': {detail}' if detail else ''}")

    def close(self) -> None:
        """End every process that still runs."""
        for actor in self._actors:
            if actor.process.poll() is None:
                actor.kill()
