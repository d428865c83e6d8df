"""What the generator leaves out, and why."""

from __future__ import annotations

WITHOUT_ORACLE = {
    "event times at the end of the calendar": "one such row ends all windows of a program; "
    "tests/runtime/test_calendar.py has every kind of window there",
    "as_of on computed tables": "which `_version` a row has that a node made, nothing says; "
    "tests/joins/test_as_of.py looks at their values",
    "changes of full joins": "whether a row of one side follows one of the other as an update, nothing says",
    "changes of tables whose rows have no certain time": "that of a group or of a join of tables, behind which no window "
    "or join of streams comes",
    "order of equal times across partitions": "only rows of one partition have an order; times differ there instead",
    "approximate aggregates": "any answer within their error is right; tests/kernels/test_aggregates.py has the bounds",
    "rules that change while the flow runs": "tests/kernels/test_rule_match.py compares them with the oracle of patterns",
    "transform": "only Spark has it; tests/spark/test_transform.py",
    "what comes behind a match": "how far open attempts hold time back is in tests/kernels/test_match.py",
    "expressions over nested columns": "they are only handed on here; tests/expressions has what is inside",
}
"""What no program has, since the oracle has nothing to go by, or since another test has it."""
