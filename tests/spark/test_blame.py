"""What Spark says of an expression that failed, as the flow's own error. No Spark is needed for that."""

from __future__ import annotations

from riverrun.errors import Invalid
from riverrun.flow import Flow
from riverrun.runtime.compile.compiler import compile_flow
from riverrun.spark.blame import blame

SAID = """An error occurred while calling o91.collectToPython.
: org.apache.spark.SparkNumberFormatException: [CAST_INVALID_INPUT] The value 'many' of the type "STRING" cannot be cast \
to "DOUBLE" because it is malformed. SQLSTATE: 22018
== SQL (line 1, position {position}) ==
{text}
{mark}

\tat org.apache.spark.sql.errors.QueryExecutionErrors$.invalidInput(QueryExecutionErrors.scala:145)
"""


def test_an_expression_that_spark_computes_is_named_with_its_line_and_the_rows_of_the_epoch() -> None:
    flow = Flow("shop")
    rows = flow.stream("orders", "user string, amount string")
    priced = rows.with_columns(price="cast(amount as double) * 2")
    flow.view("prices", priced.where("price > 1"), key="user")
    job = compile_flow(flow, 2, engine="spark")
    [branch] = [branch for branch in job.branches if branch.engine == "spark"]
    written = branch.written[0]
    failed = written.sql.removesuffix(" * 2")
    text = f"struct({written.sql})"
    mark = " " * text.index(failed) + "^" * len(failed)
    error = RuntimeError(SAID.format(position=8, text=text, mark=mark))
    found = blame(error, job, {"orders": {0: 7, 1: 2}}, {"orders": {0: 9, 1: 2, 2: 4}})
    assert isinstance(found, Invalid)
    assert f"test_blame.py:{priced.node.place.line}: cast(amount as double) * 2 fails on a row of orders," in str(found)
    assert "from orders@0:7,2:0 to before orders@0:9,2:4: The value 'many' of the type" in str(found)


def failed_at(flow: Flow, text: str, failed: str) -> Invalid | None:
    """What is blamed when Spark underlines that part of the text."""
    mark = " " * text.index(failed) + "^" * len(failed)
    error = RuntimeError(SAID.format(position=1, text=text, mark=mark))
    return blame(error, compile_flow(flow, 2, engine="spark"), {}, {"orders": {0: 9}})


def test_the_cast_around_an_expression_is_blamed_on_it() -> None:
    """Spark makes one cast of two, and underlines the outer one, which nobody wrote."""
    flow = Flow("shop")
    rows = flow.stream("orders", "user string, amount string")
    priced = rows.with_columns(price="cast(amount as double)", more="cast(user as double)")
    flow.view("prices", priced.where("price > 1"), key="user")
    branches = compile_flow(flow, 2, engine="spark").branches
    price, more = (written.sql for branch in branches if branch.engine == "spark" for written in branch.written[:2])
    text = f"named_struct('_value0', CAST({price} AS double), '_value1', {more}, …"
    found = failed_at(flow, text, f"CAST({price} AS double)")
    assert f"test_blame.py:{priced.node.place.line}: cast(amount as double) fails on a row of orders," in str(found)
    assert failed_at(flow, text, text) is None, "it may be either"
    assert failed_at(flow, text, "'_value0'") is None


def test_other_errors_are_left_as_they_are() -> None:
    flow = Flow("shop")
    flow.view("all", flow.stream("orders", "user string"), key="user")
    job = compile_flow(flow, 2)
    assert blame(RuntimeError("[CANNOT_SOMETHING] a task was lost. SQLSTATE: 08000"), job, {}, {}) is None
    assert blame(Invalid("SQLSTATE: 22018\n== SQL (line 1) ==\nx\n^"), job, {}, {}) is None
