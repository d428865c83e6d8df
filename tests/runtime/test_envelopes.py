"""Whole flows on tables inside messages: crashes, order, time, rows that lack values, what is refused."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracles import envelopes as oracle
from oracles.envelopes import CHANGES, COLUMNS, UNAVAILABLE, Change, Writing
from oracles.orders import examples
from riverrun.errors import Conflict, Invalid
from riverrun.flow import Flow
from riverrun.flow.aggregates import count
from riverrun.flow.fingerprint import fingerprints
from riverrun.flow.windows import drop
from riverrun.log.spec import TopicSpec
from riverrun.river import River
from riverrun.runtime.evolution import plan_flow
from riverrun.runtime.opening import open_inputs
from riverrun.testing import Append, Crash, Delete, Process, assert_same_as_batch, assert_same_batching, run_flow

PLAIN = Writing("us", "string", False)
USERS = "id bigint, name string, note string"


def replica(**options: Any) -> Flow:
    flow = Flow("replica")
    users = flow.table("users", USERS, key="id", form="debezium", **options)
    flow.view("users", users)
    flow.view("names", users.group("name").agg(rows=count()))
    return flow


def message(op: str, row: Any = None, before: Any = None, seconds: int = 0, key: Any = None) -> dict[str, Any]:
    payload = {"op": op, "before": before, "after": row, "source": {"ts_ms": 1_767_225_600_000 + seconds * 1000}}
    named = key or row or before
    return {"key": named and json.dumps({"id": named["id"]}), "json": json.dumps(payload)}


def user(id: int, name: str = "ada", note: str | None = "n") -> dict[str, Any]:
    return {"id": id, "name": name, "note": note}


def at(seconds: float) -> datetime:
    return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)


@given(CHANGES, st.sampled_from(["debezium", "maxwell"]), st.integers(0, 99))
@examples(8)
def test_a_replica_is_what_the_database_has(changes: list[Change], form: str, seed: int) -> None:
    flow = Flow("replica")
    options = {"times": "us", "decimals": "string"} if form == "debezium" else {}
    table = flow.table("messages", COLUMNS, key="id", form=form, **options)  # type: ignore[arg-type]
    flow.view("rows", table)
    flow.view("names", table.group("name").agg(rows=count()))
    pairs = [oracle.debezium(one, PLAIN) if form == "debezium" else oracle.maxwell(one) for one in changes]
    rows = [{"key": key, "json": text} for key, text in pairs]
    wanted = oracle.table(oracle.expected(changes))
    result = run_flow(flow, [Append("messages", [row]) for row in rows])
    assert {row["id"]: row for row in result.views["rows"]} == wanted
    sql = {"rows": "select * from messages", "names": "select name, count(*) as rows from messages group by name"}
    assert_same_as_batch(flow, {"messages": rows}, sql, seed=seed, times=3)


STEPS = st.lists(
    st.tuples(st.sampled_from("cuuud"), st.integers(0, 2), st.sampled_from(["ada", "bob", UNAVAILABLE]), st.booleans()),
    max_size=14,
)


@given(STEPS, st.integers(0, 99))
@examples(25)
def test_values_that_were_not_sent_are_those_of_the_row_before(steps: list[Any], seed: int) -> None:
    rows: dict[int, dict[str, Any]] = {}
    messages, lost = [], 0
    for number, (op, id, name, partly) in enumerate(steps):
        sent = {
            "id": id,
            "name": name if op == "u" else "kim",
            "note": UNAVAILABLE if partly and op == "u" else f"n{number}",
        }
        messages.append(message("d", before={"id": id}) if op == "d" else message(op, sent))
        if op == "d":
            rows.pop(id, None)
        elif UNAVAILABLE not in sent.values() or id in rows:
            rows[id] = {part: rows[id][part] if value == UNAVAILABLE else value for part, value in sent.items()}
        else:
            lost += 1
    flow = replica()
    result = run_flow(flow, {"users": messages})
    assert {row["id"]: row for row in result.views["users"]} == rows
    entries = {entry["input"]: entry for entry in result.ledger if entry["node"] == "table-users"}
    assert (entries["in"]["quarantined"], entries["in"]["read"]) == (lost, len(messages))
    assert len(result.topics["users.quarantine"]) == lost
    assert_same_batching(flow, {"users": messages}, seed=seed, times=3)


FAILPOINTS = [
    "plan.done",
    "host.stepped",
    "host.committed",
    "commit.begin",
    "commit.topics",
    "commit.aside",
    "commit.store",
]


@pytest.mark.parametrize("failpoint", FAILPOINTS)
def test_a_crash_changes_nothing(failpoint: str) -> None:
    first = [message("r", user(n)) for n in range(4)]
    then = [
        message("u", user(1, "bob", UNAVAILABLE), seconds=1),
        message("u", user(9, "eve", UNAVAILABLE), seconds=1),
        message("d", before={"id": 2}, seconds=2),
        {"key": '{"id": 2}', "json": None},
        {"key": "?", "json": "no JSON"},
    ]
    script: list[Any] = [{"users": first}, Crash(failpoint), {"users": then}, {"users": [message("c", user(7))]}]
    crashed, smooth = run_flow(replica(), script), run_flow(replica(), [one for one in script if isinstance(one, dict)])
    assert crashed.views == smooth.views
    assert crashed.topics == smooth.topics
    assert crashed.ledger == smooth.ledger
    assert [row["id"] for row in crashed.views["users"]] == [0, 1, 3, 7]
    assert crashed.views["users"][1] == user(1, "bob")


def test_messages_that_cannot_be_taken_in_are_put_aside_as_they_came() -> None:
    bad = {"key": '{"id": 3}', "json": '{"op": "c", "after": {"id": "three"}}'}
    lacking = message("u", user(5, note=UNAVAILABLE))
    result = run_flow(replica(), {"users": [message("c", user(1)), bad, lacking]})
    put_aside = [dict(row) for row in result.topics["users.quarantine"]]
    assert put_aside[0] == {**bad, "_error": "after.id: expected int, got str", "_position": "users@0:1"}
    assert {name: put_aside[1][name] for name in ("key", "json", "_position")} == {**lacking, "_position": "users@0:2"}
    assert "sent without note" in put_aside[1]["_error"]
    assert [(entry["input"], entry["read"], entry["quarantined"]) for entry in result.ledger[:2]] == [
        ("topic", 3, 1),
        ("in", 2, 1),
    ]


def test_tombstones_of_the_log_delete() -> None:
    result = run_flow(
        replica(), [{"users": [message("c", user(1)), message("c", user(2))]}, Delete("users", '{"id": 1}')]
    )
    assert [row["id"] for row in result.views["users"]] == [2]


def test_a_topic_without_keys_has_one_partition() -> None:
    spec = TopicSpec("users", "json string", partitions=1)
    messages = [
        message("c", user(1)),
        message("u", user(1, "bob")),
        message("c", user(2)),
        message("d", before={"id": 2}),
    ]
    result = run_flow(replica(), {"users": [{"json": row["json"]} for row in messages]}, topics=[spec])
    assert result.views["users"] == [user(1, "bob")]


def test_event_time_is_that_of_the_change_in_the_database() -> None:
    flow = replica()
    messages = [message("c", user(1), seconds=5), message("u", user(1, "bob"), seconds=60), {"key": "?", "json": "{"}]
    assert run_flow(flow, {"users": messages}, drain=False).watermarks == {"users": at(60)}
    timed = Flow("timed")
    timed.view("t", timed.table("t", "id int, at timestamp", key="id", time="at", form="debezium", times="us"))
    rows = [message("c", {"id": 1, "at": 1_767_225_607_000_000}, seconds=90)]
    assert run_flow(timed, {"t": rows}, drain=False).watermarks == {"t": at(7)}
    received = replica(time="_received")
    assert run_flow(received, {"users": messages}, drain=False, now=at(1000)).watermarks["users"] >= at(1000)  # type: ignore[operator]


def test_rows_beside_the_version_that_was_valid() -> None:
    flow = Flow("prices")
    sales = flow.stream("sales", "id bigint, at timestamp", time="at")
    prices = flow.table("users", USERS, key="id", form="debezium", lateness="1 hour")
    flow.view("sold", sales.as_of(prices, "id", how="left", late=drop()).select("at", "name"))
    versions = [message("c", user(1, "old"), seconds=10), message("u", user(1, "new"), seconds=20)]
    lacking = message("u", user(1, "newer", UNAVAILABLE), seconds=30)
    sold = [{"id": 1, "at": at(second)} for second in (5, 15, 25, 35)]
    for script in (
        [{"users": [*versions, lacking], "sales": sold}],
        [{"users": [row]} for row in [*versions, lacking]],
    ):
        result = run_flow(flow, [*script, *([] if "sales" in script[0] else [{"sales": sold}])])
        assert [row["name"] for row in sorted(result.views["sold"], key=lambda row: row["at"])] == [
            None,
            "old",
            "new",
            "new",
        ]
        assert "reads the versions of this table as they came" in result.topics["users.quarantine"][0]["_error"]
        assert all(
            entry["quarantined"] == 1
            for entry in result.ledger
            if entry["input"] == "topic" and "users" in entry["node"]
        )


def test_a_changed_key_moves_the_row_also_to_another_partition() -> None:
    flow = Flow("replica")
    flow.view("t", flow.table("t", "id int, name string", key="id", form="maxwell"))

    def maxwell(kind: str, id: int, **more: Any) -> dict[str, Any]:
        text = {"type": kind, "ts": 1, "data": {"id": id, "name": "ada"}, **more}
        return {"key": json.dumps({"database": "d", "table": "t", "pk.id": id}), "json": json.dumps(text)}

    for moves in ((1, 2), (2, 1), (3, 4), (4, 3), (5, 9)):
        steps = [maxwell("insert", moves[0]), maxwell("update", moves[1], old={"id": moves[0]})]
        script = [Append("t", [step]) for step in steps]
        for one in ([*script, Process()], [script[0], Process(), script[1], Process()]):
            assert run_flow(flow, one, partitions=4).views["t"] == [{"id": moves[1], "name": "ada"}]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"form": "debesium"}, "form cannot be 'debesium'"),
        ({"form": 7}, "form cannot be 7"),
        ({"form": "debezium", "times": "s"}, "times cannot be 's'"),
        ({"form": "debezium", "decimals": "double"}, "decimals cannot be 'double'"),
        ({"form": "maxwell", "times": "ms"}, "times is for form='debezium'"),
        ({"form": "debezium", "of": "shop.users"}, "of='shop.users' is for form='maxwell'"),
        ({"form": "maxwell", "of": "users"}, "of cannot be 'users'"),
        ({"times": "ms"}, "times is for a table inside messages"),
        ({"form": "debezium", "schema": None}, "table 'users' needs a schema"),
        ({"form": "debezium", "schema": "id int, place struct<x:int>"}, "column 'place' is struct<x:int>"),
        ({"form": "debezium", "key": None}, "table 'users' needs a key"),
        ({"form": "debezium", "topic": TopicSpec("users", "id int")}, "topic 'users' has no messages"),
    ],
)
def test_declarations_that_are_refused(options: dict[str, Any], said: str) -> None:
    asked = {"topic": "users", "schema": USERS, "key": "id", **options}
    with pytest.raises(Invalid) as error:
        Flow("f").table(**asked)
    assert said in str(error.value)


def test_topics_that_are_refused(tmp_path: Any) -> None:
    with River(tmp_path / "river") as river:
        river.topic("users", "json string")
        with pytest.raises(Conflict, match="4 partitions and no key"):
            open_inputs(river, replica())
        assert "4 partitions and no key" in str(plan_flow(replica(), river).reason)
    with River(tmp_path / "other") as river:
        river.topic("users", "id bigint, name string")
        with pytest.raises(Conflict, match="no column 'json'"):
            open_inputs(river, replica())
    with River(tmp_path / "made") as river:
        made = open_inputs(river, replica())["users"]
        assert (made.spec.schema, made.spec.key, made.spec.null_keys) == ("key string, json string", ("key",), True)
        assert plan_flow(replica(), river).run == "starts"


def test_the_form_is_part_of_the_fingerprint() -> None:
    def of(**options: Any) -> str:
        flow = Flow("f")
        flow.view("v", flow.table("users", USERS, key="id", **options))
        return fingerprints(flow.nodes)["table-users"]

    told: list[dict[str, Any]] = [{}, {"form": "debezium"}, {"form": "maxwell"}, {"form": "debezium", "times": "us"}]
    assert len({of(**options) for options in told}) == len(told)
    # as it was before there were forms: state that is there stays good
    assert of() == "6d8f8068bd524626dc3b563e8da791ce9ac78b90b9a8e017d56368c2866ae955"


def test_the_picture_says_the_form() -> None:
    assert 'n0[("users (debezium)")]' in replica().render()
