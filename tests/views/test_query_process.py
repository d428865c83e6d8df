"""What a caller's SQL can do to the process that asks: nothing. It runs in one of its own."""

from __future__ import annotations

import errno
import os
import signal
import threading
import time
from datetime import UTC, date, datetime, timedelta
from datetime import time as time_of_day
from decimal import Decimal
from uuid import UUID

import numpy as np
import psutil
import pytest

from riverrun.errors import Invalid, TimedOut, Transient
from riverrun.views import ViewSpec, open_store
from riverrun.views.sql import query_process
from riverrun.views.sql.query_message import Answer, Question, framed, packed, read_answer
from riverrun.views.sql.query_process import LENGTH_BYTES, QueryProcesses, shared_processes

# One call of a function, which SQLite does not interrupt: hours.
LONG_CALL = "select instr(printf('%.15000000c', 'a'), printf('%.7000000c', 'a') || 'b')"
# For sqlglot each alias stands for twice as much as the one before.
ALIASES = ", ".join(f"a{i} + a{i} as a{i + 1}" for i in range(25))
LARGE = "with recursive n(i) as (select 1 union all select i + 1 from n)"


@pytest.fixture
def store(tmp_path):
    with open_store(tmp_path / "views.db") as store:
        store.declare(ViewSpec("totals", "shop", "n bigint, at timestamp", ("n",)))
        store.query("select 1")  # so that no test waits for the start of a process
        yield store


def children() -> set[int]:
    return {
        child.pid
        for child in psutil.Process().children()
        if child.status() != psutil.STATUS_ZOMBIE and "riverrun.views.sql.query_worker" in child.cmdline()
    }


@pytest.mark.parametrize(
    "sql",
    [LONG_CALL, f"select n as a0, {ALIASES} from totals where at > '2026-01-01'", f"{LARGE} select count(*) from n"],
    ids=["in one function", "in sqlglot", "in many steps"],
)
def test_the_deadline_of_a_query_holds_wherever_its_time_goes(store, sql):
    """The limit of the SQL box covered neither sqlglot nor one long call of a function."""
    begun = time.monotonic()
    with pytest.raises(TimedOut, match=r"longer than 0\.2 s"):
        store.query(sql, timeout=0.2)
    assert time.monotonic() - begun < 10
    assert store.query("select 1 as n", timeout=30) == [{"n": 1}]


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("select hex(zeroblob(250000000))", "too big"),
        (f"{LARGE} select hex(zeroblob(1000000)) as x, i from n limit 2000", "more than 64 MiB"),
        (f"{LARGE} select i from n", "more than 64 MiB"),
        (f"{LARGE} select group_concat(x) from (select hex(zeroblob(5000000)) as x, i from n order by x, i)", "memory"),
    ],
    ids=["one value", "many bytes", "many rows", "on the way"],
)
def test_the_memory_of_a_query_is_limited_and_this_process_keeps_its_own(store, sql, why):
    """31 characters took 2 GB of the flow's process."""
    before = psutil.Process().memory_info().rss
    with pytest.raises(Invalid, match=why):
        store.query(sql, timeout=60)
    assert psutil.Process().memory_info().rss - before < 150 << 20


@pytest.mark.parametrize(
    "call",
    [
        "fts3_tokenizer('simple')",
        "fts3_tokenizer('simple', x'4242424242424242')",
        "load_extension('x')",
        "readfile('/etc/passwd')",
        "sqlite_compileoption_get(1)",
    ],
)
def test_only_functions_that_are_known_can_be_called(store, call):
    """Addresses of the process could be read, and pointers set."""
    with pytest.raises(Invalid, match=r"^sql: (not authorized|only reading|no such function)"):
        store.query(f"select hex({call})")
    with pytest.raises(Invalid):
        store.fetch("totals", f"hex({call}) is not null")


def test_no_virtual_table_can_be_connected(store):
    """With one, a pointer that was set would be called."""
    for table in ("fts3tokenize", "json_each('[1]')", "pragma_table_info('totals')"):
        with pytest.raises(Invalid):
            store.query(f"select * from {table}")


def test_functions_that_people_use_can_be_called(store):
    [row] = store.query(
        "select upper('a') as a, round(sqrt(2), 2) as b, '[7]' -> 0 as c, date('2026-01-31', '+1 day') as d,"
        " sum(1) over () as e, max(1, 2) as f, 'x' like 'X' as g, coalesce(null, 1) as h, printf('%03d', 7) as i"
    )
    assert list(row.values()) == ["A", 1.41, "7", "2026-02-01", 1, 2, 1, 1, "007"]


def test_a_query_that_ends_its_process_fails_alone(store):
    """Whatever SQLite may have been made to do: only the query is lost."""
    before = children()
    failed: list[BaseException] = []

    def ask() -> None:
        try:
            store.query(LONG_CALL, timeout=60)
        except Invalid as error:
            failed.append(error)

    asking = threading.Thread(target=ask)
    asking.start()
    deadline = time.monotonic() + 30
    while not any(psutil.Process(pid).cpu_percent(0.1) > 20 for pid in children()):
        assert time.monotonic() < deadline
    for pid in before or children():
        os.kill(pid, signal.SIGKILL)
    asking.join(30)
    assert "ended the process that ran it" in str(failed[0])
    assert store.query("select 1 as n") == [{"n": 1}]


def test_a_process_is_kept_for_the_next_query(store):
    """One is started for the first query and not for each; those that ask at once get others, up to a limit."""
    one = children()
    for _ in range(3):
        store.query("select 1")
    assert children() == one


def test_more_queries_than_allowed_wait_for_each_other(tmp_path):
    with open_store(tmp_path / "views.db") as store:
        processes = QueryProcesses(at_once=1)
        question = Question(store.database.path, f"{LARGE} select count(*) from n", [], 2.0, 1 << 20)

        def count() -> None:
            with pytest.raises(TimedOut, match="longer than 2 s"):
                processes.ask(question)

        busy = threading.Thread(target=count)
        busy.start()
        while processes._slots._value:
            time.sleep(0.01)
        quick = Question(store.database.path, "select 1", [], 0.1, 1 << 20)
        with pytest.raises(TimedOut, match="this one was not begun"):
            processes.ask(quick)
        busy.join()
        processes.close()


def test_a_process_that_left_is_replaced(store):
    for pid in children():
        os.kill(pid, signal.SIGKILL)
    # As one that had nothing to do for a minute: it is gone, and has said nothing.
    for process in shared_processes()._idle:
        process._process.wait()
        process._process.returncode = 0
    assert store.query("select 1 as n") == [{"n": 1}]


def test_a_process_can_write_no_file(tmp_path):
    with open_store(tmp_path / "views.db") as store:
        store.query("select 1")
        [pid, *_] = children()
        assert psutil.Process(pid).rlimit(psutil.RLIMIT_FSIZE) == (0, 0)
        assert psutil.Process(pid).rlimit(psutil.RLIMIT_AS)[1] < 8 << 30


def test_a_machine_that_has_no_room_for_a_process(monkeypatch):
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(query_process.subprocess, "Popen", refuse)
    with pytest.raises(Transient, match=r"no process can be started for a query \(Too many open files\)"):
        QueryProcesses().ask(Question("x", "select 1", [], 1.0, 1))


def test_what_travels_arrives_as_it_was():
    given = {
        "whole": [0, -1, (1 << 63) - 1, 1 << 70, True],
        "text": ["é", "", "\0"],
        "rest": [None, 1.5, b"\xff", Decimal("1.10"), UUID(int=7)],
        "times": [datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, 1), date(2026, 1, 1), time_of_day(1, 2, 3, 4)],
        "spans": [timedelta(days=-1, microseconds=5)],
        "numpy": [np.int64(3), np.float64(0.5), np.str_("x")],
    }
    body = framed(Answer(["all"], [[packed(given)]]))[LENGTH_BYTES:]
    [[arrived]] = read_answer(body).rows
    assert arrived == given
    assert [type(value) for value in arrived["numpy"]] == [int, float, str]
    with pytest.raises(Invalid, match="the type 'object' is not supported"):
        packed(object())
