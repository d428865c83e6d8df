"""Names of topics and columns: any name a table may have becomes one, and comes back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from riverrun.capture.changes import CapturedColumn, CapturedTable
from riverrun.capture.topics import check_capture_name, column_name, table_parts, table_spec, topic_name
from riverrun.columns import check_name
from riverrun.errors import Invalid

NAMES = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=7)


@given(schema=NAMES, table=NAMES)
def test_every_name_is_a_topic_and_comes_back(schema: str, table: str) -> None:
    topic = topic_name("shop", (schema, table))
    assert check_name(topic) == topic
    assert table_parts(topic) == (schema, table)
    assert table_parts(topic_name("shop", (table,))) == (table,)


def test_the_topic_of_transactions_is_nobody_elses() -> None:
    assert topic_name("shop", ("transactions",)) == "shop.-74ransactions"
    assert topic_name("shop", ("public", "transactions")) == "shop.public.transactions"


@given(one=NAMES, other=NAMES)
def test_different_columns_stay_different_and_none_is_ours(one: str, other: str) -> None:
    assert not column_name(one).startswith("_")
    if one != other and "%" not in one + other:
        assert column_name(one) != column_name(other)


def test_a_name_that_is_too_long_or_has_dots() -> None:
    with pytest.raises(Invalid, match="cannot be the name of a topic"):
        topic_name("shop", ("ü" * 60, "ü" * 60))
    with pytest.raises(Invalid, match="without dots"):
        check_capture_name("a.b")


def test_the_topic_of_a_table() -> None:
    columns = (CapturedColumn("the id", "the id", "bigint"), CapturedColumn("_x", "col__x", "string"))
    spec = table_spec("shop", CapturedTable(("public", "t"), columns, ("the id",)))
    assert spec.schema == "`the id` bigint, col__x string, _position string, _transaction string"
    assert (spec.key, spec.compact, spec.time) == (("the id",), True, None)
