"""Methods of streams: clock, dedupe, windows, latest, joins."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from riverrun.errors import Invalid
from riverrun.flow import Flow, Stream, Table
from riverrun.flow import aggregates as rr
from riverrun.flow.operators.as_of import AsOf
from riverrun.flow.operators.clock import ClockCorrection
from riverrun.flow.operators.dedupe import Dedupe
from riverrun.flow.operators.join_streams import JoinStreams
from riverrun.flow.operators.latest import Latest
from riverrun.flow.operators.lookup import Lookup
from riverrun.flow.operators.window import Window
from riverrun.flow.windows import Correct, DropLate, correct, drop, hopping, session, side, sliding, tumbling

HOUR = 3_600_000_000

Refusal = Callable[..., str]


@pytest.fixture
def payments(flow: Flow) -> Stream:
    return flow.stream("payments", "order string, amount decimal(8,2), paid timestamp", time="paid")


def test_clock(flow: Flow) -> None:
    devices = flow.stream("devices", "device string, occurred timestamp, sent timestamp, v double", time="occurred")
    made = devices.where("v > 0").clock("occurred", "sent", by="device")
    assert isinstance(made.node, ClockCorrection)
    assert (made.node.occurred, made.node.sent, made.node.by) == ("occurred", "sent", ("device",))
    assert made.node.time == "_time"
    assert made.schema == devices.schema


def test_dedupe(orders: Stream) -> None:
    made = orders.dedupe(["order_id", "user"])
    assert isinstance(made.node, Dedupe)
    assert (made.node.on, made.node.within, made.node.time) == (("order_id", "user"), HOUR, "at")
    assert (made.schema, made.node.routes) == (orders.schema, (("order_id", "user"),))


@pytest.mark.parametrize("window", [tumbling("1 minute"), hopping("1 hour", "5 minutes"), sliding("1 hour")])
def test_windows(orders: Stream, window: Any) -> None:
    made = orders.window(window, by="user").agg(n=rr.count(), total=rr.sum("amount"))
    assert isinstance(made, Table) and isinstance(made.node, Window)
    assert str(made.schema) == "user string, window_start timestamp, window_end timestamp, n bigint, total double"
    assert made.key == ("user", "window_start", "window_end")
    assert (made.node.time, made.node.delay, made.node.retracts) == ("window_end", 0, False)
    assert (made.node.late, made.node.emit) == (DropLate(), "final")


def test_windows_that_change_what_they_issued(orders: Stream) -> None:
    def made(window: Any = None, **options: Any) -> Table:
        return orders.window(window or tumbling("1 minute"), **options).agg(n=rr.count())

    assert made().key == ("window_start", "window_end")
    assert made(late=correct("1 hour")).node.retracts
    assert made(late=correct("1 hour")).node.delay == HOUR
    assert made(emit="update").node.retracts
    assert made(session("5 minutes")).node.retracts
    assert not made(late=side("late")).node.retracts
    assert made(late=side("late")).graph.writes["late"].schema["_watermark"] is not None


def test_latest(orders: Stream) -> None:
    made = orders.latest("user")
    assert isinstance(made, Table) and isinstance(made.node, Latest)
    assert (made.key, made.schema, made.node.time, made.node.retracts) == (("user",), orders.schema, "at", True)


def test_join_of_streams(orders: Stream, payments: Stream) -> None:
    made = orders.join(payments, on={"order_id": "order"}, within=("0 s", "1 hour"), how="left")
    assert isinstance(made.node, JoinStreams)
    assert str(made.schema) == (
        "order_id string, user string, amount double, quantity int, tags map<string,string>, at timestamp, "
        "amount_right decimal(8,2), paid timestamp"
    )
    assert (made.node.lo, made.node.hi, made.node.delay) == (0, HOUR, HOUR)
    assert (made.node.time, made.node.key, made.node.retracts) == ("at", (), False)
    assert made.node.routes == (("order_id",), ("order",))
    assert [(part.name, part.side, part.column) for part in made.node.outputs][-2:] == [
        ("amount_right", "right", "amount"),
        ("paid", "right", "paid"),
    ]


@pytest.mark.parametrize(
    ("within", "delay"), [("1 hour", HOUR), (("-2 hours", "1 hour"), 2 * HOUR), (("-2 hours", "-1 hours"), 2 * HOUR)]
)
def test_a_join_delays_what_follows(within: Any, delay: int, orders: Stream, payments: Stream) -> None:
    assert orders.join(payments, {"order_id": "order"}, within).node.delay == delay


def test_a_row_of_the_right_alone_has_its_own_time(orders: Stream, payments: Stream) -> None:
    for how in ("right", "full"):
        assert orders.join(payments, {"order_id": "order"}, "1 hour", how=how).node.time == "_time"


def test_suffix_and_common_key_types(flow: Flow) -> None:
    left, right = flow.stream("l", "k int, v string"), flow.stream("r", "k bigint, v string, v_right int")
    made = left.join(right, "k", "1 s", suffix="_2")
    assert str(made.schema) == "k bigint, v string, v_2 string, v_right int"


def test_a_stream_joined_with_itself(orders: Stream) -> None:
    made = orders.join(orders, "user", "1 minute")
    assert list(made.schema)[:3] == ["user", "order_id", "amount"]
    assert list(made.schema)[-1] == "at_right"


def test_lookup(orders: Stream, users: Table) -> None:
    made = orders.join(users, "user", how="left")
    assert isinstance(made.node, Lookup)
    assert list(made.schema)[-2:] == ["city", "updated_at"]
    assert (made.node.time, made.node.delay, made.node.retracts, made.node.is_table) == ("at", 0, False, False)


def test_as_of(orders: Stream, users: Table) -> None:
    made = orders.as_of(users, on="user")
    assert isinstance(made.node, AsOf)
    assert list(made.schema)[-3:] == ["city", "updated_at", "_version"]
    assert (made.node.late, made.node.delay, made.node.retracts) == (Correct(HOUR), HOUR, True)
    waiting = orders.as_of(users, on="user", how="left", late=drop())
    assert (waiting.node.delay, waiting.node.retracts) == (0, False)
    assert list(made.as_of(users, "user", suffix="_2").schema)[-3:] == ["city_2", "updated_at_2", "_version_2"]
    assert made.select("user", "_version").node.retracts


def anything(frame: Any) -> Any:
    return frame


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda o, p, u: o.clock("user", "at", "user"), "occurred: 'user' is string, not timestamp"),
        (lambda o, p, u: o.clock("at", "sent", "user"), "sent: there is no column 'sent'. "),
        (lambda o, p, u: o.clock("at", "at", "usr"), "by: there is no column 'usr'. Did you mean 'user'?"),
        (lambda o, p, u: o.clock("at", "at", []), "by needs at least one column"),
        (
            lambda o, p, u: o.dedupe("user").clock("at", "at", "user"),
            "clock comes first: it says what a source's event time is. Use it right after flow.stream",
        ),
        (lambda o, p, u: o.dedupe("oid"), "on: there is no column 'oid'. "),
        (lambda o, p, u: o.dedupe([]), "on needs at least one column"),
        (lambda o, p, u: o.dedupe("user", within=0), "within must be longer than 0, not 0"),
        (
            lambda o, p, u: o.as_of(u, "user").dedupe("user"),
            "dedupe works on rows that stay, and this stream corrects its results. Use dedupe earlier, or late=",
        ),
        (lambda o, p, u: o.as_of(u, "user").latest("user"), "latest works on rows that stay"),
        (lambda o, p, u: o.latest("usr"), "key: there is no column 'usr'. Did you mean 'user'?"),
        (lambda o, p, u: o.window("1 minute"), "not a window: '1 minute'. Write rr.tumbling(\"1 minute\")"),
        (lambda o, p, u: o.window(tumbling(1), late="drop"), "not a late policy: 'drop'. Write rr.drop(), "),
        (lambda o, p, u: o.window(tumbling(1), emit="updates"), "emit cannot be 'updates'. Did you mean 'update'?"),
        (lambda o, p, u: o.window(tumbling(1), by="usr"), "by: there is no column 'usr'. Did you mean 'user'?"),
        (lambda o, p, u: o.window(tumbling(1)).agg(), "agg needs at least one aggregate"),
        (
            lambda o, p, u: o.window(tumbling(1)).agg(window_end=rr.count()),
            "agg: there is a column 'window_end' already. Give the aggregate another name",
        ),
        (
            lambda o, p, u: o.select("at as window_start").window(tumbling(1), by="window_start").agg(n=rr.count()),
            "by: 'window_start' is a column of the window itself. Rename it with select",
        ),
        (
            lambda o, p, u: o.window(tumbling(1), late=side("orders")).agg(n=rr.count()),
            "flow 'shop' would read topic 'orders' that it writes itself. Use the node itself",
        ),
        (lambda o, p, u: o.join(p, {"order_id": "order"}), "a join of two streams needs within. Write within="),
        (lambda o, p, u: o.join(p, {"order_id": "order"}, "soon"), "within: not a duration: 'soon'"),
        (
            lambda o, p, u: o.join(p, "order_id", 1),
            "on: there is no column 'order_id' on the right. Did you mean 'order'?",
        ),
        (
            lambda o, p, u: o.join(p, {"oder_id": "order"}, 1),
            "on: there is no column 'oder_id' on the left. Did you mean",
        ),
        (
            lambda o, p, u: o.join(p, {"user": "paid"}, 1),
            "on: 'user' is string and 'paid' is timestamp: they are never equal. Cast one side",
        ),
        (lambda o, p, u: o.join(o, "tags", 1), "on: 'tags' is map<string,string>, which cannot be a key"),
        (lambda o, p, u: o.join(o, None, 1), "on is a name or a list of names, not None"),
        (lambda o, p, u: o.join(o, [], 1), "on needs at least one column. Write on="),
        (lambda o, p, u: o.join(o, ["user", "user"], 1), "on: column 'user' is there twice"),
        (lambda o, p, u: o.join(p, {"order_id": "order"}, 1, how="outer"), "how cannot be 'outer'. There are: inner, "),
        (lambda o, p, u: o.join(p, {"order_id": "order"}, 1, suffix=""), "suffix cannot be ''. Letters, digits"),
        (
            lambda o, p, u: o.with_columns(amount_right="1").join(p, {"order_id": "order"}, 1),
            "join: there are two columns 'amount_right'. Choose another suffix=, or rename={'amount': …}",
        ),
        (lambda o, p, u: o.join("users", "user"), "join takes a stream or a table, not 'users'"),
        (lambda o, p, u: o.join(u, "user", within=1), "a join with a table takes no within. as_of finds the version"),
        (lambda o, p, u: o.join(u, "user", how="full"), "how cannot be 'full'. There are: inner, left"),
        (
            lambda o, p, u: o.join(u, {"order_id": "city"}),
            "join: on must be the table's key, which is user. Make a table with that key",
        ),
        (lambda o, p, u: o.transform(anything).join(u, "user"), "join needs to know the columns, and transform at "),
        (lambda o, p, u: o.as_of(p, "user"), "as_of takes a table. s.latest(key) makes a table of a stream"),
        (lambda o, p, u: o.as_of(u, "user", late=side("x")), "as_of: late cannot be side x. Write rr.correct("),
        (lambda o, p, u: o.as_of(u, {"order_id": "city"}), "as_of: on must be the table's key, which is user"),
        (
            lambda o, p, u: o.changes(),
            "changes is a method of a table, and this is a stream. group(…).agg(…) and latest",
        ),
        (lambda o, p, u: o.versus("1 day"), "versus is a method of a table, and this is a stream"),
    ],
)
def test_refusals(
    call: Callable[..., Any], message: str, orders: Stream, payments: Stream, users: Table, refusal: Refusal
) -> None:
    assert refusal(call, orders, payments, users).startswith(message)


def test_late_rows_of_equal_streams_share_a_topic(orders: Stream) -> None:
    for by in ("user", "order_id"):
        orders.window(tumbling("1 minute"), by=by, late=side("late")).agg(n=rr.count())
    with pytest.raises(Invalid, match="topic 'late' gets late rows with other columns at"):
        orders.select("user").window(tumbling("1 minute"), late=side("late")).agg(n=rr.count())


def test_other_attributes_are_simply_missing(orders: Stream) -> None:
    assert not hasattr(orders, "versus")
    assert not hasattr(orders, "sql")
    with pytest.raises(AttributeError, match="a stream has no 'wher'"):
        orders.wher("x")
