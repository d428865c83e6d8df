"""The text of an expression stays; columns are found in their places, and nothing else is taken for one."""

from __future__ import annotations

import pytest

from riverrun.errors import Invalid
from riverrun.flow.expressions import expression, item
from riverrun.flow.schema import HIDDEN, Schema

SCHEMA = Schema.parse(
    "u string, n int, x double, t timestamp, d date, xs array<int>, m map<string,int>, s struct<u:string,n:int>, "
    "`it's` int, `a``b` int, `a b` int, hour int, upper string, date date, value int, Name string, rows array<int>, "
    "unit string, e array<struct<n:int>>"
)

# Columns are marked.
MARKED = r"""
«u» = 'it''s'
«u» = "say ""hi"" " or «u» = "it's" or «u» = 'a""b'
«u» = 'a\'u' and «u» = "\"u" and «u» <> 'a\nb\\'
«u» rlike '\\d+' and «u» = r'a\d u' and «u» like '10\\%'
«u» = 'u n x' and «u» = "u"
«u» = 'a' 'b'
to_char(«n»,'0009')
to_char(«n», «u»)
log10(«n») + log(2,  «x») + LOG2(«x»)
collate(«u»,'UTF8_LCASE') = «u» collate UTF8_LCASE
1L = «n» and 2S = 2 and 1.0D = 1 and .5 > «x» and 1e3 <> 1.5BD and 0x1F > «n»
CASE WHEN «n»=1 THEN «u» ELSE 'u' END
if(«n» is null, «n», -«n»)
transform(«xs», x -> x + 1)
transform(«xs», X -> x + «n»)
transform(«xs», n -> n + «x»)
transform(«e», n -> n.n + «x»)
aggregate(«xs», 0, (acc, n) -> acc + n * «x»)
filter(«xs», x -> exists(«xs», y -> y > x and x > «n»))
transform_values(«m», (k, v) -> v + «n»)
«s».u = «u» and «s».`n` = «n»
«e».n[0] + «e»[0].n
named_struct('u', «n»).u
named_struct('u', «u», 'n', «s».n)
«m»['u'] + element_at(«m», 'n') + try_element_at(«xs», «n»)
«`u`» = `upper`(«upper»)
«`it's`» + «`a``b`» + «`A B`»
upper(«upper»)
date(«date») > date '2026-01-01' and «date» is not null
extract(hour from «t») = «hour»
timestampdiff(HOUR, «t», «t») + datediff(hour, «t», «t») + «hour»
timestampadd(hour, «hour», «t»)
date_trunc('hour', «t») = date_trunc(«unit», «t»)
«t» + interval 1 hour + interval '1 02:03:04' day to second
cast(«s» as struct<u: string, n: bigint>).n
«n»::string = string(«n»)
«value» between «n» and «x»
overlay(«u» placing 'n' from 1 for «n») = trim(both 'x' from «u») || substr(«u» from 2 for «n»)
position('n' in «u») > locate('u', «u»)
«u» not in ('u', «unit») and «n» is distinct from «x» and not «u» <=> «unit»
(«n», «u») = (1, 'a')
«n» in (1, null, «x») and coalesce(null, «n») > 0
«_time» > «t» and «_PARTITION» = 0
json_object_keys(«u») is null or from_json(«u», 'n int').n = «n»
window_of_mine(«u», k => «n»)
- - «n» - -«n» = ~ «n»
"""
TEXTS = [text for text in MARKED.splitlines() if text.strip()]


def filled(marked: str, mark: str) -> str:
    """What is expected of a marked text, by its marks alone."""
    parts = marked.replace("»", "«").split("«")
    return "".join(mark if number % 2 else part for number, part in enumerate(parts))


@pytest.mark.parametrize("marked", TEXTS)
def test_only_columns_are_replaced(marked: str) -> None:
    sql = marked.replace("«", "").replace("»", "")
    assert expression(sql, SCHEMA, frozenset(HIDDEN)).over(lambda _: "(?)") == filled(marked, "(?)")


def test_columns_are_named_as_they_are_declared() -> None:
    made = expression("NAME || `U` || _TIME", SCHEMA, frozenset(HIDDEN))
    assert made.over(lambda name: f"<{name}>") == "<Name> || <u> || <_time>"
    assert set(made.columns) == {"Name", "u", "_time"}


def test_a_column_that_the_parser_drops_or_takes_for_a_unit_is_used() -> None:
    assert set(expression("date_trunc(unit, t)", SCHEMA).columns) == {"unit", "t"}
    assert set(expression("to_char(n, u)", SCHEMA).columns) == {"n", "u"}
    assert set(expression("timestampdiff(hour, t, t)", SCHEMA).columns) == {"t"}


def test_fields_of_a_struct_keep_their_names() -> None:
    made = expression("struct(n, u AS v, name, x + 1, s.n, upper(u))", SCHEMA)
    assert made.over(lambda name: f"({name}!)") == (
        "struct((n!) AS n, (u!) AS v, (Name!) AS name, (x!) + 1, (s!).n, upper((u!)))"
    )


@pytest.mark.parametrize(
    ("sql", "kept"),
    [
        ("n > 1 -- u, or (", "(?) > 1"),
        ("n /* u ' ; */ > 1", "(?)   > 1"),
        ("-- first\nn > 1", "(?) > 1"),
        ("n /* a /* b */ c */ + 1", "(?)   + 1"),
        ("u = '--' and u = '/*' and u = ';'", "(?) = '--' and (?) = '/*' and (?) = ';'"),
        ('u = "--" or `a b` > 1 --', '(?) = "--" or (?) > 1'),
    ],
)
def test_comments_go(sql: str, kept: str) -> None:
    assert expression(sql, SCHEMA).over(lambda _: "(?)") == kept
    assert item(f"{sql}\n AS z -- named", SCHEMA)[0][1].over(lambda _: "(?)") == kept


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("n; drop table t", "is not one expression. Write one Spark SQL expression, without a semicolon"),
        ("n;", "is not one expression"),
        ("u = 'it's'", "is not closed"),
        ("u = 'a''", "is not closed"),
        ("u = `a", "is not closed"),
        ("n /* + 1", "a comment is not closed"),
        ("n /* /* */ + 1", "a comment is not closed"),
        ("-- n", "is only a comment"),
        ("n) or (n", "cannot read"),
    ],
)
def test_what_would_not_stay_one_expression_is_refused(sql: str, message: str) -> None:
    with pytest.raises(Invalid) as caught:
        expression(sql, SCHEMA)
    assert message in str(caught.value)


def test_strings_have_the_value_that_spark_gives_them() -> None:
    made = expression("named_struct('it''s', n)", SCHEMA)
    assert str(made.type) == "struct<`it's`:int>"
