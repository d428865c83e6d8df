"""The DDL parser: every type and alias, canonical rendering, errors that name the place, and the way to Arrow."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from riverrun import ddl
from riverrun.ddl import Array, Column, Decimal, Map, Scalar, Struct
from riverrun.errors import Invalid


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("string", Scalar("string")),
        ("varchar(12)", Scalar("string")),
        ("char(3)", Scalar("string")),
        ("boolean", Scalar("boolean")),
        ("tinyint", Scalar("tinyint")),
        ("byte", Scalar("tinyint")),
        ("smallint", Scalar("smallint")),
        ("short", Scalar("smallint")),
        ("int", Scalar("int")),
        ("INTEGER", Scalar("int")),
        ("bigint", Scalar("bigint")),
        ("Long", Scalar("bigint")),
        ("float", Scalar("float")),
        ("real", Scalar("float")),
        ("double", Scalar("double")),
        ("decimal", Decimal(10, 0)),
        ("dec(8)", Decimal(8, 0)),
        ("numeric(8, 2)", Decimal(8, 2)),
        ("date", Scalar("date")),
        ("timestamp", Scalar("timestamp")),
        ("timestamp_ltz", Scalar("timestamp")),
        ("timestamp_ntz", Scalar("timestamp_ntz")),
        ("binary", Scalar("binary")),
        ("array<array<int>>", Array(Array(Scalar("int")))),
        ("map<string, array<double>>", Map(Scalar("string"), Array(Scalar("double")))),
        ("struct<>", Struct(())),
        (
            "struct<a:int, b string not null, `c d`: decimal(5,1) comment 'x'>",
            Struct(
                (
                    Column("a", Scalar("int")),
                    Column("b", Scalar("string"), nullable=False),
                    Column("c d", Decimal(5, 1), comment="x"),
                )
            ),
        ),
    ],
)
def test_types(written: str, meant: ddl.Type) -> None:
    assert ddl.parse(f"x {written}") == [Column("x", meant)]
    assert ddl.parse_type(written) == meant
    assert ddl.parse_type(str(meant)) == meant


def test_columns() -> None:
    assert ddl.parse("User string NOT NULL COMMENT 'it\\'s \\\\', `a``b` int, größe: double, comment string") == [
        Column("User", Scalar("string"), nullable=False, comment="it's \\"),
        Column("a`b", Scalar("int")),
        Column("größe", Scalar("double")),
        Column("comment", Scalar("string")),
    ]


def test_rendering_is_canonical() -> None:
    columns = ddl.parse('a LONG not null comment "it\'s", `b c`: struct<x int,y:array<varchar(3)>>, d dec')
    assert ddl.render(columns) == (
        "a bigint NOT NULL COMMENT 'it\\'s', `b c` struct<x:int,y:array<string>>, d decimal(10,0)"
    )


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [("str", "string"), ("text", "string"), ("float64", "double"), ("int64", "bigint"), ("datetime", "timestamp")],
)
def test_types_of_python_and_numpy_are_answered_with_ours(theirs: str, ours: str) -> None:
    message = f"schema: unknown type '{theirs}' of 'a' at character 3 of 'a {theirs}'. Write {ours}"
    with pytest.raises(Invalid, match=f"^{re.escape(message)}$"):
        ddl.parse(f"a {theirs}")


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("", "schema: no columns at character 1 of ''. Write \"user string, at timestamp\""),
        ("a", "schema: expected the type of 'a', found the end at character 2 of 'a'"),
        ("a varchar", "schema: varchar of 'a' has no length at character 10 of 'a varchar'. Write string"),
        ("a strng", "schema: unknown type 'strng' of 'a' at character 3 of 'a strng'. Did you mean 'string'?"),
        ("a int b int", "schema: expected ',' after column 'a', found 'b' at character 7 of 'a int b int'"),
        ("a int,", "schema: expected a column name, found the end at character 7 of 'a int,'"),
        (
            "a int, A string",
            "schema: column 'A' is there twice (case does not count) at character 8 of 'a int, A string'",
        ),
        (
            "a array<int",
            "schema: expected '>' after the array type of 'a', found the end at character 12 of 'a array<int'",
        ),
        ("a array", "schema: expected '<' after array, found the end at character 8 of 'a array'"),
        ("a map<int>", "schema: expected ',' after the key type of map 'a', found '>' at character 10 of 'a map<int>'"),
        ("a decimal(39,0)", "precision is 1 to 38, scale 0 to precision at character 3 of 'a decimal(39,0)'"),
        ("a decimal(3,4)", "decimal(3,4) of 'a': precision is 1 to 38"),
        ("a varchar(x)", "schema: expected a number in varchar(…), found 'x' at character 11"),
        ("a int not", "schema: expected NULL after NOT of column 'a', found the end"),
        ("a int comment b", "schema: expected a quoted text after COMMENT of column 'a', found 'b'"),
        ("a int; b int", "schema: unexpected ';' at character 6 of 'a int; b int'"),
        ("a struct<b:int,b:int>", "schema: column 'b' is there twice"),
        ("a map<map<int,int>,int>", "schema: a map cannot be the key of map 'a'"),
        ("a int default 3", "schema: expected ',' after column 'a', found 'default'"),
    ],
)
def test_refusals_name_the_place(written: str, message: str) -> None:
    with pytest.raises(Invalid) as caught:
        ddl.parse(written)
    assert message in str(caught.value)


def test_a_schema_is_text() -> None:
    with pytest.raises(Invalid, match="a schema is a DDL string"):
        ddl.parse({"a": "int"})  # type: ignore[arg-type]


NAMES = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), min_size=1, max_size=6)
PLAIN = ("string", "boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "date", "binary")
SCALARS = st.sampled_from([*PLAIN, "timestamp", "timestamp_ntz"]).map(Scalar)
DECIMALS = st.integers(1, 38).flatmap(lambda p: st.integers(0, p).map(lambda s: Decimal(p, s)))


def columns(types: st.SearchStrategy[ddl.Type]) -> st.SearchStrategy[list[Column]]:
    one = st.builds(Column, NAMES, types, st.booleans(), st.none() | st.text(max_size=5))
    return st.lists(one, min_size=1, max_size=4, unique_by=lambda column: column.name.lower())


TYPES: st.SearchStrategy[ddl.Type] = st.recursive(
    SCALARS | DECIMALS,
    lambda inner: (
        inner.map(Array)
        | st.builds(Map, SCALARS | DECIMALS, inner)
        | columns(inner).map(lambda fields: Struct(tuple(fields)))
    ),
    max_leaves=6,
)


@given(columns(TYPES))
@settings(max_examples=150, deadline=None)
def test_what_is_rendered_is_read_back(schema: list[Column]) -> None:
    assert ddl.parse(ddl.render(schema)) == schema


@given(columns(TYPES))
@settings(max_examples=100, deadline=None)
def test_arrow_and_back(schema: list[Column]) -> None:
    assert ddl.columns_from_arrow(ddl.arrow_schema(schema)) == schema


def test_arrow_types_are_those_spark_wants() -> None:
    columns = ddl.parse(
        "a string not null, b timestamp, c timestamp_ntz, d map<string,int>, e dec(9,2), f array<boolean>"
    )
    assert ddl.arrow_schema(columns) == pa.schema(
        [
            pa.field("a", pa.string(), nullable=False),
            ("b", pa.timestamp("us", "UTC")),
            ("c", pa.timestamp("us")),
            ("d", pa.map_(pa.string(), pa.int32())),
            ("e", pa.decimal128(9, 2)),
            ("f", pa.list_(pa.bool_())),
        ]
    )


@pytest.mark.parametrize(
    ("arrow", "meant"),
    [
        (pa.large_string(), "string"),
        (pa.string_view(), "string"),
        (pa.dictionary(pa.int32(), pa.string()), "string"),
        (pa.large_binary(), "binary"),
        (pa.binary(4), "binary"),
        (pa.uint8(), "smallint"),
        (pa.uint32(), "bigint"),
        (pa.uint64(), "decimal(20,0)"),
        (pa.float16(), "float"),
        (pa.date64(), "date"),
        (pa.timestamp("ns", "Europe/Berlin"), "timestamp"),
        (pa.timestamp("s"), "timestamp_ntz"),
        (pa.large_list(pa.int8()), "array<tinyint>"),
        (pa.list_(pa.int8(), 3), "array<tinyint>"),
    ],
)
def test_from_arrow_widens(arrow: pa.DataType, meant: str) -> None:
    assert str(ddl.from_arrow(arrow)) == meant


@pytest.mark.parametrize("arrow", [pa.null(), pa.time64("us"), pa.duration("us"), pa.decimal256(50, 2)])
def test_from_arrow_refuses_what_spark_has_not(arrow: pa.DataType) -> None:
    with pytest.raises(Invalid, match="Spark has no type"):
        ddl.from_arrow(arrow)
