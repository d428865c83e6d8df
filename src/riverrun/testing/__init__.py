"""Test flows on lists of rows, without Spark.

>>> from riverrun.flow import Flow
>>> from riverrun.flow.aggregates import count
>>> flow = Flow("shop")
>>> view = flow.view("orders", flow.stream("orders", "user string").group("user").agg(n=count()))
>>> run_flow(flow, {"orders": [{"user": "ada"}, {"user": "bob"}, {"user": "ada"}]}).views["orders"]
[{'user': 'ada', 'n': 2}, {'user': 'bob', 'n': 1}]
"""

try:
    from riverrun.testing.batch import assert_same_as_batch, assert_same_batching, compare_engines
    from riverrun.testing.result import END, EpochSeen, Result, Rows
    from riverrun.testing.run import run_flow
    from riverrun.testing.script import Advance, Append, Crash, Delete, Process, Tick
except ModuleNotFoundError as error:
    from riverrun.errors import not_installed

    raise not_installed("riverrun.testing", error, "spark") from None

__all__ = [
    "END",
    "Advance",
    "Append",
    "Crash",
    "Delete",
    "EpochSeen",
    "Process",
    "Result",
    "Rows",
    "Tick",
    "assert_same_as_batch",
    "assert_same_batching",
    "compare_engines",
    "run_flow",
]
