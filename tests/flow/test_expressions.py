"""Spark SQL expressions: what is read, what is refused, and with which words."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from riverrun.errors import Invalid, NotFound
from riverrun.flow import expressions
from riverrun.flow.schema import HIDDEN, Schema

SCHEMA = Schema.parse(
    "user string, amount double, count int, `a b` int, at timestamp, tags array<string>, attrs map<string,int>, "
    "address struct<city:string,lines:array<string>>, items array<struct<sku:string>>"
)
ALL = frozenset(HIDDEN)


def read(sql: str) -> expressions.Expression:
    return expressions.expression(sql, SCHEMA, ALL)


@pytest.mark.parametrize(
    ("sql", "columns"),
    [
        ("amount > 10 and user = 'x'", ("amount", "user")),
        ("USER || `A B`", ("user", "a b")),
        ("count + 1", ("count",)),
        ("address.city", ("address",)),
        ("address.lines[0]", ("address",)),
        ("items.sku", ("items",)),
        ("attrs.k", ("attrs",)),
        ("transform(tags, x -> concat(x, user))", ("tags", "user")),
        ("exists(tags, t -> t = 'a')", ("tags",)),
        ("aggregate(tags, 0, (acc, x) -> acc + count)", ("tags", "count")),
        ("_received - at < interval 1 hour", ("_received", "at")),
        (
            "_partition = 0 or _offset > 5 or _key is null or _time > at",
            ("_partition", "_offset", "_key", "_time", "at"),
        ),
        ("user like any ('a%', 'b%')", ("user",)),
        ("some_function_of_mine(user)", ("user",)),
        ("1", ()),
    ],
)
def test_columns(sql: str, columns: tuple[str, ...]) -> None:
    assert set(read(sql).columns) == set(columns)


def test_text_stays_as_written_and_is_compared_without_spaces_comments_and_case() -> None:
    one, other = read("Amount>10 -- big"), read("amount  >  10")
    assert one.sql == "Amount>10"
    assert one.canonical == other.canonical == "amount > 10"
    assert read("user = 'A'").canonical != read("user = 'a'").canonical
    assert read("user = r'A'").canonical != read("user = r'a'").canonical


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("amout > 1", "there is no column 'amout' in 'amout > 1'. Did you mean 'amount'?"),
        ("_recieved", "there is no column '_recieved' in '_recieved'. Did you mean '_received'?"),
        ("address.town", "'address' has no field 'town' in 'address.town'. There are: city, lines"),
        ("items.skuu", "'items' has no field 'skuu' in 'items.skuu'. Did you mean 'sku'?"),
        ("amount.x", "'amount' is double and has no field 'x' in 'amount.x'"),
        ("transform(tags, x -> y)", "there is no column 'y' in 'transform(tags, x -> y)'. There are: "),
    ],
)
def test_unknown_columns(sql: str, message: str) -> None:
    with pytest.raises(NotFound) as caught:
        read(sql)
    assert str(caught.value).startswith(message)


HINT = "Read again, the same rows must give the same results; _received is the time a row came in"


@pytest.mark.parametrize(
    ("sql", "name"),
    [
        ("rand() > 0.5", "rand"),
        ("randn(3)", "randn"),
        ("uuid()", "uuid"),
        ("current_timestamp()", "current_timestamp"),
        ("at < current_timestamp", "current_timestamp"),
        ("now()", "now"),
        ("current_date", "current_date"),
        ("CURRENT_DATE()", "current_date"),
        ("localtimestamp", "localtimestamp"),
        ("unix_timestamp()", "unix_timestamp"),
        ("monotonically_increasing_id()", "monotonically_increasing_id"),
        ("input_file_name()", "input_file_name"),
        ("spark_partition_id()", "spark_partition_id"),
        ("shuffle(tags)", "shuffle"),
        ("concat(user, uuid())", "uuid"),
        ("current_user()", "current_user"),
    ],
)
def test_what_is_not_deterministic_is_refused(sql: str, name: str) -> None:
    with pytest.raises(Invalid) as caught:
        read(sql)
    assert str(caught.value) == f"{sql!r} is not deterministic: {name}. {HINT}"


AGGREGATES = "aggregates, and this is about one row. Use .group(…).agg(…) or .window(…).agg(…)"
WINDOWS = "is about other rows too (a window function). Use .window(…), .top(…) or .group(…)"


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("sum(amount)", f"'sum(amount)' {AGGREGATES}"),
        ("amount > avg(amount)", f"'amount > avg(amount)' {AGGREGATES}"),
        ("any(amount > 1)", f"'any(amount > 1)' {AGGREGATES}"),
        ("collect_list(user)", f"'collect_list(user)' {AGGREGATES}"),
        ("hll_sketch_agg(user)", f"'hll_sketch_agg(user)' {AGGREGATES}"),
        ("row_number() over (order by at)", f"'row_number() over (order by at)' {WINDOWS}"),
        ("lag(amount)", f"'lag(amount)' {WINDOWS}"),
        ("window(at, '1 hour')", f"\"window(at, '1 hour')\" {WINDOWS}"),
        ("amount in (select 1)", "'amount in (select 1)' has a query inside. Join the other table instead"),
        ("exists (select 1)", "'exists (select 1)' has a query inside. Join the other table instead"),
        ("explode(tags)", "'explode(tags)' makes several rows of one: explode"),
        (
            "amount, user",
            "'amount, user' is not one expression. Write one Spark SQL expression, without FROM or a comma",
        ),
        ("amount from t", "'amount from t' is not one expression. "),
        ("amount; drop table t", "'amount; drop table t' is not one expression. "),
        ("amount as a", "'amount as a' has a name of its own. Only select takes \"… as name\""),
        (":limit", "':limit' has a parameter. Put the value into the text"),
        ("*", "'*' has a star inside"),
        ("  ", "an expression is empty"),
    ],
)
def test_what_is_not_one_row_and_one_value_is_refused(sql: str, message: str) -> None:
    with pytest.raises(Invalid) as caught:
        read(sql)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("amount >", "cannot read 'amount >': at its end something more is missing"),
        ("(amount", "cannot read '(amount': at its end ')' is missing"),
        ("amount >> > 5 and", "cannot read 'amount >> > 5 and': '>' at character 11 is not expected"),
        ("n == 5 && n = 2", "cannot read 'n == 5 && n = 2': '&&' at character 8 is not expected. Write and"),
        ("amount => 5", "cannot read 'amount => 5': '=>' at character 8 is not expected. Write >="),
        ("n ? 1 : 2", "cannot read 'n ? 1 : 2': '?' at character 3 is not expected. Write \"case when"),
        ("user = 'x", 'cannot read "user = \'x": '),
    ],
)
def test_a_mistake_in_an_expression_is_shown_where_it_is_with_what_to_write(sql: str, message: str) -> None:
    with pytest.raises(Invalid) as caught:
        read(sql)
    assert str(caught.value).startswith(message)


def test_an_expression_is_text() -> None:
    with pytest.raises(Invalid, match="an expression is a string of Spark SQL, not 7"):
        read(7)  # type: ignore[arg-type]


def test_hidden_columns_are_there_only_where_the_node_has_them() -> None:
    with pytest.raises(Invalid) as caught:
        expressions.expression("_received", SCHEMA, frozenset({"_time"}))
    assert str(caught.value) == (
        "'_received' reads _received, which only streams have, before anything stateful. "
        "Select it earlier under a name; here is _time"
    )


def test_a_condition_is_boolean_as_far_as_one_can_tell() -> None:
    assert expressions.condition("amount > 1", SCHEMA).type is not None
    assert expressions.condition("some_function_of_mine(user)", SCHEMA).type is None
    with pytest.raises(Invalid) as caught:
        expressions.condition("amount + 1", SCHEMA)
    assert str(caught.value) == "'amount + 1' is double, not boolean. A condition compares: \"amount > 0\""


@pytest.mark.parametrize(
    ("sql", "made"),
    [
        ("AMOUNT", [("amount", "AMOUNT")]),
        ("amount as total", [("total", "amount")]),
        ("amount * 2 AS `the total`", [("the total", "amount * 2")]),
        ("amount total", [("total", "amount")]),
        ("cast(amount as int) as n", [("n", "cast(amount as int)")]),
        ("address.city", [("city", "address.city")]),
        ("_received as r", [("r", "_received")]),
        ("_received", [("_received", "_received")]),
    ],
)
def test_items_of_a_select(sql: str, made: list[tuple[str, str]]) -> None:
    assert [(name, item.sql) for name, item in expressions.item(sql, SCHEMA, ALL)] == made


def test_a_star_is_every_column() -> None:
    assert [name for name, _ in expressions.item("*", SCHEMA)] == list(SCHEMA)
    assert [name for name, _ in expressions.item("* except (user, amount)", SCHEMA)] == list(SCHEMA)[2:]
    assert dict(expressions.item("*", SCHEMA))["a b"].sql == "`a b`"
    with pytest.raises(NotFound, match="there is no column 'usr'"):
        expressions.item("* except (usr)", SCHEMA)


def test_an_item_needs_a_name() -> None:
    with pytest.raises(Invalid) as caught:
        expressions.item("amount * 2", SCHEMA)
    assert str(caught.value) == "'amount * 2' has no name. Write \"amount * 2 as name\""


def test_orderings() -> None:
    parts = expressions.ordering("amount desc, coalesce(user, 'x'), count desc nulls first, at nulls last", SCHEMA)
    assert [str(part) for part in parts] == [
        "amount desc nulls last",
        "coalesce(user, 'x') asc nulls first",
        "count desc nulls first",
        "at asc nulls last",
    ]
    with pytest.raises(Invalid, match="a part of the ordering is empty"):
        expressions.ordering("amount desc,", SCHEMA)
    with pytest.raises(NotFound, match=r"no column 'amout' in 'amout'\. Did you mean 'amount'"):
        expressions.ordering("amout desc", SCHEMA)


NONSENSE = """
    user amount count at tags attrs address.city ( ) [ ] , + - * / = > and or not is null case when then else end
    1 1.5 'a' as desc asc nulls first last sum rand upper coalesce cast int interval hour map -> :: : . ; -- /* */ `
    $ @ ? x in like between select from where over window filter exists if set struct array transform values with
    distinct any
"""


@given(sql=st.lists(st.sampled_from(NONSENSE.split()), min_size=1, max_size=7).map(" ".join))
@example(sql="map ( 'a' asc")
@example(sql="if upper")
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_nonsense_is_refused_in_good_order(sql: str, caplog: pytest.LogCaptureFixture) -> None:
    for reader in (expressions.expression, expressions.item, expressions.ordering):
        try:
            reader(sql, SCHEMA, ALL)  # type: ignore[operator]
        except (Invalid, NotFound) as error:
            assert error.message
    assert not caplog.records


def test_in_an_open_schema_only_spark_knows() -> None:
    found = expressions.expression("whatever + amount", Schema((), open=True))
    assert found.columns == ("whatever", "amount")
    assert found.type is None
