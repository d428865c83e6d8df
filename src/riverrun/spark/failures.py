"""What went wrong, out of what Spark says about it."""

from __future__ import annotations

import logging
import re
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError  # type: ignore[import-untyped]
from pyspark import SparkContext

from riverrun.errors import DiskFull, RiverrunError, Transient, Unavailable

log = logging.getLogger("riverrun.spark")

_FULL = ("No space left on device", "Disk quota exceeded")
_OF_FILES = ("java.io.", "java.nio.file.")  # where exceptions about files are
_OF_PYTHON = "org.apache.spark.api.python.PythonException"
_RAISED = re.compile(r"^(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Exit|Interrupt|Iteration)\b.*$", re.MULTILINE)
_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_.]+)\] (.+)")
_LOST = re.compile(r"most recent failure: Lost task [^:]*: (?:[\w.$]+: )?(.+)")
_CALL = re.compile(r"^An error occurred while calling \S+\s*(?:: (?:[\w.$]+: )?)?")
_STATE = re.compile(r"\s*SQLSTATE: \w+\s*$")
# What Spark wraps around the error that matters.
_AROUND = {"STREAM_FAILED", "FOREACH_BATCH_USER_FUNCTION_ERROR", "PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR"}
_LONGEST = 500
_DEEPEST = 50  # causes of causes
_PAUSES = (0.5, 1, 2, 5)  # seconds after a failure; who fails once more at the same epoch is given up
_PATIENCE = 2  # seconds, where waiting is all that is needed
_DYING = 2  # seconds that a JVM which was killed may take to end
_DIED = "Python worker exited unexpectedly"
_STARTS = 3


class JvmEnded(Transient):
    """Spark's JVM is gone. The next run starts another one; this run cannot."""


def understood(error: BaseException) -> RiverrunError | None:
    """The error of Riverrun's own; None when it is something else. Those of tasks and of the planner come as what they
    are. That the disk is full for Spark itself, the classes of its exceptions say: a text may come from an event."""
    if isinstance(error, RiverrunError):
        return error
    if any(kind.startswith(_OF_FILES) and text.endswith(_FULL) for kind, text in _thrown(error)):
        return DiskFull(cause(error), hint="Make room; the flow goes on by itself then")
    return None


def may_pass(error: BaseException) -> bool:
    """Whether waiting is all that is needed."""
    return isinstance(understood(error), Transient)


def is_final(error: BaseException) -> RiverrunError | None:
    """The error, when trying again cannot help."""
    ours = understood(error)
    if isinstance(ours, Transient | Unavailable) and not isinstance(ours, JvmEnded):
        return None
    return ours


def is_gone(error: BaseException) -> bool:
    """Whether the JVM does not answer any more. Of one that was killed in the middle of an answer there is half of it."""
    if isinstance(error, Py4JJavaError) or not isinstance(error, Py4JError | ConnectionError):
        return False
    return isinstance(error, Py4JNetworkError | ConnectionError) or _has_ended()


def _has_ended() -> bool:
    process: subprocess.Popen[bytes] | None = getattr(SparkContext._gateway, "proc", None)
    try:
        return process is not None and process.wait(_DYING) is not None
    except subprocess.TimeoutExpired:
        return False


def jvm_has_ended(who: str) -> JvmEnded:
    """The error for a JVM that is gone."""
    return JvmEnded(f"{who}: Spark's JVM has ended", hint="Run the flow again; it goes on where it stopped")


def start_through(start: Callable[[], None], who: str) -> None:
    """Call `start`, and again when a worker of Spark died meanwhile: the next one is another process."""
    for left in reversed(range(_STARTS)):
        try:
            start()
            return
        except RiverrunError:
            raise
        except Exception as error:
            if is_gone(error):
                raise jvm_has_ended(who) from error
            if _DIED not in str(error):
                raise
            if not left:
                raise Unavailable(f"{who} cannot be started: {cause(error)}") from error
            log.warning("%s could not be started, trying again: %s", who, cause(error))


def cause(error: BaseException) -> str:
    """The error that matters, in one line."""
    if isinstance(error, RiverrunError):
        return str(error)
    kind, text = ([one for one in _thrown(error) if one[1]] or [("", str(error))])[-1]
    # In what Java throws, a traceback may be the value of an event.
    is_python = not kind or kind == _OF_PYTHON or text.startswith(tuple(f"[{name}]" for name in _AROUND))
    raised = _RAISED.findall(text) if is_python and "Traceback (most recent call last)" in text else []
    if raised:
        return str(raised[-1])[:_LONGEST]
    told = [message for condition, message in _CONDITION.findall(text) if condition not in _AROUND]
    lost = _LOST.findall(text)
    lines = [line.strip() for line in _CALL.sub("", text).splitlines() if line.strip()]
    line = told[0] if told else lost[-1] if lost else lines[0] if lines else repr(error)
    return _STATE.sub("", line)[:_LONGEST]


def throwables(error: BaseException) -> Iterator[Any]:
    """What was thrown in the JVM, and each cause of it; nothing where Spark gave only a text."""
    thrown = getattr(error, "_origin", None) or getattr(error, "java_exception", None)
    try:
        for _ in range(_DEEPEST):
            if thrown is None:
                return
            yield thrown
            thrown = thrown.getCause()
    except (Py4JError, OSError) as gone:
        log.debug("the JVM cannot be asked for the cause: %s", gone)


def _thrown(error: BaseException) -> list[tuple[str, str]]:
    """Class and message of what was thrown in the JVM, and of each cause of it."""
    found: list[tuple[str, str]] = []
    try:
        for thrown in throwables(error):
            found.append((str(thrown.getClass().getName()), str(thrown.getMessage() or "")))
    except (Py4JError, OSError) as gone:
        log.debug("the JVM cannot be asked for the cause: %s", gone)
    return found


class Tries:
    """How often somebody has failed in a row at the same epoch. What will pass is not counted."""

    def __init__(self, who: str) -> None:
        self._who = who
        self._epoch = 0
        self._count = 0

    def pause(self, error: BaseException, epoch: int) -> float:
        """Seconds to wait before the epoch is tried again; raises what to give up with when that cannot help."""
        final = is_final(error)
        if final is not None:
            raise final
        if is_gone(error):
            raise jvm_has_ended(self._who) from error
        count = (self._count if epoch == self._epoch else 0) + (not may_pass(error))
        self._count, self._epoch = count, epoch
        why = cause(error)
        if count > len(_PAUSES):
            raise Unavailable(f"{self._who} failed {count} times in a row at epoch {epoch}: {why}")
        pause = _PAUSES[count - 1] if count else _PATIENCE
        log.warning("%s failed, trying again in %s s: %s", self._who, pause, why)
        log.debug("%s", error)
        return pause
