"""SQL of callers runs in processes of its own, where it can hurt nobody: they have little memory and no right to write a
file, and are ended when time is up. Whatever a query does to such a process, only the query fails.

A process is started with the first query and answers one after the other. It leaves when nobody has asked for a while.
"""

from __future__ import annotations

import atexit
import os
import select
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec

from riverrun.errors import Invalid, TimedOut, Transient, Unavailable
from riverrun.views.sql.query_message import LENGTH_BYTES, Answer, Question, framed, read_answer

MOST_BYTES = 64 << 20  # of an answer
_AT_ONCE = 4  # queries of this process; more wait
_STARTING = 60.0  # seconds until a process must be ready
_GRACE = 0.5  # seconds for a process to say itself that time is up
_CONNECTING = 15.0  # seconds more, where there is a server to be reached first


class QueryProcess:
    """One process. It answers one query at a time, and is of no use any more when `ask` gives or raises anything else."""

    def __init__(self) -> None:
        path = os.pathsep.join(os.path.abspath(part) for part in sys.path)
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "riverrun.views.sql.query_worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": path, "LC_ALL": "C.UTF-8"},
                start_new_session=True,  # Ctrl-C is for this process
            )
        except OSError as error:
            raise Transient(f"no process can be started for a query ({error.strerror})") from None
        assert self._process.stdin is not None and self._process.stdout is not None
        self._to, self._from = self._process.stdin.fileno(), self._process.stdout.fileno()
        os.set_blocking(self._from, False)
        try:
            self._read(1, time.monotonic() + _STARTING)
        except (EOFError, TimeoutError):
            self.end()
            raise Unavailable("the process that answers queries did not start", hint="Is there memory left?") from None

    def ask(self, question: Question) -> Answer | None:
        """The answer; `TimedOut` when there is none in time, None when the process had left for want of questions."""
        patience = None if question.timeout is None else question.timeout + _GRACE
        if patience is not None and question.schema is not None:
            patience += _CONNECTING
        deadline = None if patience is None else time.monotonic() + patience
        try:
            self._write(framed(question))
            length = int.from_bytes(self._read(LENGTH_BYTES, deadline), "big")
            return read_answer(self._read(length, deadline))
        except TimeoutError:
            raise too_late(question.timeout) from None
        except (EOFError, BrokenPipeError):
            code = self._process.wait()
            if code == 0:
                return None
            if code == -signal.SIGXCPU:
                raise too_late(question.timeout) from None
            how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
            hint = "It may need too much memory; ask for less"
            raise Invalid(f"sql: the query ended the process that ran it ({how})", hint=hint) from None

    def _write(self, data: bytes) -> None:
        sent = memoryview(data)
        while sent:
            sent = sent[os.write(self._to, sent) :]

    def _read(self, count: int, deadline: float | None) -> bytes:
        waiting = select.poll()
        waiting.register(self._from, select.POLLIN)
        parts: list[bytes] = []
        while count:
            left = None if deadline is None else max(0.0, deadline - time.monotonic()) * 1000
            if not waiting.poll(left):
                raise TimeoutError
            part = os.read(self._from, min(count, 1 << 20))
            if not part:
                raise EOFError
            parts.append(part)
            count -= len(part)
        return b"".join(parts)

    def end(self) -> None:
        """End it, whatever it does."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with suppress(OSError):
                pipe.close()


class QueryProcesses:
    """The processes of this one: as many as there are queries at the same time, up to a limit."""

    def __init__(self, at_once: int = _AT_ONCE) -> None:
        self.owner = os.getpid()
        self._slots = threading.BoundedSemaphore(at_once)
        self._lock = threading.Lock()
        self._idle: list[QueryProcess] = []

    def ask(self, question: Question) -> list[dict[str, Any]]:
        """The rows of the answer; raises what the query failed with."""
        if not self._slots.acquire(timeout=question.timeout):
            raise TimedOut(f"other queries ran for {question.timeout:g} s; this one was not begun")
        try:
            answer = self._answer(question)
        finally:
            self._slots.release()
        if answer.error is not None:
            raise answer.error.arrive()
        return [dict(zip(answer.names, row, strict=True)) for row in answer.rows]

    def _answer(self, question: Question) -> Answer:
        while True:
            with self._lock:
                process = self._idle.pop() if self._idle else None
            process = process or QueryProcess()
            try:
                answer = process.ask(question)
            except msgspec.DecodeError:
                process.end()
                raise Invalid("sql: the query damaged the process that ran it") from None
            except BaseException:
                process.end()
                raise
            if answer is not None:
                with self._lock:
                    self._idle.append(process)
                return answer
            process.end()

    def close(self) -> None:
        """End those that wait for a query. After a fork they belong to the other process."""
        while self._idle and self.owner == os.getpid():
            self._idle.pop().end()


def too_late(timeout: float | None) -> TimedOut:
    """The error of a query that took too long."""
    return TimedOut(f"the query took longer than {timeout or 0:g} s and was stopped")


_shared: QueryProcesses | None = None
_sharing = threading.Lock()


def shared_processes() -> QueryProcesses:
    """Those that all stores of this process ask."""
    global _shared
    with _sharing:
        if _shared is None or _shared.owner != os.getpid():
            _shared = QueryProcesses()
            atexit.register(partial(QueryProcesses.close, _shared))
        return _shared
