"""A caller's query in PostgreSQL, as a process of its own runs it: on a connection that is closed afterwards, so that
nothing of it, such as a lock of the session, outlives the query."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg

from riverrun.errors import Invalid
from riverrun.views.sql.postgres_connection import READ, as_riverrun, connect, place_of
from riverrun.views.sql.postgres_login import refuse_powers
from riverrun.views.sql.query_message import Question, gathered, packed
from riverrun.views.sql.query_process import too_late

_ROWS_AT_ONCE = 100  # each may have megabytes
_MISTAKES = (psycopg.ProgrammingError, psycopg.DataError, psycopg.NotSupportedError, psycopg.InternalError)
_NO_MEMORY = ("out of memory", "cannot allocate memory")  # what libpq says of an answer that does not fit


def ask(question: Question) -> tuple[list[str], list[Any]]:
    """Names and rows; `Invalid` where the query is wrong, `TimedOut` where it takes too long."""
    where = place_of(question.place)
    assert question.schema is not None
    try:
        with connect(question.place, question.schema) as connection:
            if question.guarded:
                refuse_powers(connection, question.schema)
            connection.execute(READ)
            limit = 0 if question.timeout is None else max(1, round(question.timeout * 1000))
            connection.execute("select set_config('statement_timeout', %s, true)", (str(limit),))
            return _fetch(connection, question)
    except psycopg.errors.QueryCanceled:
        raise too_late(question.timeout) from None
    except psycopg.Error as error:
        if error.sqlstate is None and any(text in str(error) for text in _NO_MEMORY):
            raise MemoryError from None
        raise as_riverrun(error, where) from None


def _fetch(connection: psycopg.Connection, question: Question) -> tuple[list[str], list[Any]]:
    try:
        # A cursor can only be declared for one query; nothing else gets past the server's parser.
        sql = f"declare asked no scroll cursor for {question.sql}"
        connection.execute(sql, question.parameters or None, prepare=True)
        answer = connection.execute(f"fetch {_ROWS_AT_ONCE} from asked")
        names = [column.name for column in answer.description or ()]
        return names, gathered(_parts(connection, answer), question.most)
    except _MISTAKES as error:
        raise Invalid(f"sql: {str(error).splitlines()[0]}") from None


def _parts(connection: psycopg.Connection, answer: psycopg.Cursor) -> Iterator[list[Any]]:
    while rows := answer.fetchall():
        yield [[_sent(value) for value in row] for row in rows]
        answer = connection.execute(f"fetch {_ROWS_AT_ONCE} from asked")


def _sent(value: Any) -> Any:
    try:
        return packed(value)
    except Invalid:  # ranges, addresses and the like are told as PostgreSQL writes them, more or less
        return str(value)
