"""Schemas: names without regard to case, and Spark's common types."""

from __future__ import annotations

import pytest

from riverrun import ddl
from riverrun.errors import Invalid, NotFound
from riverrun.flow.schema import Schema, common, comparable, is_orderable


def test_names_are_found_whatever_their_case() -> None:
    schema = Schema.parse("User string, amount double")
    assert schema.resolve("USER") == "User"
    assert "user" in schema
    assert str(schema["user"]) == "string"
    assert list(schema) == ["User", "amount"]
    assert str(schema) == "User string, amount double"
    with pytest.raises(NotFound, match=r"there is no column 'usr'\. There are: User, amount"):
        schema.resolve("usr")
    with pytest.raises(KeyError):
        schema["usr"]


def test_no_name_twice() -> None:
    with pytest.raises(Invalid, match="column 'A' is there twice"):
        Schema.of([("a", None), ("A", None)])


def test_an_open_schema_has_every_column() -> None:
    schema = Schema((), open=True)
    assert schema.resolve("x") == "x"
    assert schema["x"] is None
    assert str(schema) == "…"


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        ("int", "int", "int"),
        ("tinyint", "bigint", "bigint"),
        ("int", "float", "double"),
        ("float", "double", "double"),
        ("decimal(8,2)", "int", "decimal(12,2)"),
        ("decimal(8,2)", "decimal(10,4)", "decimal(10,4)"),
        ("decimal(38,0)", "decimal(38,10)", "decimal(38,0)"),
        ("decimal(8,2)", "double", "double"),
        ("date", "timestamp", "timestamp"),
        ("string", "int", None),
        ("timestamp", "timestamp_ntz", None),
        ("array<int>", "array<int>", "array<int>"),
    ],
)
def test_common_types(one: str, other: str, both: str | None) -> None:
    left, right = ddl.parse_type(one), ddl.parse_type(other)
    for found in (common(left, right), common(right, left)):
        assert (None if found is None else str(found)) == both
    assert comparable(left, right) == (both is not None)
    assert comparable(left, None)


def test_maps_cannot_be_compared() -> None:
    assert is_orderable(ddl.parse_type("struct<a:array<int>>"))
    assert not is_orderable(ddl.parse_type("struct<a:array<map<string,int>>>"))
