"""Which expression Spark failed at, and on which row: such an error comes again, however often the epoch is tried.

Expressions that tasks compute are blamed there (`runtime/projection.py`). Of those that Spark computes, the exception
says that it was a value, and sometimes which part of an expression; not the row. So the epoch's rows are read again, and
each expression is tried by itself on fewer and fewer of them. Rows that a node has made are nowhere to be read.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import pyarrow as pa
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from riverrun.errors import Invalid, RiverrunError
from riverrun.flow.composition import WrittenExpression
from riverrun.position import Position
from riverrun.river import River
from riverrun.runtime.compile.job import Branch, Job, struct_name
from riverrun.runtime.failing_row import Whereabouts, failing_row, failing_rows, first_failing
from riverrun.runtime.plan import Plan, Positions
from riverrun.runtime.source import LogSource, Range, ranges
from riverrun.runtime.task import Tasks
from riverrun.spark.compile import typed_value
from riverrun.spark.deployment import Deployment
from riverrun.spark.failures import cause, throwables
from riverrun.spark.structs import Structs

log = logging.getLogger("riverrun.spark")

_OF_VALUES = ("22", "P0001")  # SQLSTATE: a data exception, or what raise_error and assert_true raise


@dataclass(frozen=True)
class Suspects:
    """Expressions that Spark computes, in the order in which rows pass them."""

    job: Job
    fragments: tuple[str, ...] = ()  # what Spark says has failed; one is part of an expression, or around it

    def of(self, origin: str) -> list[WrittenExpression]:
        """Those over the rows of an origin, and then each in the type that its column has to have."""
        found: list[WrittenExpression] = []
        for branch in self.job.in_spark(origin):
            found += branch.written
            for item in branch.items:
                inside = [one for one in branch.written if item.column is None and one.sql in item.sql]
                cast = typed_value(item, branch.schema)
                found += [replace(one, sql=cast, condition=branch.condition) for one in inside[-1:]]
        return list(dict.fromkeys(found))

    @property
    def unseen(self) -> Mapping[str, list[WrittenExpression]]:
        """What may have failed on a row that cannot be read again, by origin: of rows that are in no topic, if there is
        something."""
        origins = dict.fromkeys(one.origin for one in self.job.branches if one.engine == "spark")
        found = {origin: [one for one in self.of(origin) if self._fits(one)] for origin in origins}
        made = {origin: some for origin, some in found.items() if some and origin not in self.job.sources}
        return made or {origin: some for origin, some in found.items() if some and self.fragments}

    def _fits(self, one: WrittenExpression) -> bool:
        """The cast that a column needs is put around its expression, and Spark makes one of two casts."""
        return not self.fragments or any(part and (part in one.sql or one.sql in part) for part in self.fragments)


def blame(
    error: BaseException, spark: SparkSession, deployment: Deployment, before: Positions, plan: Plan
) -> Invalid | None:
    """The error as the flow's own, when an expression that Spark computes failed on a value; None when it is another.
    `before` are the positions at which the epoch of the plan begins."""
    fragments = failed_fragments(error)
    if fragments is None:
        return None
    suspects = Suspects(deployment.job, fragments)
    start = replace(plan, positions={topic: before.get(topic, {}) for topic in plan.positions})
    parts = ranges(start, plan)
    try:
        found = _replayed(spark, deployment, suspects, parts)
    except RiverrunError as other:  # rows may be gone by now
        log.debug("the rows of the epoch cannot be read again: %s", other)
        found = None
    return found or unseen_row(suspects, cause(error).rstrip("."), parts)


def failed_fragments(error: BaseException) -> tuple[str, ...] | None:
    """What Spark underlines of an expression that failed on a value, if anything; None when it was no value. It is asked
    of the exceptions: in the text of one, the value of an event may look like anything."""
    if isinstance(error, RiverrunError):
        return None
    for thrown in throwables(error):
        try:
            state, contexts = str(thrown.getSqlState() or ""), thrown.getQueryContext()
        except Py4JError:  # not one of Spark's
            continue
        if state.startswith(_OF_VALUES):
            return tuple(_fragment(context) for context in contexts)
    return None


def _fragment(context: object) -> str:
    try:
        return str(context.fragment())  # type: ignore[attr-defined]
    except Py4JError:  # of a call on a data frame there is none
        return ""


def unseen_row(suspects: Suspects, reason: str, parts: Sequence[Range]) -> Invalid | None:
    """The error for a row of which no more is known than what it came from, and in which epoch."""
    found = suspects.unseen
    if not found:
        return None
    names = " or ".join(Whereabouts.of(suspects.job, origin).name for origin in found)
    begin, end = _position(parts, "start"), _position(parts, "end")
    epoch = f", in the epoch from {begin} to before {end}" if parts else ""
    return failing_rows([one for some in found.values() for one in some], names + epoch, reason)


def _position(parts: Sequence[Range], side: Literal["start", "end"]) -> Position:
    topics: dict[str, dict[int, int]] = {}
    for part in parts:
        topics.setdefault(part.topic, {})[part.partition] = getattr(part, side)
    return Position(topics)


class Nowhere:
    """An outbox for rows that are read for something else."""

    def rows(self, branch: Branch, rows: pa.RecordBatch) -> None:
        return

    def message(self, shard: int, kind: int, content: bytes) -> None:
        return


def _replayed(
    spark: SparkSession, deployment: Deployment, suspects: Suspects, parts: Sequence[Range]
) -> Invalid | None:
    """The first row that an expression over a topic's rows fails on."""
    job = deployment.job
    structs = Structs.of_sources(job)
    with River(deployment.river, log=deployment.log) as river:
        topics = {part.topic: river.topic(part.topic) for part in parts}
        for origin, rows in LogSource(Tasks(job), topics, Nowhere()).read(parts):
            given = structs.rows(origin, rows).select([struct_name(origin)])
            for written in suspects.of(origin):
                sql = f"CASE WHEN {written.condition} THEN {written.sql} END" if written.condition else written.sql
                found = first_failing(rows.num_rows, partial(_try, spark, given, sql))
                if found is not None:
                    row, error = found
                    at = Whereabouts.of(job, origin)
                    return failing_row(at, rows.slice(row, 1), written, cause(error).rstrip("."))
    return None


def _try(spark: SparkSession, rows: pa.RecordBatch, sql: str, low: int, high: int) -> PySparkException | None:
    """How an expression fails on some of the rows."""
    some = pa.Table.from_batches([rows.slice(low, high - low)])
    try:
        spark.createDataFrame(some).selectExpr(f"{sql} AS value").toArrow()
    except PySparkException as error:
        return error
    return None
