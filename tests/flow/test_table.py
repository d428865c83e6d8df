"""Methods of tables: joins of tables, versus, changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from riverrun.errors import Invalid
from riverrun.flow import Flow, Stream, Table
from riverrun.flow import aggregates as rr
from riverrun.flow.operators.changes import Changes
from riverrun.flow.operators.join_tables import JoinTables
from riverrun.flow.operators.versus import Versus
from riverrun.flow.windows import hopping, session, sliding, tumbling

DAY = 86_400_000_000

Refusal = Callable[..., str]


@pytest.fixture
def accounts(flow: Flow) -> Table:
    return flow.table("accounts", "account string, owner string, city string", key="account")


@pytest.mark.parametrize("name", ["_received", "_key", "_partition", "_offset"])
def test_rows_of_a_table_have_no_place_in_the_log(accounts: Table, name: str) -> None:
    for declare in (lambda: accounts.select("account", f"{name} as h"), lambda: accounts.where(f"{name} is null")):
        with pytest.raises(Invalid) as caught:
            declare()
        assert f"reads {name}, which only streams have, before anything stateful" in str(caught.value)
    assert list(accounts.select("account", "_time as h").schema) == ["account", "h"]


def test_join_of_tables_has_both_keys(accounts: Table, users: Table) -> None:
    made = accounts.join(users, on={"owner": "user"}, how="left")
    assert isinstance(made.node, JoinTables)
    assert str(made.schema) == ("owner string, account string, city string, city_right string, updated_at timestamp")
    assert made.key == ("account", "owner")
    assert made.node.retracts
    assert accounts.join(users, {"city": "city"}).key == ("account", "user")


def test_hidden_key_parts_of_both_sides_stay_apart(orders: Stream) -> None:
    left, right = orders.top(1, "amount", per="user"), orders.top(1, "at", per="user")
    assert left.join(right, "user").key == ("user", "_id", "_id_right")


def test_versus(orders: Stream) -> None:
    windows = orders.window(hopping("1 hour", "10 minutes"), by="user").agg(n=rr.count(), total=rr.sum("amount"))
    made = windows.where("n > 1").versus("7 days")
    assert isinstance(made.node, Versus)
    assert made.node.earlier == 7 * DAY
    assert made.key == ("user", "window_start", "window_end")
    assert list(made.schema)[-2:] == ["n_before", "total_before"]
    assert (str(made.schema["total_before"]), made.node.routes) == ("double", (("user",),))
    assert made.node.time == "window_end"


def test_changes(users: Table) -> None:
    made = users.changes()
    assert isinstance(made, Stream) and isinstance(made.node, Changes)
    row = "struct<user:string,city:string,updated_at:timestamp>"
    assert str(made.schema) == f"_op string, _before {row}, _after {row}"
    assert (made.node.key, made.node.retracts, made.node.routes) == ((), False, (("user",),))
    assert str(made.where("_op = 'update'").select("_op", "_after.city").schema) == "_op string, city string"


def unchanged(frame: Any) -> Any:
    return frame


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda u, a, o: u.join(o, "user"), "a table joins a table. stream.join(table, on=…) looks a stream's rows up"),
        (
            lambda u, a, o: u.join(a, {"user": "owner"}, how="right"),
            "how cannot be 'right'. There are: inner, left, full",
        ),
        (lambda u, a, o: u.join(a, "user"), "on: there is no column 'user' on the right. "),
        (lambda u, a, o: u.join(a, {"updated_at": "owner"}), "on: 'updated_at' is timestamp and 'owner' is string"),
        (lambda u, a, o: u.join(None, "user"), "join takes a stream or a table, not None"),
        (lambda u, a, o: u.transform(unchanged).join(a, "city"), "join needs to know the columns, and transform at"),
        (lambda u, a, o: u.versus("7 days"), "versus compares windows, and this table has none. Use it on s.window"),
        (
            lambda u, a, o: o.window(sliding("1 s")).agg(n=rr.count()).versus("7 days"),
            "versus: sliding 1 s windows do not come at regular times. Use rr.tumbling or rr.hopping",
        ),
        (
            lambda u, a, o: o.window(session("1 s")).agg(n=rr.count()).versus("7 days"),
            "versus: session 1 s windows do not come at regular times",
        ),
        (
            lambda u, a, o: o.window(tumbling("7 hours")).agg(n=rr.count()).versus("1 day"),
            "versus: there is no window 1 d earlier, they come every 7 h. Choose a multiple of that",
        ),
        (lambda u, a, o: o.window(tumbling("1 hour")).agg(n=rr.count()).versus(0), "versus must be longer than 0"),
        (
            lambda u, a, o: o.window(tumbling(1)).agg(n=rr.count(), n_before=rr.count()).versus("1 day"),
            "versus: there is a column 'n_before' already. Rename it",
        ),
        (
            lambda u, a, o: u.window(tumbling(1)),
            "window is a method of a stream, and this is a table. t.changes() makes",
        ),
        (lambda u, a, o: u.dedupe("user"), "dedupe is a method of a stream, and this is a table"),
    ],
)
def test_refusals(
    call: Callable[..., Any], message: str, users: Table, accounts: Table, orders: Stream, refusal: Refusal
) -> None:
    assert refusal(call, users, accounts, orders).startswith(message)


def test_changes_of_a_table_whose_key_is_called_as_what_they_make() -> None:
    table = Flow("f").table("t", "id int, _before string", key="id")
    with pytest.raises(Invalid, match="changes\\(\\) makes a column _before, and the table's key has one"):
        table.group("_before").agg(n=rr.count()).changes()
