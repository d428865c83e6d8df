"""Which expression Spark failed at, out of what it says: such an error comes again, however often the epoch is tried.

Expressions that tasks compute are blamed there (`runtime/projection.py`), with the row. Of those that Spark computes, it
says which part of the text failed, and why, but not on which row.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from riverrun.errors import Invalid, RiverrunError
from riverrun.flow.composition import WrittenExpression
from riverrun.position import Position
from riverrun.runtime.compile.job import Branch, Job
from riverrun.spark.failures import cause

# "SQLSTATE: 22…" is a data exception: of a value, not of the machine. The text that failed is shown below it, underlined.
_DATA = re.compile(r"SQLSTATE: 22\w{3}\s*\n== SQL[^\n]*==\n(?P<text>[^\n]*)\n(?P<mark> *\^+)")


def blame(
    error: BaseException,
    job: Job,
    before: Mapping[str, Mapping[int, int]],
    after: Mapping[str, Mapping[int, int]],
) -> Invalid | None:
    """The error as the flow's own, when an expression that Spark computes failed on a value; None when it is another.
    `before` and `after` are the positions between which the epoch reads."""
    found = _DATA.search(str(error))
    if found is None or isinstance(error, RiverrunError):
        return None
    mark = found["mark"]
    fragment = found["text"][mark.index("^") : len(mark)]
    found_at = _find(fragment, job)
    if found_at is None:
        return None
    branch, written = found_at
    topic = {reading.origin: reading.topic for reading in job.readings}.get(branch.origin)
    return _failure(written, cause(error).rstrip("."), _rows(topic, branch.origin, before, after))


def _find(fragment: str, job: Job) -> tuple[Branch, WrittenExpression] | None:
    """The expression with this in it, or else the only one that is in this: the cast that a column needs is put around
    its expression, and Spark makes one of two casts."""
    every = [(branch, one) for branch in job.branches if branch.engine == "spark" for one in branch.written]
    for branch, one in every:
        if fragment and fragment in one.sql:
            return branch, one
    inside = [(branch, one) for branch, one in every if one.sql in fragment]
    return inside[0] if len({one.sql for _, one in inside}) == 1 else None


def _failure(written: WrittenExpression, why: str, where: str) -> Invalid:
    return Invalid(
        f"{written.place}: {written.text} fails on a row of {where}: {why}",
        hint="try_… functions, nullif or a where before it let such rows pass",
    )


def _rows(
    topic: str | None, origin: str, before: Mapping[str, Mapping[int, int]], after: Mapping[str, Mapping[int, int]]
) -> str:
    if topic is None or topic not in after:
        return topic or origin
    begin = {partition: before.get(topic, {}).get(partition, 0) for partition in after[topic]}
    read = {partition: offset for partition, offset in after[topic].items() if offset > begin[partition]}
    first = Position({topic: {partition: begin[partition] for partition in read}})
    return f"{topic}, from {first} to before {Position({topic: read})}"
