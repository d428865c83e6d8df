"""Topics from the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

ROW = '{"id":%d,"user":"%s","amount":1.5,"at":"2026-01-01T10:%02d:00Z"}\n'


@pytest.fixture
def filled(orders: Any, tmp_path: Path) -> Any:
    (tmp_path / "a.ndjson").write_text("".join(ROW % (i, "ab"[i % 2], i) for i in range(30)))
    assert orders("topic", "append", "orders", "a.ndjson", "--batch", "5").code == 0
    return orders


def test_create_and_describe(riverrun: Any, tmp_path: Path) -> None:
    options = ["--key", "a,b", "--time", "at", "--producers", "b", "--partitions", "2", "--retention", "none"]
    more = ["--retention-bytes", "10GB", "--compact", "--fsync", "200 ms", "--compression", "lz4", "--archive", "old"]
    schema = "a int, b string, at timestamp"
    made = riverrun("topic", "create", "t", "--schema", schema, *options, *more, "--json").json
    assert made["created"] is True
    found = riverrun("topic", "describe", "t", "--json").json
    assert (found["key"], found["time"], found["producers"]) == (["a", "b"], "at", "b")
    assert (found["retention"], found["retention_bytes"], found["compact"]) == (None, 10_000_000_000, True)
    assert (found["fsync"], found["archive"]) == (0.2, str(tmp_path / "old"))
    assert list(found["partitions"]) == ["0", "1"]
    assert riverrun("topic", "create", "t", "--schema", schema, "--json").json["created"] is False
    assert "exists with partitions=2" in riverrun("topic", "create", "t", "--schema", schema, "--partitions", "3").error
    assert riverrun("topic", "create", "t", "--schema", f"{schema}, c double").code == 0
    shown = riverrun("topic", "describe", "t").out
    assert "c double  (version 2)" in shown
    assert "within 200 ms" in shown
    assert "the newest row of every key, at most 10 GB" in shown


def test_list(filled: Any) -> None:
    filled("topic", "create", "other", "--schema", "a int")
    assert [(one["name"], one["offsets"]) for one in filled("topic", "list", "--json").json] == [
        ("orders", 30),
        ("other", 0),
    ]
    assert [one["name"] for one in filled("topic", "list", "oth*", "--json").json] == ["other"]
    table = filled("topic", "list").out
    assert "orders" in table
    assert not any(line.endswith(" ") for line in table.splitlines())
    assert filled("topic", "list", "x*").out == "no topics like x*\n"


def test_list_survives_a_topic_that_is_damaged(filled: Any, tmp_path: Path) -> None:
    filled("topic", "create", "bad", "--schema", "a int")
    [schema] = tmp_path.glob("*/topics/bad/schema/1")
    schema.write_text('`a"b` int')
    found = filled("topic", "list", "--json").json
    assert [one["name"] for one in found] == ["bad", "orders"]
    assert "not a name for a column" in found[0]["error"]
    assert "not a name for" in filled("topic", "list").out


def test_read(filled: Any) -> None:
    rows = filled("topic", "read", "orders", "--json").lines
    assert sorted(row["id"] for row in rows) == list(range(30))
    assert {"_partition", "_offset", "_time", "_received", "_key", "_deleted"} <= rows[0].keys()
    assert len(filled("topic", "read", "orders", "--json", "--limit", "7").lines) == 7
    assert filled("topic", "read", "orders", "--limit", "0").out == ""
    bare = filled("topic", "read", "orders", "--json", "--bare").lines
    assert set(bare[0]) == {"id", "user", "amount", "price", "at", "tags"}
    assert filled("topic", "read", "orders", "--json", "--columns", "id", "--limit", "1").lines == [
        {"id": rows[0]["id"]}
    ]
    part = filled(
        "topic", "read", "orders", "--json", "--start", "2026-01-01 10:10", "--end", "2026-01-01T10:20Z"
    ).lines
    assert sorted(row["id"] for row in part) == list(range(10, 20))
    assert filled("topic", "read", "orders", "--json", "--start", "latest").lines == []
    assert len(filled("topic", "read", "orders", "--json", "--start", "1000 weeks ago").lines) == 30
    partition = rows[0]["_partition"]
    some = filled("topic", "read", "orders", "--json", "--start", f"orders@{partition}:10").lines
    assert min(row["_offset"] for row in some if row["_partition"] == partition) == 10
    lines = filled("topic", "read", "orders", "--columns", "amount").out.splitlines()
    assert len(lines) == 30
    assert lines[0].startswith("2026-01-01 10:0")
    assert lines[0].endswith("amount=1.5")


def test_what_cannot_be_read(filled: Any) -> None:
    assert "Did you mean 'amount'?" in filled("topic", "read", "orders", "--columns", "amuont").error
    assert "not a position or a time: 'yesterday'" in filled("topic", "read", "orders", "--start", "yesterday").error
    assert "says nothing about topic orders" in filled("topic", "read", "orders", "--start", "other@0:1").error
    assert "beyond the end" in filled("topic", "read", "orders", "--start", "orders@0:99999").error
    assert "Did you mean 'orders'?" in filled("topic", "read", "ordres").error


def test_one_topic_into_another(filled: Any, tmp_path: Path) -> None:
    (tmp_path / "b.ndjson").write_text(filled("topic", "read", "orders", "--json", "--bare").out)
    schema = filled("topic", "describe", "orders", "--json").json["schema"]
    filled("topic", "create", "again", "--schema", schema, "--key", "user", "--time", "at")
    assert filled("topic", "append", "again", "b.ndjson", "--json").json["rows"] == 30


def test_tail_shows_what_came_last(filled: Any) -> None:
    assert sorted(row["id"] for row in filled("topic", "tail", "orders", "-n", "5", "--json").lines) == list(
        range(25, 30)
    )
    assert len(filled("topic", "tail", "orders").out.splitlines()) == 10
    assert filled("topic", "tail", "orders", "-n", "0").out == ""
    assert len(filled("topic", "tail", "orders", "-n", "1000").out.splitlines()) == 30


def test_nothing_of_a_row_reaches_the_terminal_as_control(riverrun: Any, tmp_path: Path) -> None:
    riverrun("topic", "create", "t", "--schema", "s string", "--key", "s")
    (tmp_path / "a.ndjson").write_text('{"s":"\\u001b[2J\\u0007\\r\\nx\\u009b\\u202e"}\n')
    assert riverrun("topic", "append", "t", "a.ndjson").code == 0
    shown = riverrun("topic", "tail", "t").out
    assert "\\x1b[2J\\x07\\r\\nx\\x9b\\u202e" in shown
    assert shown.isprintable() or shown.rstrip("\n").isprintable()


def test_compact_retain_repair(riverrun: Any, tmp_path: Path) -> None:
    riverrun("topic", "create", "t", "--schema", "k string, v int", "--key", "k", "--compact")
    (tmp_path / "a.ndjson").write_text("".join(f'{{"k":"{i % 3}","v":{i}}}\n' for i in range(300)))
    riverrun("topic", "append", "t", "a.ndjson")
    done = riverrun("topic", "compact", "t", "--json").json
    assert (done["kept"], done["removed"]) == (3, 297)
    assert sorted(row["v"] for row in riverrun("topic", "read", "t", "--json").lines) == [297, 298, 299]
    assert len(riverrun("topic", "tail", "t").out.splitlines()) == 3  # offsets with gaps between them
    assert riverrun("topic", "compact", "t").out.startswith("compacted t: ")
    assert [one["topic"] for one in riverrun("topic", "retain", "--json").json] == ["t"]
    assert riverrun("topic", "retain", "t").out.startswith("t: ")
    assert riverrun("topic", "repair", "t", "--json").json["topic"] == "t"
    assert "accepts writes" in riverrun("topic", "repair", "t").out


def test_drop(filled: Any) -> None:
    assert filled("topic", "drop", "orders").out == "dropped topic orders\n"
    assert filled("topic", "list", "--json").json == []
    assert "there is no topic 'orders'" in filled("topic", "drop", "orders").error


def test_every_type_comes_back_as_json_holds_it(riverrun: Any, tmp_path: Path) -> None:
    schema = (
        "n int, b boolean, f double, d decimal(8,2), day date, t timestamp, l timestamp_ntz, x binary,"
        " a array<int>, m map<string,int>, s struct<at:timestamp>"
    )
    rows = (
        '{"n":1,"b":true,"f":0.5,"d":"1.50","day":"2026-01-31","t":"2026-01-31T12:00:00.25Z","l":"2026-01-31T12:00:00",'
        '"x":"aGk=","a":[1,null],"m":{"k":1},"s":{"at":"2026-01-31T12:00:00Z"}}\n{"n":null}\n'
    )
    riverrun("topic", "create", "t", "--schema", schema, "--partitions", "1")
    (tmp_path / "a.ndjson").write_text(rows)
    assert riverrun("topic", "append", "t", "a.ndjson").code == 0
    first, second = riverrun("topic", "read", "t", "--json", "--bare").lines
    assert first == {
        "n": 1,
        "b": True,
        "f": 0.5,
        "d": "1.50",
        "day": "2026-01-31",
        "t": "2026-01-31T12:00:00.250000Z",
        "l": "2026-01-31T12:00:00",
        "x": "aGk=",
        "a": [1, None],
        "m": {"k": 1},
        "s": {"at": "2026-01-31T12:00:00Z"},
    }
    assert set(second.values()) == {None}
