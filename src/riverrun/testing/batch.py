"""What a flow must come to: the same as a query over all its input, whatever the order and the epochs."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa

from riverrun.columns import DELETED
from riverrun.envelopes.envelope import Envelope
from riverrun.errors import Invalid
from riverrun.expressions.statement import database
from riverrun.flow import Flow
from riverrun.flow.operators.source import Source
from riverrun.flow.operators.table import TableSource
from riverrun.log.rows import RowSchema
from riverrun.runtime.enveloped import changes_in
from riverrun.settings import Settings
from riverrun.testing.arrival import Arrival, batched, in_order, shuffled
from riverrun.testing.difference import Row, differences, report
from riverrun.testing.local import input_specs
from riverrun.testing.result import Result, appendable
from riverrun.testing.run import run_flow
from riverrun.testing.script import Append, steps
from riverrun.views.columns import rows_of

TOLERANCE = 1e-9


def assert_same_as_batch(
    flow: Flow,
    inputs: Mapping[str, Any],
    sql: Mapping[str, str],
    *,
    times: int = 4,
    seed: int = 0,
    shuffle: bool = True,
    crashes: bool = True,
    **options: Any,
) -> None:
    """Each view named in `sql` equals that query over the whole input, however the input arrives.

    The queries are DuckDB's SQL. A table per topic has its rows; of a topic that the flow reads as a table, the last
    row per key that was not deleted. The flow runs `times` times, each with other epochs, and with `shuffle` in another
    order within the lateness; `crashes` come between epochs. Other options are those of `run_flow`.
    """
    _check(flow, inputs, sql)
    tables = _tables(flow, inputs, options)
    rows = {topic: rows_of(table) for topic, table in tables.items()}
    wanted = _queried(flow, tables, sql)
    for number in range(times):
        dice = random.Random(f"{seed}-{number}")
        arrival = shuffled(flow, rows, dice) if shuffle else in_order(rows)
        result = _run(flow, arrival, dice, number, crashes, options)
        for name, expected in wanted.items():
            lines = differences(result.views[name], expected, _view_key(flow, name), TOLERANCE)
            if lines:
                context = f"view against query, {_told(seed, number, result)}"
                raise AssertionError(report(f"view {name!r}", lines, context))


def assert_same_batching(
    flow: Flow,
    inputs: Mapping[str, Any],
    *,
    times: int = 4,
    seed: int = 0,
    shuffle: bool = False,
    crashes: bool = True,
    **options: Any,
) -> None:
    """Views and derived topics come out the same however the input is cut into epochs, and wherever it crashes between.

    With `shuffle` also in any order within the lateness. Of a derived topic that changes, its newest rows are compared.
    """
    _check(flow, inputs, {})
    rows = {topic: rows_of(table) for topic, table in _tables(flow, inputs, options).items()}
    first = run_flow(flow, _one_epoch(in_order(rows)), **options)
    for number in range(times):
        dice = random.Random(f"{seed}-{number}")
        arrival = shuffled(flow, rows, dice) if shuffle else in_order(rows)
        result = _run(flow, arrival, dice, number, crashes, options)
        compare(flow, result, first, f"against all in one epoch, {_told(seed, number, result)}")


def compare_engines(flow: Flow, inputs: Any, **options: Any) -> tuple[Result, Result]:
    """The script run in this process and with Spark: views and topics are the same. Gives both results."""
    local, spark = (run_flow(flow, inputs, engine=engine, **options) for engine in ("local", "spark"))
    compare(flow, local, spark, "local against Spark")
    return local, spark


def compare(flow: Flow, one: Result, other: Result, context: str) -> None:
    """Fails where views or topics of two runs differ."""
    for name in flow.views:
        lines = differences(one.views[name], other.views[name], _view_key(flow, name), TOLERANCE)
        if lines:
            raise AssertionError(report(f"view {name!r}", lines, context))
    for name in one.topics:
        end = flow.derived.get(name)
        here, there = one.topics[name], other.topics[name]
        key: tuple[str, ...] = ()
        if end is not None and (end.node.is_table or end.node.retracts):
            key = end.key
        lines = differences(_newest(here, key), _newest(there, key), key, TOLERANCE)
        if lines:
            raise AssertionError(report(f"topic {name!r}", lines, context))


def _run(
    flow: Flow, arrival: Arrival, dice: random.Random, number: int, crashes: bool, options: Mapping[str, Any]
) -> Result:
    script = _one_epoch(arrival) if number == 0 else batched(arrival, dice, crashes)
    return run_flow(flow, script, **options)


def _one_epoch(arrival: Arrival) -> list[Any]:
    return [Append(topic, [row]) for topic, row in arrival]


def _told(seed: int, number: int, result: Result) -> str:
    return f"seed {seed}, run {number + 1}, {len(result.epochs)} epochs"


def _check(flow: Flow, inputs: Any, sql: Mapping[str, str]) -> None:
    if not isinstance(inputs, Mapping):
        raise Invalid(
            "the rows must be given by topic: epochs and order are chosen here", hint='Write {"orders": rows}'
        )
    steps(inputs, flow.topics())
    for name in sql:
        if name not in flow.views:
            raise Invalid(f"flow {flow.name!r} has no view {name!r}", hint=f"It has {', '.join(flow.views)}")


def _view_key(flow: Flow, name: str) -> tuple[str, ...]:
    """The columns that tell a view's rows apart; none where hidden ones do."""
    key = flow.views[name].key
    return () if any(part.startswith("_") for part in key) else key


def _newest(rows: Sequence[Row], key: Sequence[str]) -> list[Row]:
    """The table that a changelog leaves; without a key, all rows."""
    if not key:
        return list(rows)
    kept = {tuple(row[name] for name in key): row for row in rows}
    return [row for row in kept.values() if not row.get("_deleted")]


def _tables(flow: Flow, inputs: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, pa.Table]:
    """The rows of each topic as it takes them, in whatever form they were given."""
    found = {}
    for spec in input_specs(flow, options.get("topics", ()), 1):
        stored = spec.resolve()
        rows = appendable(inputs.get(spec.name, []), stored)
        found[spec.name] = pa.Table.from_batches([RowSchema(stored, Settings().max_record_bytes).batch(rows)])
    return found


def _queried(flow: Flow, tables: Mapping[str, pa.Table], sql: Mapping[str, str]) -> dict[str, list[dict[str, Any]]]:
    db = database().cursor()
    db.execute("SET TimeZone = 'UTC'")
    try:
        for topic, table in tables.items():
            db.register(topic, _visible(flow, topic, table))
        return {name: rows_of(db.sql(query).to_arrow_table()) for name, query in sql.items()}
    except duckdb.Error as error:
        raise Invalid(f"DuckDB cannot run the query: {error}") from None
    finally:
        db.close()


def _visible(flow: Flow, topic: str, table: pa.Table) -> pa.Table:
    sources = [node for node in flow.nodes if isinstance(node, Source) and node.topic == topic]
    tables = [node for node in sources if isinstance(node, TableSource)]
    if tables and len(tables) == len(sources) and all(node.form == tables[0].form for node in tables):
        envelope = tables[0].envelope
        table = _last(table if envelope is None else _inside(envelope, table), list(tables[0].topic_key))
    return table.select([name for name in table.column_names if not name.startswith("_")])


def _inside(envelope: Envelope, messages: pa.Table) -> pa.Table:
    """The rows of the table that stand in messages; those that cannot be read are no part of it."""
    found = changes_in(envelope, messages)
    if found.kept.null_count < len(found.kept):
        raise Invalid(
            "some messages came without values that did not change, and no query over messages knows these",
            hint="Use assert_same_batching, or compare with rows of your own",
        )
    return pa.Table.from_batches([found.rows]).append_column(DELETED, pa.array(found.deleted))


def _last(table: pa.Table, key: list[str]) -> pa.Table:
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    newest = frame.unique(key, keep="last", maintain_order=True)
    if DELETED in newest.columns:
        newest = newest.filter(~pl.col(DELETED).fill_null(False))
    return newest.to_arrow()
