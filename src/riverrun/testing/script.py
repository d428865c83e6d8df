"""What happens in a test: rows arrive, time passes, a producer promises, the process dies.

A script is a list of steps. A mapping of topic → rows is the usual one: they are appended and processed in one epoch.
The others are the classes here. Input that is just one mapping is a script of one step.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from riverrun.durations import Duration, micros
from riverrun.errors import Invalid


@dataclass(frozen=True)
class Append:
    """Rows that come into the log and are processed with the next step that processes: a backlog. `after` is how much
    time passes before. Of a topic with a key, a row with `"_deleted": True` is a tombstone."""

    topic: str
    rows: Any
    after: Duration = 0


@dataclass(frozen=True)
class Process:
    """Process everything that was appended."""


@dataclass(frozen=True)
class Delete:
    """A tombstone: the key has no row any more."""

    topic: str
    key: Any


@dataclass(frozen=True)
class Advance:
    """The producer promises that nothing older than `time` will come from it. Without a `producers` column a producer
    is a partition, by number."""

    topic: str
    producer: str | int
    time: datetime


@dataclass(frozen=True)
class Tick:
    """Time passes: the virtual clock moves, and what silence decides is processed."""

    duration: Duration

    @property
    def micros(self) -> int:
        return micros(self.duration)


@dataclass(frozen=True)
class Crash:
    """Everything in memory is lost, and a new run goes on from what was committed.

    With `at`, the crash comes in the middle of the next epoch, at the failpoint of that name; the epoch is repeated:
    `plan.begin`, `host.stepped`, `host.committed`, `commit.begin`, `commit.topics`, `views.applied`, `commit.store`, …
    """

    at: str | None = None


Marker = Append | Process | Delete | Advance | Tick | Crash
Step = Mapping[str, Any] | Marker
Script = Mapping[str, Any] | Sequence[Step]


def steps(inputs: Script, topics: Iterable[str]) -> list[Step]:
    """The steps of a script, checked."""
    known = set(topics)
    script: list[Step] = [inputs] if isinstance(inputs, Mapping) else list(inputs)
    for number, step in enumerate(script):
        if not isinstance(step, Mapping | Marker):
            raise Invalid(
                f"step {number + 1} of the script is {step!r}",
                hint='A step is {"topic": [rows]}, or Append, Process, Delete, Advance, Tick or Crash',
            )
        named = list(step) if isinstance(step, Mapping) else [getattr(step, "topic", None)]
        for topic in named:
            if topic is not None and topic not in known:
                there = ", ".join(sorted(known))
                raise Invalid(f"step {number + 1} of the script names topic {topic!r}", hint=f"The flow reads {there}")
    return script
