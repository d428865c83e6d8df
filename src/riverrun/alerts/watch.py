"""What operators are told about a run: that it is behind, drops late rows, fails, has switched a rule off; and that this is
over.

Each is a row of the topic "<flow>.alerts", so it is sent like any other alert, also when the process ends first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from riverrun import figures
from riverrun.durations import show
from riverrun.errors import Transient
from riverrun.log.spec import TopicSpec
from riverrun.river import River
from riverrun.runtime.status import FlowStatus

MESSAGE = "{text}"
_SCHEMA = "kind string, state string, text string"
_INTERVAL = 5_000_000
_MINUTE = 60_000_000
_RULE = "rule "
_HOLD = 15_000_000  # what passes sooner is not worth a message: a lock, a run that has just begun to catch up


class Watched(Protocol):
    """What is asked of a run."""

    def observe(self) -> FlowStatus: ...


@dataclass
class _Condition:
    """Something that may be wrong. `judge` says what is, None when nothing is."""

    kind: str
    judge: Callable[[int, FlowStatus], str | None]
    hold: int
    over: str
    since: int | None = None
    told: bool = False

    def look(self, now: int, status: FlowStatus) -> tuple[str, str] | None:
        """(state, text) when people are to be told."""
        wrong = self.judge(now, status)
        if wrong is None:
            self.since = None
            if self.told:
                self.told = False
                return "over", self.over
            return None
        self.since = now if self.since is None else min(self.since, now)
        if self.told or now - self.since < self.hold:
            return None
        self.told = True
        return "begun", wrong


class Watch:
    """Looks at a run every few seconds. What was told is read from the topic, so a restart tells nothing twice."""

    def __init__(self, river: River, flow: str) -> None:
        self.topic = f"{flow}.alerts"
        self.due: int | None = 0
        self._river = river
        self._flow = flow
        self._run: Watched | None = None
        self._dropped: deque[tuple[int, int]] = deque()  # (when, total) of the last minute
        self._rules_off: set[str] = set()  # that were told
        self._conditions = [
            _Condition("failed", self._failed, 0, f"flow {flow} runs again"),
            _Condition("failing", self._failing, _HOLD, f"flow {flow} runs again"),
            _Condition("lag", self._lag, _HOLD, f"flow {flow} has caught up"),
            _Condition("late", self._late, 0, f"flow {flow} drops no more late rows than it may"),
            _Condition("captures", self._captures, _HOLD, f"the captures that flow {flow} reads are well again"),
            _Condition("held", self._held, _HOLD, f"no database keeps more than it may for what flow {flow} reads"),
        ]

    def open(self, run: Watched | None) -> None:
        """Make the topic, and know what was told last."""
        self._run = run
        topic = self._river.topic(TopicSpec(self.topic, _SCHEMA, partitions=1))
        last = {row["kind"]: row["state"] for row in topic.read().to_pylist()}
        for condition in self._conditions:
            condition.told = last.get(condition.kind) == "begun"
        self._rules_off = {
            kind.removeprefix(_RULE) for kind, state in last.items() if kind.startswith(_RULE) and state == "begun"
        }

    def look(self, now: int) -> None:
        """Append what there is to tell, if it is time to look again."""
        if self._run is None:
            self.due = None
        elif self.due is not None and now >= self.due:
            self.due = now + _INTERVAL
            self._ask(self._run, now)

    def _ask(self, run: Watched, now: int) -> None:
        try:
            status = run.observe()
        except Transient:
            return
        told = [(condition.kind, condition.look(now, status)) for condition in self._conditions]
        rows = [{"kind": kind, "state": said[0], "text": said[1]} for kind, said in told if said is not None]
        rows += self._of_rules(status)
        if rows:  # a reason may quote an event
            self._river.topic(self.topic).append([{**row, "text": figures.safe(row["text"])} for row in rows])

    def _of_rules(self, status: FlowStatus) -> list[dict[str, str]]:
        """Each rule that was switched off, and each that is on again. Another one is told while the first is still off."""
        now, before = set(status.rules_off), self._rules_off
        self._rules_off = now
        begun = [
            (name, "begun", f"flow {self._flow}: rule {name} is {status.rules_off[name]}")
            for name in sorted(now - before)
        ]
        over = [(name, "over", f"flow {self._flow}: rule {name} is on again, or gone") for name in sorted(before - now)]
        return [{"kind": _RULE + name, "state": state, "text": text} for name, state, text in (*begun, *over)]

    def _failed(self, _: int, status: FlowStatus) -> str | None:
        if status.state != "failed":
            return None
        return f"flow {self._flow} has failed and does not go on by itself: {status.reason}"

    def _failing(self, _: int, status: FlowStatus) -> str | None:
        if status.state not in ("failing", "waiting"):
            return None
        doing = "waits" if status.state == "waiting" else "fails and is started again"
        return f"flow {self._flow} {doing}: {status.reason}"

    def _lag(self, _: int, status: FlowStatus) -> str | None:
        limit = self._river.settings.alert_lag
        lag = int(status.lag.seconds * 1e6)
        if not limit or lag <= limit or status.state in ("rebuilding", "stopped", "drained"):
            return None
        return f"flow {self._flow} is {show(lag)} behind, {status.lag.rows} rows"

    def _captured(self, status: FlowStatus) -> list[dict[str, Any]]:
        """The captures whose topics the flow reads."""
        read = {topic.partition(".")[0] for topic in status.lag.topics}
        return [one for one in self._river.captures() if one["name"] in read]

    def _captures(self, _: int, status: FlowStatus) -> str | None:
        for one in self._captured(status):
            if one["state"] in ("failed", "gone", "waiting"):
                return f"capture {one['name']} is {one['state']}: {one['reason']}"
            for table, told in one.get("tables", {}).items():
                if told["state"] == "stopped":
                    return f"capture {one['name']} no longer captures {table}: {told['reason']}"
        return None

    def _held(self, _: int, status: FlowStatus) -> str | None:
        """A database that keeps its log for a capture may run out of disk."""
        limit = self._river.settings.capture_held_bytes
        for one in self._captured(status):
            held = one.get("held_bytes") or 0
            if limit and held > limit:
                return f"the source of capture {one['name']} keeps {figures.size(held)} on its disk for it"
        return None

    def _late(self, now: int, status: FlowStatus) -> str | None:
        limit = self._river.settings.alert_late
        total = sum(entry.late_dropped for entry in status.ledger)
        self._dropped.append((now, total))
        while self._dropped[0][0] < now - _MINUTE and len(self._dropped) > 1:
            self._dropped.popleft()
        dropped = total - self._dropped[0][1]
        if not limit or dropped <= limit:
            return None
        return f"flow {self._flow} dropped {dropped} late rows in the last minute"
