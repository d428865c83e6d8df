"""What streams and tables share: row by row methods, grouping, top."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from riverrun.flow import Flow, Stream, Table
from riverrun.flow import aggregates as rr
from riverrun.flow.operators.rows import Select, Union, Where
from riverrun.flow.operators.top import Top
from riverrun.flow.operators.transform import Transform
from riverrun.flow.windows import correct, tumbling

Refusal = Callable[..., str]


def test_where_keeps_everything_but_rows(orders: Stream, users: Table) -> None:
    big, here = orders.where("amount > 10"), users.where("city = 'Kiel'")
    assert isinstance(big, Stream) and isinstance(here, Table)
    assert isinstance(big.node, Where) and big.node.condition.sql == "amount > 10"
    assert big.schema == orders.schema
    assert (big.node.key, big.node.time, big.node.retracts) == ((), "at", False)
    assert (here.key, here.node.time, here.node.retracts) == (("user",), "updated_at", True)
    assert big.where("_received > at").node.hidden >= {"_received"}


def test_select(orders: Stream) -> None:
    made = orders.select("USER", "amount * quantity as total", "at as happened")
    assert str(made.schema) == "user string, total double, happened timestamp"
    assert made.node.time == "happened"
    assert orders.select("user").node.time == "_time"
    assert str(orders.select("*", "1 as one").schema).endswith("at timestamp, one int")
    assert list(orders.select("* except (tags, at)").schema) == ["order_id", "user", "amount", "quantity"]
    assert str(orders.select("my_function(user) as u").schema) == "u unknown"
    assert made.where("_received > happened").schema == made.schema


def test_select_renames_a_tables_key(users: Table) -> None:
    made = users.select("city", "user as customer")
    assert made.key == ("customer",)
    assert isinstance(made.node, Select)


def test_with_columns(orders: Stream) -> None:
    made = orders.with_columns(amount="cast(amount as int)", total="amount * quantity", AT="_received")
    assert str(made.schema) == (
        "order_id string, user string, amount int, quantity int, tags map<string,string>, at timestamp, total double"
    )
    assert made.node.time == "_time"
    assert orders.with_columns(x="1").node.time == "at"


def test_drop(orders: Stream) -> None:
    made = orders.drop("TAGS", "at")
    assert list(made.schema) == ["order_id", "user", "amount", "quantity"]
    assert made.node.time == "_time"


def test_union_of_streams(flow: Flow, orders: Stream) -> None:
    more = flow.stream("more", "at timestamp, user string, amount bigint", time="at")
    both = orders.select("user", "amount", "at").union(more)
    assert str(both.schema) == "user string, amount double, at timestamp"
    assert (both.node.key, both.node.time) == ((), "at")
    third = both.union(more.where("amount > 1"))
    assert isinstance(third.node, Union) and len(third.node.inputs) == 3
    assert both.union(flow.stream("c", "at timestamp, user string, amount int")).node.time == "_time"


def test_union_of_tables_keeps_branches_apart(flow: Flow, users: Table) -> None:
    both = users.union(flow.table("guests", "city string, user string, updated_at timestamp", key="user"))
    assert both.key == ("_branch", "user")
    assert both.node.retracts


def test_transform(orders: Stream, users: Table) -> None:
    def plain(frame: Any) -> Any:
        return frame

    known = orders.transform(plain, schema="user string, score double")
    assert str(known.schema) == "user string, score double"
    assert known.node.time == "_time"
    unknown = orders.transform(plain)
    assert isinstance(unknown.node, Transform)
    assert unknown.schema.open
    assert str(unknown.where("score > 1").select("user", "score * 2 as s").schema) == "user unknown, s unknown"
    assert str(unknown.select("*", "1 as one").schema) == "one int, …"
    assert str(unknown.group("user").agg(n=rr.count()).schema) == "user unknown, n bigint"
    assert users.transform(plain).key == ("user",)


def test_group(orders: Stream, users: Table) -> None:
    made = orders.group(["user", "quantity"]).agg(total=rr.sum("amount"), n=rr.count())
    assert str(made.schema) == "user string, quantity int, total double, n bigint"
    assert made.key == ("user", "quantity")
    assert (made.node.time, made.node.retracts, made.node.routes) == ("_time", True, (("user", "quantity"),))
    assert users.group("city").agg(n=rr.count()).key == ("city",)
    everything = orders.group().agg(n=rr.count())
    assert (everything.key, str(everything.schema)) == ((), "n bigint")


def test_top(orders: Stream, users: Table) -> None:
    made = orders.top(3, "amount desc, order_id", per="user", rank="place", ties=True)
    assert isinstance(made, Table) and isinstance(made.node, Top)
    assert made.key == ("user", "_id")
    assert str(made.schema["place"]) == "int"
    assert (made.node.n, made.node.ties, made.node.routes) == (3, True, (("user",),))
    assert [(str(part.expression), part.descending) for part in made.node.order] == [
        ("amount", True),
        ("order_id", False),
    ]
    assert users.top(1, "updated_at desc", per="city").key == ("city", "user")
    assert users.top(10, "updated_at").key == ("user",)


def nothing(frame: Any) -> Any:
    return frame


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda o, u: o.where("amount"), "'amount' is double, not boolean. A condition compares: \"amount > 0\""),
        (lambda o, u: o.select(), "select needs at least one column"),
        (lambda o, u: o.select("user", "amount as USER"), "column 'USER' is there twice. Give one another name"),
        (lambda o, u: o.select("amount * 2"), "'amount * 2' has no name. Write \"amount * 2 as name\""),
        (
            lambda o, u: o.select("_received"),
            "the column name '_received' is reserved: it starts with an underscore. "
            'Give it another name: "_received as received"',
        ),
        (lambda o, u: o.select("user as _u"), "the column name '_u' is reserved: it starts with an underscore"),
        (lambda o, u: u.select("city"), "select loses 'user', part of the table's key. Keep the key"),
        (lambda o, u: u.select("city", "upper(user) as user"), "select loses 'user', part of the table's key"),
        (lambda o, u: o.with_columns(), "with_columns needs at least one column"),
        (lambda o, u: o.with_columns(_x="1"), "the column name '_x' is reserved"),
        (lambda o, u: o.with_columns(x="amout"), "there is no column 'amout' in 'amout'. Did you mean 'amount'?"),
        (lambda o, u: u.with_columns(user="city"), "with_columns loses 'user', part of the table's key"),
        (lambda o, u: o.drop(), "drop needs at least one column"),
        (lambda o, u: o.drop("usr"), "there is no column 'usr'. Did you mean 'user'?"),
        (lambda o, u: o.select("user").drop("user"), "drop leaves no column"),
        (lambda o, u: u.drop("user"), "drop loses 'user', part of the table's key"),
        (lambda o, u: o.union(u), "union takes streams or tables, not both. t.changes() makes a stream"),
        (
            lambda o, u: o.select("user", "amount").union(o.select("user", "at")),
            "union needs the same columns: the right has no 'amount', the left has no 'at'. Use select on one side",
        ),
        (
            lambda o, u: o.select("user").union(o.select("amount as user")),
            "union: 'user' is string on the left and double on the right. Cast one side",
        ),
        (lambda o, u: o.union("orders"), "union takes a stream or a table, not 'orders'"),
        (
            lambda o, u: o.union(Flow("other").stream("orders", "a int")),
            "union: the other side belongs to flow 'other', this one to 'shop'. Read its topic in this flow",
        ),
        (lambda o, u: o.transform(nothing).union(o), "union needs to know the columns, and transform at "),
        (lambda o, u: o.transform("x"), "transform takes a function from DataFrame to DataFrame, not 'x'"),
        (lambda o, u: u.transform(nothing, "city string"), "transform loses 'user', part of the table's key"),
        (lambda o, u: o.group("usr"), "by: there is no column 'usr'. Did you mean 'user'?"),
        (lambda o, u: o.group(5), "by is a name or a list of names, not 5"),
        (lambda o, u: o.group(["user", "USER"]), "by: column 'user' is there twice"),
        (lambda o, u: o.group("tags"), "by: 'tags' is map<string,string>, which cannot be a key"),
        (lambda o, u: o.group("user").agg(), "agg needs at least one aggregate. Write agg(n=rr.count())"),
        (lambda o, u: o.group("user").agg(User=rr.count()), "agg: there is a column 'User' already"),
        (lambda o, u: o.group("user").agg(_n=rr.count()), "the column name '_n' is reserved"),
        (lambda o, u: o.group("user").agg(n=rr.count(), N=rr.count()), "column 'N' is there twice"),
        (lambda o, u: o.top(0, "amount"), "top needs a whole number of rows, 1 or more, not 0"),
        (lambda o, u: o.top(True, "amount"), "top needs a whole number of rows, 1 or more, not True"),
        (lambda o, u: o.top(3, "amout desc"), "there is no column 'amout' in 'amout'. Did you mean 'amount'?"),
        (lambda o, u: o.top(3, "amount", per="usr"), "per: there is no column 'usr'. Did you mean 'user'?"),
        (lambda o, u: o.top(3, "amount", rank="user"), "rank: there is a column 'user' already"),
        (lambda o, u: o.top(3, "amount", rank="_r"), "the column name '_r' is reserved"),
    ],
)
def test_refusals(call: Callable[..., Any], message: str, orders: Stream, users: Table, refusal: Refusal) -> None:
    assert refusal(call, orders, users).startswith(message)


def test_after_something_stateful_only_the_time_is_left(orders: Stream, refusal: Refusal) -> None:
    made = orders.dedupe("order_id")
    assert made.where("_time > at").schema == orders.schema
    assert refusal(lambda: made.where("_received > at")) == (
        "'_received > at' reads _received, which only streams have, before anything stateful. "
        "Select it earlier under a name; here is _time"
    )


def test_a_relation_shows_itself(orders: Stream) -> None:
    shown = repr(orders.window(tumbling("1 minute"), late=correct("1 s")).agg(n=rr.count()))
    assert shown.startswith("<table window-")
    assert shown.endswith("window_start timestamp, window_end timestamp, n bigint>")


def test_a_union_of_several_is_one_node(orders: Stream) -> None:
    small, large = orders.where("amount < 1"), orders.where("amount > 9")
    together = orders.union(small, large)
    assert together.node is orders.union(small).union(large).node
    assert [node.id for node in together.node.inputs] == [rows.node.id for rows in (orders, small, large)]
