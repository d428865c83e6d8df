"""Specs: what a topic may be declared as, and when two declarations say the same."""

from __future__ import annotations

import contextlib
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from riverrun.errors import Conflict, Invalid
from riverrun.log.spec import UNSET, TopicSpec
from riverrun.river import River

SCHEMA = "user string, amount double, at timestamp, device string"


@pytest.mark.parametrize("name", ["orders", "a", "A-1_b.c", "x" * 200, "...", "-", "shop.dead.emails"])
def test_names(name: str) -> None:
    assert TopicSpec(name).name == name


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a/b", "../x", "a\\b", "a b", "a\n", "a\x00", "é", "x" * 201, "a@0:1", "*", None, 5, b"a"]
)
def test_hostile_names(name: Any) -> None:
    with pytest.raises(Invalid, match="cannot be the name of a topic"):
        TopicSpec(name)


def test_what_is_left_out_gets_a_default_when_the_topic_is_made() -> None:
    spec = TopicSpec("t", SCHEMA).resolve()
    assert (spec.key, spec.time, spec.producers, spec.partitions) == ((), None, None, 4)
    assert (spec.retention, spec.retention_bytes, spec.compact, spec.fsync) == (timedelta(days=7), None, False, "batch")
    assert (spec.compression, spec.archive) == (None, None)


def test_a_compacted_topic_keeps_its_rows_for_ever_unless_told_otherwise() -> None:
    assert TopicSpec("t", SCHEMA, key="user", compact=True).resolve().retention is None
    assert TopicSpec("t", SCHEMA, key="user", compact=True, retention="1 day").resolve().retention == timedelta(1)


def test_durations_and_sizes_are_read() -> None:
    spec = TopicSpec("t", SCHEMA, retention="2 hours", retention_bytes="10 MiB", fsync="200 ms")
    assert spec.retention == timedelta(hours=2)
    assert spec.retention_bytes == 10 << 20
    assert spec.fsync == timedelta(milliseconds=200)
    assert TopicSpec("t", SCHEMA, retention=None).retention is None


def test_a_key_is_a_name_or_several() -> None:
    assert TopicSpec("t", key="user").key == TopicSpec("t", key=["user"]).key == ("user",)
    assert TopicSpec("t", key=["user", "device"]).key == ("user", "device")
    assert TopicSpec("t", key=None).key == ()
    assert TopicSpec("t").key is UNSET


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"schema": "user strng"}, "strng"),
        ({"schema": ""}, "schema"),
        ({"schema": "_hidden string"}, "_hidden"),
        ({"key": "usr"}, "key 'usr' is not a column. Did you mean 'user'"),
        ({"key": ["user", "user"]}, "names a column twice"),
        ({"key": "amount"}, "key 'amount' cannot be double"),
        ({"time": "user"}, "time 'user' cannot be string"),
        ({"time": "when"}, "time 'when' is not a column"),
        ({"producers": "amount"}, "producers 'amount' cannot be double"),
        ({"partitions": 0}, "partitions must be from 1 to 1024"),
        ({"partitions": 1025}, "partitions"),
        ({"partitions": 2.0}, "partitions"),
        ({"partitions": True}, "partitions"),
        ({"retention": "soon"}, "not a duration"),
        ({"retention": -1}, "negative"),
        ({"retention_bytes": "much"}, "not a size"),
        ({"fsync": "always"}, "not a duration"),
        ({"compression": "zip"}, "compression is None or 'lz4'"),
        ({"compact": True}, "needs a key"),
        ({"compact": "yes"}, "compact is True or False, not 'yes'"),
        ({"schema": 5}, "schema cannot be 5"),
        ({"key": 5}, "key cannot be 5"),
        ({"key": ["user", None, 5]}, "key cannot be 5"),
        ({"time": 5}, "time cannot be 5"),
        ({"producers": 5}, "producers cannot be 5"),
        ({"archive": 5}, "archive cannot be 5"),
        ({"schema": '`a"b` string'}, "not a name for a column: 'a\"b'"),
        ({"schema": "`a\\\\b` string"}, "not a name for a column"),
        ({"schema": "`a\nb` string"}, "not a name for a column"),
        ({"schema": 'x map<string,array<struct<`a"b`: int>>>'}, "not a name for a column"),
    ],
)
def test_what_cannot_be_declared(options: dict[str, Any], message: str) -> None:
    with pytest.raises(Invalid, match=message):
        TopicSpec(**{"name": "t", "schema": SCHEMA, **options}).resolve()


def test_a_name_that_cannot_be_leaves_nothing_behind(tmp_path: Path) -> None:
    with River(tmp_path / "river") as river:
        with pytest.raises(Invalid, match="not a name for a column"):
            river.topic("bad", '`a"b` string')
        assert river.topics() == []
        assert river.topic("bad", "a string").latest


def test_an_archive_is_the_same_place_wherever_a_process_is_started(tmp_path: Path) -> None:
    with contextlib.chdir(tmp_path):
        assert TopicSpec("t", archive="cold").archive == f"{tmp_path}/cold"
    assert TopicSpec("t", archive=tmp_path / "cold").archive == f"{tmp_path}/cold"


def test_a_topic_cannot_be_made_without_a_schema() -> None:
    with pytest.raises(Invalid, match="no schema was given"):
        TopicSpec("t").resolve()


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"key": ["user", "device"], "time": "at", "producers": "device", "partitions": 7},
        {"retention": "90 minutes", "retention_bytes": "1 GiB", "fsync": "5 ms", "compression": "lz4"},
        {"retention": None, "key": "user", "compact": True, "fsync": "os", "archive": "/var/archive"},
    ],
)
def test_options_survive_json(options: dict[str, Any]) -> None:
    spec = TopicSpec("t", SCHEMA, **options).resolve()
    assert TopicSpec(schema=spec.schema, **json.loads(json.dumps(spec.options()))).resolve() == spec
    assert TopicSpec.of(spec).resolve() == spec


def test_a_declaration_that_leaves_things_out_is_no_mismatch() -> None:
    stored = TopicSpec("t", SCHEMA, key="user", time="at", retention="1 day").resolve()
    TopicSpec("t").check_same(stored)
    TopicSpec("t", key="user").check_same(stored)
    TopicSpec("t", retention="24 hours", partitions=4).check_same(stored)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"key": "device"}, r"exists with key=\('user',\), not \('device',\)"),
        ({"key": None}, r"key=\('user',\)"),
        ({"time": None}, "time='at', not None"),
        ({"partitions": 5}, "partitions=4, not 5"),
        ({"retention": None}, "retention="),
        ({"fsync": "os"}, "fsync='batch', not 'os'"),
    ],
)
def test_a_declaration_that_says_something_else_is_a_conflict(options: dict[str, Any], message: str) -> None:
    stored = TopicSpec("t", SCHEMA, key="user", time="at", retention="1 day").resolve()
    with pytest.raises(Conflict, match=message):
        TopicSpec("t", **options).check_same(stored)


def grown(stored: str, declared: str) -> str | None:
    spec = TopicSpec("t", stored).resolve().grow(declared)
    return None if spec is None else spec.schema


def test_a_schema_may_grow_at_its_end() -> None:
    assert grown("a int, b string", "a int, b string") is None
    assert grown("a int", "a INT,  b string") == "a int, b string"
    assert grown("a int", "a int, b struct<x:int NOT NULL>, c array<int>")


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ("a int", "leaves out 'b'"),
        ("a bigint, b string", "column 'a' is 'a int', not 'a bigint'"),
        ("a int NOT NULL, b string", "column 'a'"),
        ("b string, a int", "another order"),
        ("a int, c int, b string", "go after the 2 there are"),
        ("a int, b string, c int NOT NULL", "must be nullable: 'c'"),
    ],
)
def test_a_schema_may_not_change_otherwise(declared: str, message: str) -> None:
    with pytest.raises(Conflict, match=message):
        grown("a int, b string", declared)


def test_a_new_column_may_not_have_a_name_that_rows_have_already() -> None:
    with pytest.raises(Invalid, match=r"'_offset'.*Riverrun's own"):
        grown("a int", "a int, _offset bigint")


def test_a_topic_is_declared_by_the_spec_of_another(tmp_path: Path) -> None:
    with River(tmp_path / "one") as one, River(tmp_path / "two") as two:
        orders = one.topic("orders", SCHEMA, key="user", time="at", partitions=3, fsync="5 ms", retention=None)
        assert two.topic(orders.spec).spec == orders.spec
        assert one.topic(orders.spec) is orders


@pytest.mark.parametrize("more", [{"schema": "a int"}, {"key": None}, {"partitions": 4}])
def test_what_a_spec_says_is_not_said_again(tmp_path: Path, more: dict[str, Any]) -> None:
    with River(tmp_path / "river") as river:
        with pytest.raises(Invalid, match=f"topic t: {next(iter(more))} is for its TopicSpec to say"):
            river.topic(TopicSpec("t", SCHEMA), **more)
        assert river.topics() == []
