"""How a flow is, in one word, one sentence, and the command that helps."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from riverrun.runtime.status import FlowStatus
from riverrun.serve.pages.markup import Content, Html, join, tag
from riverrun.serve.pages.quantities import ago, number, span

BEHIND = 10.0  # seconds of lag that are worth a word
_SILENT = 60.0  # seconds without a commit after which a flow elsewhere probably does not run
_RUN = "riverrun run FLOW.py"

OK, BUSY, WAITING, STOPPED, UNKNOWN = "ok", "behind", "waiting", "stopped", "unknown"
# Never colour alone: every kind has a shape of its own.
SHAPES = {OK: "●", BUSY: "▲", WAITING: "◆", STOPPED: "■", UNKNOWN: "○"}


@dataclass(frozen=True)
class Health:
    """`kind` decides shape and colour, `word` names the state, `said` is the sentence, `command` what helps."""

    kind: str
    word: str
    said: Content = ""
    command: str | None = None

    def badge(self) -> Html:
        """Shape and word."""
        return badge(self.kind, self.word)


def badge(kind: str, word: str) -> Html:
    """A word with the shape and colour of its kind."""
    return tag("span", tag("span", SHAPES[kind], aria_hidden="true"), " ", word, class_=f"badge {kind}")


def judge(status: FlowStatus | None) -> Health:
    """Judge a flow by its status."""
    if status is None:
        return Health(UNKNOWN, "no flow", "No flow has run in this river yet.", _RUN)
    if status.state is None:
        return _judge_elsewhere(status)
    reason = status.reason or ""
    if status.state == "unknown":
        return Health(WAITING, "unknown", reason or "The run does not say how it is.")
    if status.state == "failed":
        return Health(STOPPED, "stopped", reason, _RUN)
    if status.state == "drained":
        return Health(STOPPED, "drained", "The input was declared finished, every window is closed.")
    if status.state == "stopped":
        return Health(STOPPED, "stopped", "The run was stopped; nothing is lost.", _RUN)
    if status.state == "starting":
        return Health(WAITING, "starting", _with_waiting(reason or "It is being started", status.lag.rows))
    if status.state == "waiting":
        return Health(WAITING, "waiting", reason or "It waits for a store or a disk.")
    if status.state == "failing":
        again = f" — next try at {status.next_try:%H:%M:%S}" if status.next_try else ""
        return Health(WAITING, "trying again", join(reason, again))
    if status.state == "rebuilding":
        return Health(WAITING, "rebuilding", join("Its views are made anew from the log: ", reason, "."))
    return _judge_running(status)


def _judge_running(status: FlowStatus) -> Health:
    lag = status.lag
    if not status.epoch:
        return Health(WAITING, "starting", _with_waiting("No epoch has been committed yet", lag.rows))
    if lag.seconds >= BEHIND:
        said = join(number(lag.rows, "rows"), " are waiting, the oldest for about ", span(lag.seconds), ".")
        return Health(BUSY, "behind", said)
    return Health(OK, "running", "Everything that arrived has been processed." if not lag.rows else "It keeps up.")


def _judge_elsewhere(status: FlowStatus) -> Health:
    committed = status.committed
    if status.finished:
        return Health(STOPPED, "drained", "The input was declared finished, every window is closed.")
    if committed is None:
        return Health(UNKNOWN, "not started", "No epoch has been committed.", _RUN)
    silent = (datetime.now(UTC) - committed).total_seconds()
    if silent < _SILENT:
        said = join("It last committed ", ago(committed), "; whether it runs is not known here.")
        return Health(UNKNOWN, "elsewhere", said)
    said = join("Nothing was committed since ", ago(committed), "; whether it runs is not known here.")
    return Health(UNKNOWN, "quiet", said, _RUN)


def _with_waiting(said: str, rows: int) -> Content:
    """The sentence, with the rows that wait meanwhile."""
    return join(said, "; ", number(rows, "rows"), " wait." if rows > 1 else " waits.") if rows else f"{said}."
