"""What people type who come from other libraries is answered with what does it here, and the line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import riverrun as rr
from riverrun import habits
from riverrun.errors import Invalid
from riverrun.flow.stream import Stream
from riverrun.flow.table import Table


@pytest.mark.parametrize(
    ("typed", "ours"),
    [
        (lambda s: s.filter("amount > 5"), r"Use where\("),
        (lambda s: s.group_by("user"), r"Use group\("),
        (lambda s: s.groupBy("user"), r"Use group\("),
        (lambda s: s.withColumn("x", "1"), r"Use with_columns\("),
        (lambda s: s.with_column("x", "1"), r"Use with_columns\("),
        (lambda s: s.agg(n=1), r"Use group\("),
        (lambda s: s.map(str), r"transform\(fn\)"),
        (lambda s: s.flat_map(str), r"transform\(fn\)"),
        (lambda s: s.key_by("user"), r"Use group\("),
        (lambda s: s.merge(s), r"Use join\("),
        (lambda s: s.drop_duplicates("user"), r"Use dedupe\("),
        (lambda s: s.sink_to("x"), r"flow\.view\("),
        (lambda s: s.timeWindow("1 minute"), r"Use window\(rr\.tumbling"),
        (lambda s: s.cache(), "is computed once"),
        (lambda s: s.wher("x"), "Did you mean 'where'"),
        (lambda s: s.window(rr.tumbling("1 minute")).count(), r"it is finished by agg. Write .agg\("),
        (lambda s: s.group("user").sum("amount"), r"it is finished by agg. Write .agg\("),
    ],
)
def test_methods_of_other_libraries_are_answered_with_ours(
    orders: Stream, typed: Callable[[Any], object], ours: str
) -> None:
    with pytest.raises(AttributeError, match=rf"test_habits.py:\d+: .*{ours}") as caught:
        typed(orders)
    assert isinstance(caught.value, Invalid)


@pytest.mark.parametrize(
    ("typed", "ours"),
    [
        (lambda t: t.groupBy("user"), r"Use group\(.*windows are of streams"),
        (lambda t: t.drop_duplicates("user"), r"one row for each key.*latest\("),
        (lambda t: t.dropDuplicates("user"), r"one row for each key.*latest\("),
        (lambda t: t.rolling("1 minute"), "windows are of streams"),
        (lambda t: t.timeWindow("1 minute"), "windows are of streams"),
        (lambda t: t.merge(t), r"Use join\(other, on=\"user\", how=\"left\"\)$"),
        (lambda t: t.merge_asof(t), r"stream.as_of\(table"),
        (lambda t: t.toTable(), "It is a table"),
        (lambda t: t.sort_values("n"), r"Use top\("),
        (lambda t: t.cache(), "is computed once"),
    ],
)
def test_tables_are_answered_with_what_tables_have(orders: Stream, typed: Callable[[Any], object], ours: str) -> None:
    table = orders.group("user").agg(n=rr.count())
    with pytest.raises(AttributeError, match=rf"test_habits.py:\d+: a table has no .*{ours}"):
        typed(table)


@pytest.mark.parametrize(
    ("name", "ours"),
    [("var", "rr.stddev"), ("Window", r"stream.window\("), ("lag", "Use match"), ("row_number", r"rank=\"place\"")],
)
def test_functions_that_are_something_else_here(name: str, ours: str) -> None:
    with pytest.raises(AttributeError, match=rf"has no attribute '{name}'. .*{ours}"):
        getattr(rr, name)


@pytest.mark.parametrize(
    ("typed", "ours"),
    [
        (lambda f: f.fromSource("orders"), r"Use flow.stream\("),
        (lambda f: f.addSource("orders"), r"Use flow.stream\("),
        (lambda f: f.sql("select 1"), "with SQL inside"),
        (lambda f: f.source("orders"), r"Use flow.stream\("),
        (lambda f: f.sink("orders"), r"flow.view\("),
        (lambda f: f.where("n > 1"), "Streams and tables have it"),
        (lambda f: f.strem("orders"), "Did you mean 'stream'"),
    ],
)
def test_methods_that_flows_have_elsewhere_are_answered(typed: Callable[[Any], object], ours: str) -> None:
    with pytest.raises(AttributeError, match=rf"test_habits.py:\d+: a flow has no .*{ours}"):
        typed(rr.Flow("shop"))


def test_a_column_is_not_an_attribute(orders: Stream) -> None:
    with pytest.raises(
        AttributeError, match=r"test_habits.py:\d+: amount is a column of this stream. Columns are named"
    ):
        _ = orders.amount > 5
    with pytest.raises(Invalid, match=r"test_habits.py:\d+: 'amount' in brackets"):
        orders["amount"]


def test_what_is_answered_is_not_there_under_that_name() -> None:
    """An answer for a method that exists would never be given."""
    assert not [name for name in habits.METHODS if hasattr(Stream, name) and hasattr(Table, name)]
    assert not [name for name in habits.FLOW_METHODS if hasattr(rr.Flow, name)]
    assert not set(habits.FUNCTIONS) & set(rr.__all__)


def test_functions_of_other_libraries_are_answered_with_ours() -> None:
    with pytest.raises(AttributeError, match=r"has no attribute 'mean'. Use rr.avg"):
        _ = rr.mean
    with pytest.raises(AttributeError, match="has no attribute 'tumblin'. Did you mean 'tumbling'?"):
        _ = rr.tumblin


def test_the_module_shows_its_public_names_only() -> None:
    assert set(dir(rr)) == {*rr.__all__, "__version__"}


def test_a_flow_shows_what_people_use() -> None:
    shown = {name for name in dir(rr.Flow) if not name.startswith("_")}
    results = {"alert", "topic", "view"}
    assert shown == {"ends", "inputs", "nodes", "render", "stream", "table", "to_json", "topics", *results}


@pytest.mark.parametrize(
    ("condition", "ours"),
    [
        ("amount in [1, 2]", r"Write in \(…\)"),
        ("amount IN[1]", r"Write in \(…\)"),
        ("user.notnull()", "is not null"),
        ("amount > 1 and user.isna()", "is null"),
        ("user.isin(['ada'])", "in \\(1, 2\\)"),
        ("user.str.upper() = 'ADA'", "SQL has functions"),
    ],
)
def test_methods_of_columns_in_sql_are_refused_where_they_are_written(
    orders: Stream, condition: str, ours: str
) -> None:
    with pytest.raises(Invalid, match=rf"test_habits.py:\d+: .*{ours}"):
        orders.where(condition)


@pytest.mark.parametrize("kind", ["datetime64[ns]", "datetime64[us, UTC]", "datetime64"])
def test_times_of_numpy_are_timestamps(kind: str) -> None:
    with pytest.raises(Invalid, match="Write timestamp"):
        rr.Flow("shop").stream("orders", f"at {kind}")
