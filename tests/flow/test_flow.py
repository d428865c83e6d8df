"""Flows: sources, ends, and what can be asked of the whole."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from riverrun.flow import Flow, Stream, Table
from riverrun.flow import aggregates as rr
from riverrun.flow.analysis import depth, lags
from riverrun.flow.fingerprint import needed
from riverrun.flow.operators.source import Source, StreamSource
from riverrun.flow.operators.table import TableSource
from riverrun.flow.windows import correct, side, tumbling

Refusal = Callable[..., str]
SECOND = 1_000_000


@dataclass(frozen=True)
class Spec:
    """What the log's TopicSpec looks like from here."""

    name: str = "orders"
    schema: str = "user string not null, amount double, at timestamp"
    key: Any = "user"
    time: str | None = "at"
    producers: str | None = None


def source(rows: Stream | Table) -> Source:
    assert isinstance(rows.node, Source)
    return rows.node


def test_a_stream_with_everything(flow: Flow) -> None:
    made = flow.stream(
        "readings",
        "device string, v double, at timestamp",
        time="AT",
        key=["device"],
        lateness="10 seconds",
        producers="device",
        idle="30 seconds",
        max_skew="5 minutes",
    )
    node = source(made)
    assert isinstance(node, StreamSource)
    assert (node.topic, node.event_time, node.topic_key) == ("readings", "at", ("device",))
    assert (node.lateness, node.producers, node.idle, node.max_skew) == (
        10 * SECOND,
        "device",
        30 * SECOND,
        300 * SECOND,
    )
    assert (node.time, node.key, node.is_table, node.retracts) == ("at", (), False, False)


def test_what_is_left_out(flow: Flow) -> None:
    node = source(flow.stream("json", "json string"))
    assert (node.event_time, node.time, node.lateness) == ("_received", "_time", 0)
    assert (node.producers, node.idle, node.max_skew, node.topic_key) == (None, None, None, ())
    assert source(flow.stream("json", time="_received")) is node


def test_a_table(flow: Flow) -> None:
    node = source(flow.table("users", "user string, city string", key="USER", lateness=1, idle="1 s"))
    assert isinstance(node, TableSource)
    assert (node.key, node.is_table, node.retracts, node.stateful) == (("user",), True, True, True)
    assert (node.lateness, node.idle, node.time) == (SECOND, SECOND, "_time")


def test_a_topic_spec_says_the_rest(flow: Flow) -> None:
    made = flow.stream(Spec(), lateness="1 s")
    assert (source(made).event_time, source(made).topic_key) == ("at", ("user",))
    assert flow.table(Spec()).key == ("user",)
    assert flow.topics()["orders"].schema == "user string NOT NULL, amount double, at timestamp"


def test_what_a_topic_spec_leaves_out_is_no_mismatch(flow: Flow) -> None:
    left_out: Any = object()
    spec = Spec(schema=left_out, key=left_out, time=left_out, producers=left_out)
    made = flow.stream(spec, "user string, at timestamp", key="user")
    assert (source(made).event_time, source(made).topic_key) == ("_received", ("user",))


def test_a_topic_is_written_down_once(flow: Flow) -> None:
    first = flow.stream("orders", "user string, at timestamp", time="at", lateness="1 s")
    again = flow.stream("orders", time="at", key="user", lateness="5 s")
    table = flow.table("orders", "user: STRING, at timestamp_ltz")
    assert first.schema == again.schema == table.schema
    said = flow.topics()["orders"]
    assert (said.schema, said.key, said.time, said.producers) == ("user string, at timestamp", ("user",), "at", None)


def test_columns_that_riverrun_wrote_can_be_read_again(flow: Flow) -> None:
    assert list(flow.stream("late", "user string, _watermark timestamp").schema) == ["user", "_watermark"]


ORDERS = "user string, amount double, at timestamp, text string"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda f: Flow("a b"), "'a b' cannot be the name of a flow. 1 to 200 letters, digits, dots, dashes"),
        (lambda f: f.stream("a/b", "a int"), "'a/b' cannot be the name of a topic"),
        (lambda f: f.stream(".", "a int"), "'.' cannot be the name of a topic"),
        (lambda f: f.stream("x" * 201, "a int"), f"'{'x' * 201}' cannot be the name of a topic"),
        (lambda f: f.stream(7, "a int"), "a topic is a name or an rr.TopicSpec, not 7"),
        (lambda f: f.stream("orders"), "topic 'orders' needs a schema. Write \"user string, at timestamp\""),
        (
            lambda f: f.stream("orders", "user strng"),
            "topic 'orders': schema: unknown type 'strng' of 'user' at character 6 of 'user strng'. Did you mean ",
        ),
        (
            lambda f: f.stream("orders", "_time timestamp"),
            "the column name '_time' is reserved: it starts with an under",
        ),
        (lambda f: f.stream("orders", ORDERS, time="att"), "time: there is no column 'att'. Did you mean 'at'?"),
        (lambda f: f.stream("orders", ORDERS, time="text"), "time: 'text' is string, not timestamp. Declare it as"),
        (lambda f: f.stream("o", "at timestamp_ntz", time="at"), "time: 'at' is timestamp_ntz, not timestamp"),
        (lambda f: f.stream("orders", ORDERS, key="usr"), "key: there is no column 'usr'. Did you mean 'user'?"),
        (
            lambda f: f.stream("orders", ORDERS, producers="device"),
            "producers: there is no column 'device'. There are: ",
        ),
        (lambda f: f.stream("orders", ORDERS, lateness="soon"), "lateness: not a duration: 'soon'"),
        (lambda f: f.stream("orders", ORDERS, idle=0), "idle must be longer than 0, not 0"),
        (lambda f: f.stream("orders", ORDERS, max_skew="0 s"), "max_skew must be longer than 0"),
        (
            lambda f: f.stream("o", ORDERS, key="amount"),
            "key: 'amount' is double, which cannot be a topic's key. Cast it",
        ),
        (
            lambda f: f.stream("o", ORDERS, producers="at"),
            "producers: 'at' is timestamp, and a producer's name is text",
        ),
        (lambda f: f.table("users", "user string"), "table 'users' needs a key. Write key="),
        (lambda f: f.table("users", "user string", key=[]), "table 'users' needs a key"),
        (
            lambda f: f.stream(Spec(), "user string"),
            "topic 'orders': the schema is not that of its TopicSpec: user string not null, amount double",
        ),
    ],
)
def test_sources_refused(call: Callable[..., Any], message: str, flow: Flow, refusal: Refusal) -> None:
    assert refusal(call, flow).startswith(message)
    assert flow.topics() == {}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda f: f.stream("orders", "user string"), "topic 'orders' has another schema at "),
        (lambda f: f.table("orders", key="at"), "topic 'orders' has another key at "),
        (lambda f: f.stream("orders", time="sent"), "topic 'orders' has another time at "),
    ],
)
def test_a_topic_is_not_two_things(call: Callable[..., Any], message: str, flow: Flow, refusal: Refusal) -> None:
    flow.stream("orders", "user string, amount double, at timestamp, sent timestamp", key="user", time="at")
    assert refusal(call, flow).startswith(message)


def test_views(flow: Flow, orders: Stream, users: Table) -> None:
    per_user = orders.group("user").agg(n=rr.count())
    assert flow.view("counts", per_user).key == ("user",)
    assert flow.view("wider", per_user, key=["n", "user"]).key == ("n", "user")
    every = flow.view("rows", orders)
    assert (every.key, every.keeps_all) == (("_id",), True)
    newest = flow.view("newest", orders, key="user", history="7 days")
    assert (newest.key, newest.keeps_all) == (("user",), False)
    assert newest.history == 604_800 * SECOND
    assert flow.view("both", users.union(users), key="user").key == ("user", "_branch")
    assert flow.view("top", orders.top(3, "amount", per="user")).key == ("user", "_id")
    assert [end.id for end in flow.ends][:2] == ["view-counts", "view-wider"]


def test_topics(flow: Flow, orders: Stream, users: Table) -> None:
    assert flow.topic("gold", orders.where("amount > 100")).key == ()
    assert flow.topic("silver", orders, key="user").key == ("user",)
    assert flow.topic("people", users, key="user").key == ("user",)
    assert flow.topic("enriched", orders.as_of(users, "user"), key="order_id").key == ("order_id",)


def test_alerts(flow: Flow, orders: Stream) -> None:
    made = flow.alert("fraud", orders, to=["mailto://a", "json://b"], message="{user} spent {amount:.2f} {{really}}")
    assert (made.to, made.every) == (("mailto://a", "json://b"), 60 * SECOND)
    assert flow.alert("plain", orders, "mailto://a", every=0).message is None
    assert flow.alert("when", orders, "mailto://a", message="{at:%H:%M} {user:>10}").message == "{at:%H:%M} {user:>10}"


def test_a_format_that_values_do_not_have(flow: Flow, orders: Stream) -> None:
    with pytest.raises(ValueError, match=r"'\.2f' in '\{user:\.2f\}' is no format for 'user', which is string"):
        flow.alert("fraud", orders, "mailto://a", message="{user:.2f}")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda f, o, u: f.view("a b", o), "'a b' cannot be the name of a view"),
        (lambda f, o, u: f.view("taken", o), "there is a view 'taken' already, at "),
        (lambda f, o, u: f.view("v", o, key="usr"), "key: there is no column 'usr'. Did you mean 'user'?"),
        (
            lambda f, o, u: f.view("v", u, key="city"),
            "view 'v': key must contain the table's key, and lacks 'user'. Write key=['user']",
        ),
        (lambda f, o, u: f.view("v", o, history=0), "history must be longer than 0"),
        (lambda f, o, u: f.view("v", "orders"), "view: not a stream or a table: 'orders'. Give a stream or a table of"),
        (
            lambda f, o, u: f.view("v", o.window(tumbling(1))),
            "view: not a stream or a table: <riverrun.flow.windowed.Win",
        ),
        (lambda f, o, u: Flow("other").view("v", o), "view: the node belongs to flow 'shop', not to 'other'"),
        (lambda f, o, u: f.topic("t", u), "topic 't' is of a table and needs a key. Write key=['user']"),
        (
            lambda f, o, u: f.topic("t", o.as_of(u, "user")),
            "topic 't' is of a stream that corrects its results and needs a key. Write key=",
        ),
        (lambda f, o, u: f.topic("t", u, key="city"), "topic 't': key must contain the table's key, and lacks 'user'"),
        (lambda f, o, u: f.topic("t", o, key="amount"), "key: 'amount' is double, which cannot be a topic's key"),
        (lambda f, o, u: f.topic("orders", o), "flow 'shop' would read topic 'orders' that it writes itself"),
        (lambda f, o, u: f.topic("written", o), "topic 'written' is written at "),
        (lambda f, o, u: f.stream("written", "a int"), "flow 'shop' would read topic 'written' that it writes itself"),
        (lambda f, o, u: f.alert("a", o, to=[]), "alert 'a': to is one or more addresses. Write "),
        (lambda f, o, u: f.alert("a", o, to=None), "to is a name or a list of names, not None"),
        (lambda f, o, u: f.alert("a", o, to="me"), "alert 'a': to is one or more addresses. Write "),
        (
            lambda f, o, u: f.alert("a", o, "mailto://x", "{usr} spent"),
            "alert 'a': there is no column 'usr' in '{usr} spent'. Did you mean 'user'?",
        ),
        (lambda f, o, u: f.alert("a", o, "mailto://x", "{user"), "alert 'a': cannot read the message '{user'"),
        (lambda f, o, u: f.alert("a", o, "mailto://x", every="often"), "every: not a duration: 'often'"),
    ],
)
def test_ends_refused(
    call: Callable[..., Any], message: str, flow: Flow, orders: Stream, users: Table, refusal: Refusal
) -> None:
    flow.view("taken", orders)
    flow.topic("written", orders)
    assert refusal(call, flow, orders, users).startswith(message)
    assert [end.name for end in flow.ends] == ["taken", "written"]


def test_a_late_topic_and_a_derived_one_are_two(flow: Flow, orders: Stream, refusal: Refusal) -> None:
    orders.window(tumbling("1 s"), late=side("late")).agg(n=rr.count())
    assert refusal(lambda: flow.topic("late", orders)).startswith("topic 'late' is written at ")


def test_nodes_are_those_the_ends_need_inputs_first(flow: Flow, orders: Stream, users: Table) -> None:
    orders.where("amount > 1")
    joined = orders.join(users, "user")
    flow.view("joined", joined)
    assert [node.id for node in flow.nodes] == ["stream-orders", "table-users", joined.node.id]
    assert len(flow.graph.nodes) == 4
    assert repr(flow) == "<flow shop: 3 nodes, 1 ends>"


def test_depth_counts_stateful_nodes(flow: Flow, orders: Stream, users: Table) -> None:
    windows = orders.where("amount > 1").window(tumbling("1 s"), by="user").agg(n=rr.count())
    assert [depth(rows.node) for rows in (orders, users, windows, windows.top(1, "n"))] == [0, 1, 1, 2]
    assert depth(orders.join(users, "user").node) == 2


def test_watermarks_stay_behind_by_the_delays_before(flow: Flow, orders: Stream, users: Table) -> None:
    enriched = orders.as_of(users, "user", late=correct("10 s"))
    joined = enriched.join(orders, "user", within=("-5 s", "2 s"))
    windows = joined.window(tumbling("1 s")).agg(n=rr.count())
    assert lags(orders.node) == {"stream-orders": 0}
    assert lags(enriched.node) == {"stream-orders": 0, "table-users": 0}
    assert lags(joined.node) == {"stream-orders": 10 * SECOND, "table-users": 10 * SECOND}
    assert lags(windows.node) == {"stream-orders": 15 * SECOND, "table-users": 15 * SECOND}


def test_needed_columns(flow: Flow, orders: Stream) -> None:
    big = orders.where("amount > 10 and _received > at").with_columns(total="amount * quantity", other="order_id")
    flow.view("sums", big.group("user").agg(total=rr.sum("total")))
    columns = needed(flow.nodes, flow.ends)
    assert columns["stream-orders"] == ("user", "amount", "quantity", "at", "_received")
    assert columns[big.node.id] == ("user", "total")


def test_needed_columns_of_a_view_are_all(flow: Flow, orders: Stream) -> None:
    flow.view("rows", orders.select("user", "amount + 1 as more"))
    assert needed(flow.nodes, flow.ends)["stream-orders"] == ("user", "amount")
