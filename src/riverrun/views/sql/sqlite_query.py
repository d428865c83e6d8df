"""A caller's query in SQLite, as a process of its own runs it."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any
from urllib.parse import quote

from riverrun.errors import Invalid
from riverrun.views.spec import ViewSpec
from riverrun.views.sql import catalogue, sqlite_values
from riverrun.views.sql.query_message import Question, gathered
from riverrun.views.sql.query_process import too_late
from riverrun.views.sql.sqlite import STEPS, SqliteTransaction, as_riverrun
from riverrun.views.sql.sqlite_guard import LONGEST, read_only
from riverrun.views.sql.sqlite_tables import code_of

_ROWS_AT_ONCE = 100  # each may have megabytes
_WAIT = 10  # seconds for a lock
_MISTAKES = {sqlite3.SQLITE_ERROR, sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_RANGE}


def ask(question: Question) -> tuple[list[str], list[Any]]:
    """Names and rows; `Invalid` where the query is wrong, `TimedOut` where it takes too long."""
    with closing(_connect(question)) as db:

        def views() -> list[ViewSpec]:
            return [view.spec for view in catalogue.all_views(SqliteTransaction(db))]

        try:
            query, values = sqlite_values.written(question.sql, question.parameters, views)
            answer = db.execute(query, values)
            if answer.description is None:
                raise Invalid("sql: not a query")
            rows = gathered(_parts(answer), question.most)
            return [column[0] for column in answer.description], sqlite_values.with_numbers(question.sql, rows, views)
        except Invalid:
            raise
        except sqlite3.Error as error:
            raise _understood(error, question, views) from None
        except (OverflowError, ValueError) as error:  # how it is called
            raise Invalid(f"sql: {error}") from None


def _connect(question: Question) -> sqlite3.Connection:
    deadline = None if question.timeout is None else time.monotonic() + question.timeout
    parent = os.getppid()

    def is_over() -> bool:
        return (deadline is not None and time.monotonic() > deadline) or os.getppid() != parent

    try:
        db = sqlite3.connect(f"file:{quote(question.place)}?mode=ro", timeout=_WAIT, isolation_level=None, uri=True)
        db.execute("pragma query_only = on")
        db.execute("pragma temp_store = memory")  # what is sorted must not fill a disk
        db.execute("begin")
    except sqlite3.Error as error:
        raise as_riverrun(error, question.place) from None
    db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST)
    db.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    db.set_progress_handler(is_over, STEPS)
    db.set_authorizer(read_only)
    return db


def _parts(answer: sqlite3.Cursor) -> Iterator[list[Any]]:
    while part := answer.fetchmany(_ROWS_AT_ONCE):
        yield part


def _understood(error: sqlite3.Error, question: Question, views: Callable[[], list[ViewSpec]]) -> Exception:
    code = code_of(error)
    if code == sqlite3.SQLITE_INTERRUPT:
        return too_late(question.timeout)
    if code == sqlite3.SQLITE_AUTH:
        return Invalid(f"sql: only reading views is allowed ({error})")
    if code not in _MISTAKES:
        return as_riverrun(error, question.place)
    if not isinstance(error, sqlite3.OperationalError):
        return Invalid(f"sql: {error}")
    names = ", ".join(spec.name for spec in views())
    return Invalid(
        f"sql: {error}", hint=f"Views are {names}" if names else "There are no views yet; a run of a flow makes them"
    )
