"""Files into topics: good ones whole, bad lines named, nothing half, nothing twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

GOOD = '{"id":%d,"user":"ada","at":"2026-01-01T10:00:00Z"}\n'


def ids(riverrun: Any, topic: str = "orders") -> list[int]:
    return sorted(row["id"] for row in riverrun("topic", "read", topic, "--json").lines)


def test_ndjson(orders: Any, tmp_path: Path) -> None:
    (tmp_path / "a.ndjson").write_text(GOOD % 1 + "\n" + GOOD % 2 + (GOOD % 3).rstrip())
    result = orders("topic", "append", "orders", "a.ndjson", "--json").json
    assert (result["rows"], result["skipped"], result["resumed"]) == (3, 0, 0)
    assert result["position"].startswith("orders@")
    assert ids(orders) == [1, 2, 3]


BAD = {
    "NaN": (b'{"id":1,"user":"a","amount":NaN}', "NaN is not JSON"),
    "Infinity": (b'{"id":1,"user":"a","amount":-Infinity}', "-Infinity is not JSON"),
    "huge int": (b'{"id":123456789012345678901234567890,"user":"a","at":"2026-01-01T10:00:00Z"}', "'id'"),
    "huge float": (b'{"id":1,"amount":1e999}', "out of range"),
    "bad UTF-8": (b'{"id":1,"user":"\xff"}', "not UTF-8"),
    "byte order mark": (b'\xef\xbb\xbf{"id":1}', "byte order mark"),
    "NUL": (b'{"id":1,"user":"a\x00b"}', "NUL"),
    "a name twice": (b'{"id":1,"user":"a","id":2,"at":"2026-01-01T10:00:00Z"}', "'id' is given twice"),
    "a name twice, spaced": (b'{"id" :1,"user":"a","id":2,"at":"2026-01-01T10:00:00Z"}', "'id' is given twice"),
    "a name twice, escaped": (b'{"id":1,"user":"a","i\\u0064":2,"at":"2026-01-01T10:00:00Z"}', "'id' is given twice"),
    "depth bomb": (b'{"id":' + b"[" * 100_000, "deep"),
    "cut off": (b'{"id":1', "ends in the middle"),
    "two on a line": (b'{"id":1} {"id":2}', "trailing"),
    "no object": (b"[1]", "expected `object`"),
    "unknown column": (b'{"id":1,"usr":"a"}', "Did you mean 'user'?"),
    "wrong type": (b'{"id":"1","user":"a","at":"2026-01-01T10:00:00Z"}', "'id'"),
    "lossy number": (b'{"id":1.5,"user":"a","at":"2026-01-01T10:00:00Z"}', "'id'"),
    "lossy decimal": (b'{"id":1,"user":"a","price":"1.239","at":"2026-01-01T10:00:00Z"}', "'price'"),
    "no key": (b'{"id":1,"at":"2026-01-01T10:00:00Z"}', "'user'"),
    "no time": (b'{"id":1,"user":"a"}', "'at'"),
    "no zone": (b'{"id":1,"user":"a","at":"2026-01-01T10:00:00"}', "is a time without a zone. Give it one"),
    "before the first year": (
        b'{"id":1,"user":"a","at":"0001-01-01T00:00:00+23:59"}',
        "'at': a time outside the years",
    ),
    "lone surrogate": (b'{"id":1,"user":"\\ud800","at":"2026-01-01T10:00:00Z"}', ""),
}


@pytest.mark.parametrize("case", BAD)
def test_the_first_bad_line_stops_it_and_is_named(case: str, orders: Any, tmp_path: Path) -> None:
    line, why = BAD[case]
    text = (GOOD % 1).encode() + b"\n" + (GOOD % 2).encode() + line + b"\n" + (GOOD % 3).encode()
    (tmp_path / "a.ndjson").write_bytes(text)
    stopped = orders("topic", "append", "orders", "a.ndjson")
    assert stopped.out == ""  # no line about a success
    error = stopped.error
    assert error.startswith("a.ndjson, line 4"), error
    assert why in error
    assert error.endswith("(the 2 rows before it are in orders; --skip-bad passes over bad lines)")
    assert ids(orders) == [1, 2]


@pytest.mark.parametrize("case", BAD)
def test_bad_lines_can_be_skipped(case: str, orders: Any, tmp_path: Path) -> None:
    text = b"".join((GOOD % i).encode() + BAD[case][0] + b"\n" for i in range(5))
    (tmp_path / "a.ndjson").write_bytes(text)
    result = orders("topic", "append", "orders", "a.ndjson", "--skip-bad", "--json").json
    assert (result["rows"], result["skipped"]) == (5, 5)
    assert ids(orders) == [0, 1, 2, 3, 4]


def test_names_may_repeat_as_values_and_in_nested_objects(riverrun: Any, tmp_path: Path) -> None:
    riverrun("topic", "create", "t", "--schema", "id bigint, s string, n struct<id:bigint>")
    (tmp_path / "a.ndjson").write_text('{"id":1,"s":"\\"id\\":","n":{"id":2}}\n{"s":"id","id":3}\n')
    assert riverrun("topic", "append", "t", "a.ndjson").code == 0
    assert ids(riverrun, "t") == [1, 3]


def test_a_json_topic_takes_documents_as_they_are(riverrun: Any, tmp_path: Path) -> None:
    riverrun("topic", "create", "t", "--schema", "json string", "--partitions", "1")
    (tmp_path / "a.ndjson").write_text('{"a": 1.0}\n[1]\n{"json":"{}"}\n')
    assert riverrun("topic", "append", "t", "a.ndjson").code == 0
    assert [row["json"] for row in riverrun("topic", "read", "t", "--json").lines] == ['{"a": 1.0}', "[1]", "{}"]
    (tmp_path / "a.ndjson").write_text('{"a": }\n')
    assert "line 1" in riverrun("topic", "append", "t", "a.ndjson").error


def test_an_endless_line_is_refused_before_it_fills_the_memory(orders: Any, tmp_path: Path) -> None:
    (tmp_path / "a.ndjson").write_bytes((GOOD % 1).encode() + b" " * (9 << 20))
    assert "line 2 is longer than" in orders("topic", "append", "orders", "a.ndjson").error
    assert ids(orders) == [1]


def test_csv(orders: Any, tmp_path: Path) -> None:
    text = (
        "\ufeffid,user,amount,price,at,tags\r\n"
        "1,ada,1.5,2.50,2026-01-01T10:00:00Z,\r\n"
        '2,"a ""b""\nc",,1e1,2026-01-01 10:00Z,"[""x""]"\r\n'
        "\r\n"
        "3,ada,nan,,2026-01-01T00:00Z,\r\n"
        "4,ada,inf,,2026-01-01T12:00:00.25+02:00,\r\n"
    )
    (tmp_path / "a.csv").write_text(text, newline="")
    assert orders("topic", "append", "orders", "a.csv").code == 0
    rows = {row["id"]: row for row in orders("topic", "read", "orders", "--json").lines}
    assert [rows[i]["at"] for i in (1, 2, 3, 4)] == [
        "2026-01-01T10:00:00Z",
        "2026-01-01T10:00:00Z",
        "2026-01-01T00:00:00Z",
        "2026-01-01T10:00:00.250000Z",
    ]
    assert rows[2]["user"] == 'a "b"\nc'
    assert rows[2]["amount"] is None
    assert (rows[1]["price"], rows[2]["price"]) == ("2.50", "10.00")
    assert rows[2]["tags"] == ["x"]


BAD_CSV = {
    "not a number": ("x,ada,1,,2026-01-01T00:00Z", "'id'"),
    "huge int": ("123456789012345678901234567890,ada,1,,2026-01-01T00:00Z", "'id'"),
    "huge float": ("1,ada,1e999,,2026-01-01T00:00Z", "'amount'"),
    "too few": ("1,ada", "2 values, the header has 5"),
    "too many": ("1,ada,1,,2026-01-01T00:00Z,9", "6 values, the header has 5"),
    "lossy decimal": ("1,ada,1,1.239,2026-01-01T00:00Z", "'price'"),
    "not a time": ("1,ada,1,,yesterday", "'at': 'yesterday' is not a time. Write it as"),
    "no zone": ("1,ada,1,,2026-01-01 10:00", "'at': '2026-01-01 10:00' is a time without a zone"),
    "a number for a time": ("1,ada,1,,1769860800", "'at': '1769860800' is not a time. Write it as"),
    "bad UTF-8": ("1,\udcff,1,,2026-01-01T00:00Z", "not UTF-8"),
    "NUL": ("1,a\x00,1,,2026-01-01T00:00Z", "NUL"),
    "no key": ("1,,1,,2026-01-01T00:00Z", "'user'"),
    "after the last year": ("1,ada,1,,9999-12-31T23:59:59-23:59", "'at': a time outside the years"),
}


@pytest.mark.parametrize("case", BAD_CSV)
def test_bad_csv_lines_are_named(case: str, orders: Any, tmp_path: Path) -> None:
    line, why = BAD_CSV[case]
    good = '%d,"a\nb",1,,2026-01-01T00:00Z\n'
    text = "id,user,amount,price,at\n" + good % 1 + "\n" + good % 2 + line + "\n" + good % 3
    (tmp_path / "a.csv").write_bytes(text.encode("utf-8", "surrogateescape"))
    error = orders("topic", "append", "orders", "a.csv").error
    assert error.startswith("a.csv, line 7"), error
    assert why in error
    assert ids(orders) == [1, 2]
    assert orders("topic", "append", "orders", "a.csv", "--skip-bad", "--json").json["skipped"] == 1
    assert ids(orders) == [1, 1, 2, 2, 3]


def test_a_bad_line_is_not_announced_as_a_success(orders: Any, tmp_path: Path) -> None:
    (tmp_path / "a.ndjson").write_text('{"id": 1}\n')
    result = orders("topic", "append", "orders", "a.ndjson")
    assert (result.code, result.out) == (2, "")
    assert "(nothing was appended; --skip-bad passes over bad lines)" in result.error


def test_csv_with_times_as_the_topic_says(riverrun: Any, tmp_path: Path) -> None:
    ways = ("--naive", "utc", "--times", "s")
    riverrun("topic", "create", "clicks", "--schema", "at timestamp", "--partitions", "1", *ways)
    (tmp_path / "a.csv").write_text("at\n2026-01-31 12:00\n1769860800\n1769860800.5\n2026-01-31T13:00:00+01:00\n")
    assert riverrun("topic", "append", "clicks", "a.csv").code == 0
    noon = "2026-01-31T12:00:00Z"
    found = [row["at"] for row in riverrun("topic", "read", "clicks", "--json").lines]
    assert found == [noon, noon, "2026-01-31T12:00:00.500000Z", noon]
    assert "times without a zone are UTC; numbers are s since 1970" in riverrun("topic", "describe", "clicks").out


def test_bad_csv_headers(orders: Any, tmp_path: Path) -> None:
    for header, why in {"id,usr": "Did you mean 'user'?", "id,id": "twice", "": "empty"}.items():
        (tmp_path / "a.csv").write_text(f"{header}\n1,2\n")
        assert why in orders("topic", "append", "orders", "a.csv").error


def test_a_quoted_value_over_many_batches(orders: Any, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('id,user,at\n1,"' + "x\n" * 50 + '",2026-01-01T00:00Z\n2,ada,2026-01-01T00:00Z\n')
    assert orders("topic", "append", "orders", "a.csv", "--batch", "3").code == 0
    assert ids(orders) == [1, 2]


def test_parquet(orders: Any, tmp_path: Path) -> None:
    table = pa.table({"id": [1, 2, 3], "user": ["a", "b", None], "at": pa.array([0, 1, 2], pa.timestamp("us", "UTC"))})
    pq.write_table(table.slice(0, 2), tmp_path / "good.parquet")
    pq.write_table(table, tmp_path / "bad.parquet")
    assert orders("topic", "append", "orders", "good.parquet", "--json").json["rows"] == 2
    assert "row 3, column 'user'" in orders("topic", "append", "orders", "bad.parquet").error
    late = table.set_column(2, "at", pa.array([0, 1 << 60, 2]).cast(pa.timestamp("us", "UTC")))
    pq.write_table(late, tmp_path / "late.parquet")
    assert "row 2, column 'at': a time outside the years" in orders("topic", "append", "orders", "late.parquet").error
    (tmp_path / "no.parquet").write_bytes(b"PAR1 something else")
    assert "not a Parquet file" in orders("topic", "append", "orders", "no.parquet").error


def test_the_same_command_again_appends_nothing_twice(orders: Any, tmp_path: Path) -> None:
    file = tmp_path / "a.ndjson"
    file.write_text("".join(GOOD % i for i in range(100)))
    again = ("topic", "append", "orders", "a.ndjson", "--producer", "load", "--json")
    assert orders(*again, "--batch", "30").json["rows"] == 100
    assert orders(*again, "--batch", "7").json["resumed"] == 100
    with file.open("a") as more:
        more.writelines(GOOD % i for i in range(100, 130))
    assert orders(*again, "--batch", "50").json["rows"] == 30
    assert ids(orders) == list(range(130))


@pytest.mark.parametrize("place", ["append.written:3=kill", "append.published:3=kill"])
def test_the_same_command_after_a_kill_appends_nothing_twice(place: str, orders: Any, tmp_path: Path) -> None:
    (tmp_path / "a.ndjson").write_text("".join(GOOD % i for i in range(100)))
    again = ("topic", "append", "orders", "a.ndjson", "--producer", "load", "--batch", "10")
    killed = subprocess.run(
        [sys.executable, "-m", "riverrun.cli", *again], env={**os.environ, "RIVERRUN_FAILPOINTS": place}, check=False
    )
    assert killed.returncode == -signal.SIGKILL
    assert orders(*again, "--json").json["rows"] in (70, 80)
    assert ids(orders) == list(range(100))


def test_after_a_bad_line_was_corrected_it_goes_on(orders: Any, tmp_path: Path) -> None:
    lines = [GOOD % i for i in range(50)]
    (tmp_path / "a.ndjson").write_text("".join([*lines[:20], "{\n", *lines[21:]]))
    again = ("topic", "append", "orders", "a.ndjson", "--producer", "load", "--batch", "8")
    assert "line 21" in orders(*again).error
    (tmp_path / "a.ndjson").write_text("".join(lines))
    assert orders(*again).code == 0
    assert ids(orders) == list(range(50))


def test_what_cannot_be_read(orders: Any, tmp_path: Path) -> None:
    assert "No such file" in orders("topic", "append", "orders", "nowhere.ndjson").error
    assert orders("topic", "append", "orders", "nofile").error == "nofile: No such file or directory"
    (tmp_path / "a.txt").touch()
    assert "--format" in orders("topic", "append", "orders", "a.txt").error
    assert "ndjson, csv, parquet" in orders("topic", "append", "orders", "a.txt", "--format", "xml").error
    (tmp_path / "a.csv").touch()
    assert orders("topic", "append", "orders", "a.csv", "--json").json["rows"] == 0


def test_a_pipe_is_not_held_up_until_a_batch_is_full(orders: Any, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "riverrun.cli", "topic", "append", "orders", "-"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=os.environ) as process:
        assert process.stdin is not None
        process.stdin.write((GOOD % 1).encode())
        process.stdin.flush()
        from riverrun.position import Position
        from riverrun.river import River

        with River(tmp_path / "river") as river:
            assert river.topic("orders").wait(Position(), timeout="20 seconds")
        process.stdin.write((GOOD % 2).encode())
        process.stdin.close()
        assert process.wait(20) == 0
    assert ids(orders) == [1, 2]
