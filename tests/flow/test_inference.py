"""Types of expressions are Spark's, or unknown."""

from __future__ import annotations

import pytest

from riverrun.flow.expressions import expression
from riverrun.flow.schema import Schema

SCHEMA = Schema.parse(
    "i int, l bigint, t tinyint, f float, d double, dec decimal(8,2), s string, b boolean, at timestamp, "
    "day date, raw binary, tags array<string>, m map<string,int>, st struct<x:int,y:array<double>>, "
    "many array<struct<z:int>>"
)


@pytest.mark.parametrize(
    ("sql", "known"),
    [
        # literals
        ("1", "int"),
        ("3000000000", "bigint"),
        ("99999999999999999999", "decimal(20,0)"),
        ("1.50", "decimal(3,2)"),
        ("0.5", "decimal(1,1)"),
        ("1e3", "double"),
        ("1L", "bigint"),
        ("'x'", "string"),
        ("true", "boolean"),
        ("null", None),
        # arithmetic
        ("i + 1", "int"),
        ("t + i", "int"),
        ("-i", "int"),
        ("i * l", "bigint"),
        ("l + d", "double"),
        ("l * f", "double"),
        ("f + f", "float"),
        ("i / 2", "double"),
        ("i div 2", "bigint"),
        ("i % l", "bigint"),
        ("i & 3", "int"),
        ("dec + dec", "decimal(9,2)"),
        ("dec + 1", "decimal(9,2)"),
        ("dec * 2", "decimal(10,2)"),
        ("dec * i", "decimal(19,2)"),
        ("dec / 3", "decimal(12,6)"),
        ("dec * d", "double"),
        ("i * 1.5", "decimal(13,1)"),
        ("s + 1", "bigint"),
        # time
        ("at + interval 1 hour", "timestamp"),
        ("interval 1 hour + at", "timestamp"),
        ("at - at", None),
        ("day + interval 1 day", "date"),
        ("date_trunc('hour', at)", "timestamp"),
        ("to_date(at)", "date"),
        ("date_add(day, 1)", "date"),
        ("dateadd(HOUR, 1, at)", "timestamp"),
        ("datediff(day, day)", "int"),
        ("timestampdiff(SECOND, at, at)", "bigint"),
        ("year(at)", "int"),
        ("unix_timestamp(at)", "bigint"),
        ("date_format(at, 'yyyy')", "string"),
        ("timestamp '2024-01-01 00:00:00'", "timestamp"),
        # truth
        ("i > 1 and not b", "boolean"),
        ("s like 'x%'", "boolean"),
        ("i in (1, 2)", "boolean"),
        ("i between 1 and 2", "boolean"),
        ("s is null", "boolean"),
        ("i <=> l", "boolean"),
        ("array_contains(tags, 'a')", "boolean"),
        ("exists(tags, x -> x = 'a')", "boolean"),
        # choices
        ("case when b then i else l end", "bigint"),
        ("case when b then null else 1.5 end", "decimal(2,1)"),
        ("case (i) when (1) then 1.5 end", "decimal(2,1)"),
        ("if(b, i, d)", "double"),
        ("if(b, i, s)", "bigint"),
        ("coalesce(i, l)", "bigint"),
        ("greatest(i, dec)", "decimal(12,2)"),
        ("nvl(s, 'x')", "string"),
        ("nullif(i, 0)", "int"),
        # text
        ("upper(s)", "string"),
        ("s || i", "string"),
        ("length(s)", "int"),
        ("substring(s, 1, 2)", "string"),
        ("substring(raw, 1, 2)", None),
        ("split(s, ',')[0]", "string"),
        ("get_json_object(s, '$.a')", "string"),
        ("sha2(s, 256)", "string"),
        # numbers
        ("round(d, 2)", "double"),
        ("round(dec, 1)", "decimal(8,1)"),
        ("floor(d)", "bigint"),
        ("abs(dec)", "decimal(8,2)"),
        ("sqrt(i)", "double"),
        ("hash(s)", "int"),
        ("xxhash64(s)", "bigint"),
        # casts
        ("cast(s as decimal(5,1))", "decimal(5,1)"),
        ("s::timestamp", "timestamp"),
        ("try_cast(s as array<int>)", "array<int>"),
        ("cast(s as timestamp_ntz)", "timestamp_ntz"),
        # nested
        ("tags[0]", "string"),
        ("m['k']", "int"),
        ("element_at(m, 'k')", "int"),
        ("st.x", "int"),
        ("st.y[0]", "double"),
        ("many.z", "array<int>"),
        ("many[0].z", "int"),
        ("size(tags)", "int"),
        ("array(i, l)", "array<bigint>"),
        ("named_struct('a', i, 'b', s)", "struct<a:int,b:string>"),
        ("transform(tags, x -> length(x))", "array<int>"),
        ("filter(tags, x -> x > 'a')", "array<string>"),
        ("array_distinct(tags)", "array<string>"),
        # unknown
        ("my_function(i)", None),
        ("from_json(s, 'x int')", None),
    ],
)
def test_types(sql: str, known: str | None) -> None:
    found = expression(sql, SCHEMA).type
    assert (None if found is None else str(found)) == known
