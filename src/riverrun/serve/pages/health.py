"""How a flow is, in one word, one sentence, and the command that helps."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from riverrun.serve.pages.figures import ago, number, parse, span
from riverrun.serve.pages.markup import Content, Html, join, tag

BEHIND = 10.0  # seconds of lag that are worth a word
_SILENT = 60.0  # seconds without a commit after which a flow elsewhere is no longer taken to run

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


def health(status: dict[str, Any] | None) -> Health:
    """Judge a flow by its status."""
    if not status:
        return Health(UNKNOWN, "no flow", "No flow has run in this river yet.", "riverrun run FLOW.py")
    if "epoch" not in status:
        return Health(WAITING, "unknown", str(status.get("reason") or "The run does not say how it is."))
    if not status.get("here"):
        return _elsewhere(status)
    state, reason, name = status["state"], str(status.get("reason") or ""), status["flow"]
    if state == "failed":
        return Health(STOPPED, "stopped", reason, f"riverrun run {name}.py")
    if state == "drained":
        return Health(STOPPED, "drained", "The input was declared finished, every window is closed.")
    if state == "stopped":
        return Health(STOPPED, "stopped", "The run was stopped; nothing is lost.", f"riverrun run {name}.py")
    if state == "waiting":
        return Health(WAITING, "waiting", reason or "It waits for a store or a disk.")
    if state == "failing":
        again = parse(status.get("next_try"))
        return Health(WAITING, "trying again", join(reason, f" — next try at {again:%H:%M:%S}" if again else ""))
    if state == "rebuilding":
        return Health(WAITING, "rebuilding", join("Its views are made anew from the log: ", reason, "."))
    return _running(status)


def _running(status: dict[str, Any]) -> Health:
    lag = status["lag"]
    if not status["epoch"]:
        return Health(WAITING, "starting", "No epoch has been committed yet.")
    if lag["seconds"] >= BEHIND:
        said = join(number(lag["rows"], "rows"), " are waiting, the oldest for about ", span(lag["seconds"]), ".")
        return Health(BUSY, "behind", said)
    return Health(OK, "running", "Everything that arrived has been processed." if not lag["rows"] else "It keeps up.")


def _elsewhere(status: dict[str, Any]) -> Health:
    committed = parse(status["committed"])
    if status["finished"]:
        return Health(STOPPED, "drained", "The input was declared finished, every window is closed.")
    if committed is None:
        return Health(UNKNOWN, "not started", "No epoch has been committed.", f"riverrun run {status['flow']}.py")
    silent = (datetime.now(UTC) - committed).total_seconds()
    if silent < _SILENT:
        return Health(OK, "active elsewhere", join("It last committed ", ago(committed), ", in another process."))
    said = join("Nothing was committed since ", ago(committed), "; whether it runs, only its own process knows.")
    return Health(UNKNOWN, "quiet", said, f"riverrun run {status['flow']}.py")
