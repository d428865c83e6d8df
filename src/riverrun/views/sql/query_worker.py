"""The process that answers queries: `python -m riverrun.views.sql.query_worker`, started by `query_process`.

Questions come through stdin, answers go to stdout. What it is allowed is limited before the first question: memory, and no
bytes in any file. The parent ends it when a query takes too long; should there be no parent any more, its processor time
ends as well.
"""

from __future__ import annotations

import math
import os
import resource
import select
import sys
from contextlib import suppress
from importlib import import_module
from typing import Any

from riverrun.error_transit import ErrorInTransit
from riverrun.errors import Invalid
from riverrun.views.sql.query_message import LENGTH_BYTES, Answer, Question, framed, read_question

MEMORY = 512 << 20  # bytes beyond what the process has at its start
_IDLE = 60_000  # milliseconds without a question
_SPARE = 2  # seconds of processor time beyond those of a query
# Loaded before the first question, since loading takes longer than most queries.
_NEEDED = ("riverrun.views.sql.sqlite_query", "sqlglot.optimizer.qualify", "sqlglot.optimizer.annotate_types")


def main() -> None:
    """Answer until nobody asks any more."""
    for name in _NEEDED:
        with suppress(ImportError):
            import_module(name)
    limit_process()
    os.write(1, b"\n")
    waiting = select.poll()
    waiting.register(0, select.POLLIN)
    while waiting.poll(_IDLE):
        length = _read(LENGTH_BYTES)
        if not length:
            return
        _write(framed(answer(read_question(_read(int.from_bytes(length, "big"))))))


def limit_process() -> None:
    """Limits that hold for good."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    if sys.platform == "linux":
        with open("/proc/self/statm", encoding="ascii") as file:
            most = int(file.read().split()[0]) * resource.getpagesize() + MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (most, most))


def limit_time(timeout: float | None) -> None:
    """As much processor time as one more query needs."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    seconds = resource.RLIM_INFINITY
    if timeout is not None:
        seconds = math.ceil(used.ru_utime + used.ru_stime + timeout) + _SPARE
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, resource.RLIM_INFINITY))


def answer(question: Question) -> Answer:
    """The answer of the database that is asked."""
    try:
        limit_time(question.timeout)
        names, rows = _ask(question)
        return Answer(names, rows)
    except MemoryError:
        return _failed(Invalid(f"sql: the query needs more than {MEMORY >> 20} MiB of memory", hint="Ask for less"))
    except Exception as error:
        return _failed(error)


def _failed(error: Exception) -> Answer:
    known = ErrorInTransit.of(error)
    return Answer(error=known or ErrorInTransit("Invalid", f"sql: {type(error).__name__}: {error}"))


def _ask(question: Question) -> tuple[list[str], list[Any]]:
    if question.schema is None:
        from riverrun.views.sql import sqlite_query

        return sqlite_query.ask(question)
    from riverrun.views.sql import postgres_query

    return postgres_query.ask(question)


def _read(count: int) -> bytes:
    """So many bytes of stdin, or none when the other end is gone."""
    parts: list[bytes] = []
    while count:
        part = os.read(0, count)
        if not part:
            return b""
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def _write(data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(1, left) :]


if __name__ == "__main__":
    main()
